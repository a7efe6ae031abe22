//! Zones of the drive: what is refused, how far they are durable, and what survives.
//!
//! A write pointer moves when the write arrives, as the content changes then. Writes of one zone are answered in the
//! order of their addresses: what is answered as durable is then never behind a gap, and after a power loss the write
//! pointer is where the durable content ends.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use ioassay_block::Kind;

use super::EmulatedDrive;
use crate::command::{Command, Op, Status};
use crate::zones::{ZoneAction, Zones};

/// A write that is not answered.
#[derive(Debug)]
struct PendingWrite {
    slot: u32,
    /// When it was done, if it waits for others before it.
    done_ps: Option<u64>,
    /// Whether the flush that makes it durable was begun.
    is_flushed: bool,
}

/// The zones, and their writes that are not answered.
pub(super) struct Zoned {
    pub zones: Zones,
    pending: BTreeMap<u32, VecDeque<PendingWrite>>,
    /// The backing file refused the table.
    is_table_stale: bool,
}

impl EmulatedDrive {
    /// Makes it a zoned drive, before it is served. What lies behind the write pointers is discarded: a drive that
    /// was killed may have left something there.
    pub fn set_zones(&mut self, zones: Zones) {
        for (number, zone) in (0..).zip(zones.all()) {
            let zone_end = zones.start_bytes(number) + zones.geometry().zone_bytes;
            self.discard(zone.write_pointer_bytes..zone_end);
            if let Some(model) = &mut self.model {
                model.discard(zone.write_pointer_bytes..zone_end);
            }
        }
        self.zoned = Some(Zoned { zones, pending: BTreeMap::new(), is_table_stale: false });
        self.store_table();
        self.reset_counters();
    }

    /// Why the zones refuse a command.
    pub(super) fn zone_error(&self, command: &Command) -> Option<Status> {
        let zones = &self.zoned.as_ref()?.zones;
        let (offset, length) = (command.offset_bytes, command.length_bytes);
        if length == 0 {
            return None;
        }
        let checked = match command.op {
            Op::Read => zones.check_read(offset..offset + length),
            Op::Write | Op::WriteZeroes => zones.check_write(offset, length),
            Op::Trim => zones.check_deallocate(offset..offset + length),
            Op::Flush | Op::Zone(..) => Ok(()),
        };
        checked.err().map(Status::Zone)
    }

    /// A command that the zones let through was begun, or failed.
    pub(super) fn note_in_zone(&mut self, slot: u32, command: &Command, has_begun: bool) {
        let Some(zoned) = &mut self.zoned else {
            return;
        };
        let (offset, length) = (command.offset_bytes, command.length_bytes);
        if !matches!(command.op, Op::Write | Op::WriteZeroes) || length == 0 {
            return;
        }
        if !has_begun {
            // A backing file that failed may have left some of it behind the write pointer.
            self.discard_unwritten(offset..offset + length);
            return;
        }
        zoned.zones.write(offset, length);
        let number = zoned.zones.number(offset);
        zoned.pending.entry(number).or_default().push_back(PendingWrite { slot, done_ps: None, is_flushed: false });
    }

    /// Changes zones. What a reset discards is trimmed.
    pub(super) fn manage_zones(
        &mut self,
        slot: u32,
        command: &Command,
        action: ZoneAction,
        is_of_all: bool,
        now_ps: u64,
    ) -> Result<(), Status> {
        let page_bytes = self.page_bytes();
        let Some(zoned) = &mut self.zoned else {
            return Err(Status::OutOfRange);
        };
        let before = zoned.zones.all().to_vec();
        let start = (!is_of_all).then_some(command.offset_bytes);
        let reset = zoned.zones.manage(action, start).map_err(Status::Zone)?;
        let starts = reset.iter().map(|&number| zoned.zones.start_bytes(number));
        let trimmed: Vec<(u64, u64)> = starts
            .zip(&reset)
            .map(|(start, &number)| {
                let written = before[number as usize].write_pointer_bytes - start;
                (start, written.next_multiple_of(page_bytes))
            })
            .collect();
        match start {
            Some(start) => {
                let number = zoned.zones.number(start);
                self.store_entry(number);
            }
            None => self.store_table(),
        }
        for range in trimmed.into_iter().filter(|range| range.1 > 0) {
            self.trim(slot, range, false, now_ps)?;
        }
        Ok(())
    }

