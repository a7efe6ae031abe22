//! Trims and zeroes, which are trims to the model: no data cross its channel, and flash does no work.
//!
//! Large ones, and many, are carried out in chunks between other commands: a file system may trim a
//! whole drive at once, and no other command waits for that.

use ioassay_block::Kind;

use super::EmulatedDrive;
use crate::command::Status;

/// Bytes trimmed between two polls of the transports, by all trims together: about a millisecond of
/// work at worst, by which other answers may be late.
pub(super) const BUDGET_BYTES: u64 = 4 << 20;

/// Least cost of a trim, bytes: small ones take time, too.
const MIN_TRIM_BYTES: u64 = 64 << 10;

/// The rest of a trim.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingTrim {
    pub(super) slot: usize,
    pub(super) from: u64,
    pub(super) end: u64,
}

impl EmulatedDrive {
    /// Discards the pages within the range; overwrites its parts of other pages with zeroes.
    pub(super) fn trim(&mut self, slot: usize, range: (u64, u64), now_ps: u64) -> Result<(), Status> {
        let (offset, length) = range;
        let page_bytes = self.page_bytes();
        let end = offset + length;
        let first = offset.next_multiple_of(page_bytes);
        // The drive's last page may be a part of one of the model's.
        let last = if end == self.facts.size_bytes { end } else { end / page_bytes * page_bytes };
        if first >= last {
            return self.write(slot, range, None, now_ps);
        }
        for part in [(offset, first - offset), (last, end - last)] {
            if part.1 > 0 {
                self.write(slot, part, None, now_ps)?;
            }
        }
        let mut rest = PendingTrim { slot, from: first, end: last };
        if self.trims.is_empty() && self.trim_budget_bytes > 0 {
            self.trim_chunk(&mut rest, now_ps)?;
        }
        if rest.from < rest.end {
            self.in_flight[slot].parts += 1;
            self.trims.push_back(rest);
        }
        Ok(())
    }

    /// Renews the budget, and continues the oldest trims.
    pub(super) fn advance_trims(&mut self, now_ps: u64) {
        self.trim_budget_bytes = BUDGET_BYTES;
        while self.trim_budget_bytes > 0 {
            let Some(mut rest) = self.trims.pop_front() else {
                return;
            };
            let slot = rest.slot;
            let done = self.trim_chunk(&mut rest, now_ps);
            if done.is_ok() && rest.from < rest.end {
                self.trims.push_front(rest);
                return;
            }
            if let Err(status) = done {
                self.in_flight[slot].status = status;
            }
            self.part_done(slot, now_ps);
        }
    }

    fn trim_chunk(&mut self, rest: &mut PendingTrim, now_ps: u64) -> Result<(), Status> {
        let chunk_bytes = self.trim_budget_bytes.next_multiple_of(self.page_bytes());
        let length = (rest.end - rest.from).min(chunk_bytes);
        self.trim_length(rest, length, now_ps)
    }

    /// Trims the next part of this length.
    pub(super) fn trim_length(&mut self, rest: &mut PendingTrim, length: u64, now_ps: u64) -> Result<(), Status> {
        let cost = length.max(MIN_TRIM_BYTES);
        self.trim_budget_bytes = self.trim_budget_bytes.saturating_sub(cost);
        let range = (rest.from, length);
        rest.from += length;
        self.store.load_ends(range.0, range.1)?;
        self.submit_part(rest.slot, Kind::Trim, range, now_ps)?;
        self.write_cache.trim(self.pages(range));
        self.note_change(range.0..range.0 + range.1);
        self.store.zero(range.0, range.1);
        self.store.write_back_zeroes(range.0, range.1)
    }
}
