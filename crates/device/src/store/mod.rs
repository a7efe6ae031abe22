//! The content of the drive: the present one in memory, and the durable one in a backing file, if there is one.
//!
//! The caller decides which is which: `write` and `zero` change the present content, `write_back` the
//! durable one. Content of a backing file is read when it is first needed.

mod backing;
mod bits;
mod content;
mod sync;

use std::collections::BTreeSet;
use std::ops::Range;

pub use backing::{Backing, NewFile, status};
pub use content::Content;
pub use sync::Syncer;

use crate::command::Extent;
use crate::{Error, Status};
use bits::Bits;

/// Unit in which the backing file is read, and in which dirty content is tracked.
const UNIT_BYTES: u64 = 4096;

pub struct Store {
    pub present: Content,
    backing: Option<Backing>,
    /// Units in memory; without a backing file all are.
    loaded: Bits,
    /// Units that may hold anything but zeroes.
    allocated: Bits,
    /// Units that are durable in the model, but that the backing file refused.
    dirty: BTreeSet<u64>,
    size_bytes: u64,
}

impl Store {
    /// A drive of zeroes, or what a backing file holds.
    pub fn new(size_bytes: u64, backing: Option<Backing>) -> Result<Self, Error> {
        let units = if backing.is_some() { size_bytes.div_ceil(UNIT_BYTES) } else { 0 };
        let mut allocated = Bits::new(size_bytes.div_ceil(UNIT_BYTES));
        if let Some(backing) = &backing {
            backing.each_data_range(|range| {
                allocated.set(range.start / UNIT_BYTES..range.end.div_ceil(UNIT_BYTES));
            });
        }
        Ok(Self {
            present: Content::new(size_bytes)?,
            loaded: Bits::new(units),
            allocated,
            backing,
            dirty: BTreeSet::new(),
            size_bytes,
        })
    }

    pub fn backing(&self) -> Option<&Backing> {
        self.backing.as_ref()
    }

    /// The present content of a range that was loaded.
    pub fn present(&self, offset_bytes: u64, length_bytes: u64) -> &[u8] {
        let from = offset_bytes as usize;
        &self.present.bytes()[from..from + length_bytes as usize]
    }

    /// Fetches the beginning of a range that is about to be read; see [`Content::fetch`].
    pub fn fetch(&self, offset_bytes: u64, length_bytes: u64) {
        self.present.fetch(offset_bytes as usize, length_bytes as usize);
    }