    /// A zone is worn out where this range lies: it can only be read from now on.
    pub(super) fn wear_zones(&mut self, range: Range<u64>) {
        let Some(zoned) = &mut self.zoned else {
            return;
        };
        if range.is_empty() {
            return;
        }
        for number in zoned.zones.number(range.start)..=zoned.zones.number(range.end - 1) {
            zoned.zones.wear_out(number);
        }
        self.store_table();
    }

    /// A command is done: whether its answer waits, for writes before it in its zone, or until it is durable.
    pub(super) fn waits_in_zone(&mut self, slot: u32, at_ps: u64) -> bool {
        let command = self.slots.get(slot).command;
        match command.op {
            Op::Write | Op::WriteZeroes => {}
            Op::Flush => {
                if let Err(status) = self.advance_zones() {
                    self.slots.get(slot).status = status;
                }
                return false;
            }
            _ => return false,
        }
        let is_durable_later = self.slots.get(slot).syncs && self.is_buffered();
        let Some(zoned) = &mut self.zoned else {
            return false;
        };
        let number = zoned.zones.number(command.offset_bytes);
        let Some(pending) = zoned.pending.get_mut(&number) else {
            return false;
        };
        let Some(at) = pending.iter().position(|write| write.slot == slot) else {
            return false;
        };
        if at > 0 {
            pending[at].done_ps = Some(at_ps);
            return true;
        }
        // It passed the buffer by; what lies before it in its zone may be in there, and was answered.
        if is_durable_later && !std::mem::replace(&mut pending[at].is_flushed, true) {
            let now_ps = self.clock.now_ps();
            if let Ok(Some(_)) = self.submit_part(slot, Kind::Flush, (0, 0), false, now_ps) {
                return true;
            }
        }
        let zoned = self.zoned.as_mut();
        let pending = zoned.and_then(|zoned| zoned.pending.get_mut(&number));
        pending.map(VecDeque::pop_front);
        self.advance_zone(number);
        false
    }

    /// A command was answered: the next of its zone, if it is done and waited for that.
    pub(super) fn next_in_zone(&mut self, slot: u32) -> Option<(u32, u64)> {
        let command = self.slots.get(slot).command;
        let zoned = self.zoned.as_mut()?;
        if !matches!(command.op, Op::Write | Op::WriteZeroes) {
            return None;
        }
        let number = zoned.zones.number(command.offset_bytes);
        let pending = zoned.pending.get_mut(&number)?;
        let Some(first) = pending.front_mut() else {
            zoned.pending.remove(&number);
            return None;
        };
        Some((first.slot, first.done_ps.take()?))
    }

    /// All commands end at once: nothing waits for others.
    pub(super) fn forget_pending_writes(&mut self) {
        if let Some(zoned) = &mut self.zoned {
            zoned.pending.clear();
        }
    }

    /// Moves the end of what is durable in all zones. The error of the backing file, if it has not taken the table.
    pub(super) fn advance_zones(&mut self) -> Result<(), Status> {
        let Some(zoned) = &self.zoned else {
            return Ok(());
        };
        let numbered = (0..).zip(zoned.zones.all());
        let volatile: Vec<u32> = numbered
            .filter_map(|(number, zone)| (zone.durable_bytes < zone.write_pointer_bytes).then_some(number))
            .collect();
        for number in volatile {
            self.advance_zone(number);
        }
        if self.zoned.as_ref().is_some_and(|zoned| zoned.is_table_stale) {
            self.try_store_table()?;
        }
        Ok(())
    }

    /// Moves the end of what is durable in a zone: to the first block whose content in flash is not what was written.
    fn advance_zone(&mut self, number: u32) {
        self.write_back();
        let Some(zoned) = &self.zoned else {
            return;
        };
        let zone = zoned.zones.all()[number as usize];
        let mut at = zone.durable_bytes;
        let mut limit = zone.write_pointer_bytes;
        if let Some((dirty, _)) = self.store.first_dirty_unit(at..limit) {
            limit = dirty.max(at);
        }
        while at < limit {
            let page = (at / self.page_bytes()) as u32;
            let (from, length) = self.page(page);
            let end = (from + length).min(limit);
            let Some(durable) = self.write_cache.durable(page) else {
                at = end;
                continue;
            };
            let durable = &durable[(at - from) as usize..(end - from) as usize];
            let present = self.store.present(at, end - at);
            let alike = durable.iter().zip(present).take_while(|(a, b)| a == b).count() as u64;
            at += alike;
            if at < end {
                at -= at % u64::from(self.facts.block_bytes);
                break;
            }
        }
        if at == zone.durable_bytes {
            return;
        }
        if let Some(zoned) = &mut self.zoned {
            zoned.zones.set_durable(number, at);
        }
        self.store_entry(number);
    }

    /// Power was lost, and the content is what flash has: what lies behind the first gap of each zone is discarded, as
    /// by a drive that looks for the ends of its zones when it is switched on.
    pub(super) fn cut_zones(&mut self, now_ps: u64) {
        let Some(zoned) = &mut self.zoned else {
            return;
        };
        let mut lost = Vec::new();
        zoned.zones.lose_power(|range| lost.push(range));
        let page_bytes = self.page_bytes();
        for range in lost {
            let (first, end) = (range.start.next_multiple_of(page_bytes), range.end.next_multiple_of(page_bytes));
            if let Some(model) = self.model.as_mut().filter(|_| first < end) {
                // No command waits for it. Only what lies beyond the drive is refused.
                let _ = model.submit(now_ps, Kind::Trim, (first, end - first), false);
            }
            self.discard(range);
        }
        self.store_table();
    }

    /// Finishes trims now: what was reset must not come back, and what is written next must not be trimmed.
    pub(super) fn settle_trims(&mut self, range: Range<u64>, now_ps: u64) -> Result<(), Status> {
        if self.zoned.is_none() || self.trims.is_empty() {
            return Ok(());
        }
        let end = range.end.next_multiple_of(self.page_bytes());
        let mut left = VecDeque::new();
        while let Some(mut rest) = self.trims.pop_front() {
            if rest.from < end && rest.end > range.start {
                let length = rest.end.min(end) - rest.from;
                if let Err(status) = self.trim_length(&mut rest, length, now_ps) {
                    left.push_back(rest);
                    left.append(&mut self.trims);
                    self.trims = left;
                    return Err(status);
                }
            }
            if rest.from < rest.end {
                left.push_back(rest);
            } else {
                self.part_done(rest.slot, now_ps);
            }
        }
        self.trims = left;
        Ok(())
    }

    /// The content of a range becomes zeroes, durably.
    fn discard(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (from, length) = (range.start, range.end - range.start);
        // What cannot be read at its ends is about to be read again, and tells of it then.
        let _ = self.store.load_ends(from, length);
        self.store.zero(from, length);
        let is_writable = self.store.backing().is_some_and(|backing| !backing.read_only());
        if is_writable && self.store.write_back_zeroes(from, length).is_err() {
            if let Some(zoned) = &mut self.zoned {
                zoned.is_table_stale = true;
            }
        }
    }

    fn discard_unwritten(&mut self, range: Range<u64>) {
        let (from, length) = (range.start, range.end - range.start);
        let is_unwritten = self.zoned.as_ref().is_some_and(|zoned| {
            let zone = zoned.zones.all()[zoned.zones.number(from) as usize];
            zone.write_pointer_bytes <= from
        });
        if is_unwritten {
            self.store.zero(from, length);
            self.note_change(range);
        }
    }

    fn store_entry(&mut self, number: u32) {
        let Some(zoned) = &mut self.zoned else {
            return;
        };
        let (at, entry) = zoned.zones.entry(number);
        zoned.is_table_stale |= self.store.write_table(at, &entry).is_err();
    }

    fn store_table(&mut self) {
        if let Err(_status) = self.try_store_table() {
            if let Some(zoned) = &mut self.zoned {
                zoned.is_table_stale = true; // and the next flush reports it
            }
        }
    }

    fn try_store_table(&mut self) -> Result<(), Status> {
        let Some(zoned) = &mut self.zoned else {
            return Ok(());
        };
        if self.store.backing().is_none() {
            return Ok(());
        }
        self.store.write_table(0, &zoned.zones.table())?;
        zoned.is_table_stale = false;
        Ok(())
    }
}