    /// Reads what of a range is not in memory yet.
    pub fn load(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Status> {
        let Some(backing) = &self.backing else {
            return Ok(());
        };
        let units = units(offset_bytes, length_bytes);
        let mut from = units.start;
        while let Some(run) = self.loaded.missing(from..units.end) {
            let begin = (run.start * UNIT_BYTES) as usize;
            let end = (run.end * UNIT_BYTES).min(self.size_bytes) as usize;
            backing.read(begin as u64, &mut self.present.bytes_mut()[begin..end])?;
            from = run.end;
            self.loaded.set(run);
        }
        Ok(())
    }

    /// Loads the units at the ends of a range, which a write changes only in part.
    pub fn load_ends(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Status> {
        if self.backing.is_none() || length_bytes == 0 {
            return Ok(());
        }
        let end = offset_bytes + length_bytes;
        if offset_bytes % UNIT_BYTES != 0 {
            self.load(offset_bytes, 1)?;
        }
        if end % UNIT_BYTES != 0 && end != self.size_bytes {
            self.load(end - 1, 1)?;
        }
        Ok(())
    }

    /// Changes the present content of a range whose ends are loaded.
    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) {
        let from = offset_bytes as usize;
        self.present.bytes_mut()[from..from + data.len()].copy_from_slice(data);
        self.allocated.set(units(offset_bytes, data.len() as u64));
        self.mark_loaded(offset_bytes, data.len() as u64);
    }

    /// Makes zeroes of a range whose ends are loaded.
    pub fn zero(&mut self, offset_bytes: u64, length_bytes: u64) {
        self.present.zero(offset_bytes as usize, length_bytes as usize);
        self.allocated.clear(self.whole_units(offset_bytes, length_bytes));
        self.mark_loaded(offset_bytes, length_bytes);
    }

    fn mark_loaded(&mut self, offset_bytes: u64, length_bytes: u64) {
        if self.backing.is_some() {
            self.loaded.set(units(offset_bytes, length_bytes));
        }
    }

    /// The present content of a range is durable: writes it to the backing file.
    pub fn write_back(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Status> {
        let bytes = self.present(offset_bytes, length_bytes);
        let done = self.backing.as_ref().map_or(Ok(()), |backing| backing.write(offset_bytes, bytes));
        self.track_dirty(offset_bytes, length_bytes, done)
    }

    /// Older content of a range is durable: writes it to the backing file.
    pub fn write_back_bytes(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), Status> {
        let done = self.backing.as_ref().map_or(Ok(()), |backing| backing.write(offset_bytes, bytes));
        self.track_dirty(offset_bytes, bytes.len() as u64, done)
    }

    /// Zeroes of a range are durable.
    pub fn write_back_zeroes(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Status> {
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        // A trim that failed leaves nothing dirty: its command fails.
        backing.zero(offset_bytes, length_bytes)?;
        self.track_dirty(offset_bytes, length_bytes, Ok(()))
    }

    /// Writes a part of the table behind the content of the backing file, where there is one that can be written.
    pub fn write_table(&self, at: u64, bytes: &[u8]) -> Result<(), Status> {
        match &self.backing {
            Some(backing) if !backing.read_only() => backing.write_table(at, bytes),
            _ => Ok(()),
        }
    }

    fn track_dirty(&mut self, offset_bytes: u64, length_bytes: u64, done: Result<(), Status>) -> Result<(), Status> {
        if done.is_err() {
            self.dirty.extend(units(offset_bytes, length_bytes));
        } else if !self.dirty.is_empty() {
            // A unit is clean only if the range covers it entirely.
            let whole = self.whole_units(offset_bytes, length_bytes);
            while let Some(&unit) = self.dirty.range(whole.clone()).next() {
                self.dirty.remove(&unit);
            }
        }
        done
    }

    /// The units that a range covers entirely.
    fn whole_units(&self, offset_bytes: u64, length_bytes: u64) -> Range<u64> {
        let first = offset_bytes.div_ceil(UNIT_BYTES);
        let end = offset_bytes + length_bytes;
        let end = if end == self.size_bytes { end.div_ceil(UNIT_BYTES) } else { end / UNIT_BYTES };
        first..end.max(first)
    }

    /// How much of a range that is not empty is alike from its beginning on: allocated, or a hole.
    pub fn extent(&self, offset_bytes: u64, length_bytes: u64) -> Extent {
        let units = units(offset_bytes, length_bytes);
        let is_allocated = self.allocated.is_set(units.start);
        let end_bytes = self.allocated.run_end(is_allocated, units) * UNIT_BYTES;
        Extent { length_bytes: end_bytes.min(offset_bytes + length_bytes) - offset_bytes, is_allocated }
    }

    /// The first dirty unit that a range touches: its offset and length, bytes.
    pub fn first_dirty_unit(&self, range: Range<u64>) -> Option<(u64, u64)> {
        let length_bytes = range.end.saturating_sub(range.start);
        let unit = *self.dirty.range(units(range.start, length_bytes)).next()?;
        let offset_bytes = unit * UNIT_BYTES;
        Some((offset_bytes, UNIT_BYTES.min(self.size_bytes - offset_bytes)))
    }

    /// Whether any unit is dirty.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }
}

fn units(offset_bytes: u64, length_bytes: u64) -> Range<u64> {
    offset_bytes / UNIT_BYTES..(offset_bytes + length_bytes).div_ceil(UNIT_BYTES)
}
