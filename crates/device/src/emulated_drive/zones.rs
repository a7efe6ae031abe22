//! Zones of the drive: what is refused, how far they are durable, and what survives.
//!
//! A write pointer moves when the write arrives, as the content changes then. Writes of one zone are answered in the
//! order of their addresses: what is answered as durable is then never behind a gap, and after a power loss the write
//! pointer is where the durable content ends.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use ioassay_block::Kind;

use super::{EmulatedDrive, InFlight};
use crate::command::{Command, Drive, Op, Status};
use crate::store::Store;
use crate::zones::{ZoneAction, Zones};

/// A write that is not answered.
#[derive(Debug)]
pub(super) struct PendingWrite {
    slot: usize,
    /// When it was done, if it waits for others before it.
    done_ps: Option<u64>,
    /// Whether the flush that makes it durable was begun.
    is_flushed: bool,
}

/// The zones, and their writes that are not answered.
pub(super) struct Zoned {
    pub zones: Zones,
    pub pending: BTreeMap<u32, VecDeque<PendingWrite>>,
    /// Whether the backing file refused the table.
    is_table_stale: bool,
}

impl Zoned {
    /// The pending writes of the zone that a write is in, in the order of their addresses.
    fn pending_beside(&mut self, command: &Command) -> Option<&mut VecDeque<PendingWrite>> {
        if !matches!(command.op, Op::Write | Op::WriteZeroes) {
            return None;
        }
        self.pending.get_mut(&self.zones.number(command.offset_bytes))
    }

    fn store_entry(&mut self, number: u32, store: &Store) {
        let (at, entry) = self.zones.entry(number);
        self.is_table_stale |= store.write_table(at, &entry).is_err();
    }

    /// What the backing file refuses is stored by the next flush, which reports another refusal.
    fn store_table(&mut self, store: &Store) -> Result<(), Status> {
        if store.backing().is_none() {
            return Ok(());
        }
        let stored = store.write_table(0, &self.zones.table());
        self.is_table_stale = stored.is_err();
        stored
    }
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
        self.store_zone_table();
        self.reset_counters();
    }

    fn store_zone_table(&mut self) {
        if let Some(zoned) = &mut self.zoned {
            let _ = zoned.store_table(&self.store); // the next flush reports it
        }
    }

    /// Why the zones refuse a command.
    pub(super) fn zone_error(&self, command: &Command) -> Option<Status> {
        let zones = self.zones()?;
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
    pub(super) fn note_in_zone(&mut self, slot: usize, command: &Command, has_begun: bool) {
        let Some(zoned) = &mut self.zoned else {
            return;
        };
        let (offset, length) = (command.offset_bytes, command.length_bytes);
        if !matches!(command.op, Op::Write | Op::WriteZeroes) || length == 0 {
            return;
        }
        let number = zoned.zones.number(offset);
        if has_begun {
            zoned.zones.write(offset, length);
            zoned.pending.entry(number).or_default().push_back(PendingWrite { slot, done_ps: None, is_flushed: false });
        } else if zoned.zones.all()[number as usize].write_pointer_bytes <= offset {
            // A backing file that failed may have left some of it behind the write pointer.
            self.store.zero(offset, length);
            self.note_change(offset..offset + length);
        }
    }

    /// Changes the zone that begins at an address, or all. What a reset discards is trimmed.
    pub(super) fn manage_zones(
        &mut self,
        slot: usize,
        action: ZoneAction,
        start: Option<u64>,
        now_ps: u64,
    ) -> Result<(), Status> {
        let zoned = self.zoned.as_mut().ok_or(Status::OutOfRange)?;
        let discarded = zoned.zones.manage(action, start).map_err(Status::Zone)?;
        match start {
            Some(start) => zoned.store_entry(zoned.zones.number(start), &self.store),
            None => self.store_zone_table(),
        }
        for range in discarded {
            let length = (range.end - range.start).next_multiple_of(self.page_bytes());
            self.trim(slot, (range.start, length), now_ps)?;
        }
        Ok(())
    }

    /// A zone is worn out where this range lies: it can only be read from now on.
    pub(super) fn wear_zones(&mut self, range: Range<u64>) {
        let Some(zoned) = self.zoned.as_mut().filter(|_| !range.is_empty()) else {
            return;
        };
        for number in zoned.zones.number(range.start)..=zoned.zones.number(range.end - 1) {
            zoned.zones.wear_out(number);
        }
        self.store_zone_table();
    }

    /// Holds the answer of a command that is done until the writes before it in its zone are answered, and until it
    /// is durable itself: for that, this submits a flush. Returns whether the answer is held.
    pub(super) fn hold_for_zone_order(&mut self, slot: usize, at_ps: u64) -> bool {
        let Some(zoned) = &mut self.zoned else {
            return false;
        };
        let InFlight { command, syncs, .. } = self.in_flight[slot];
        if command.op == Op::Flush {
            if let Err(status) = self.advance_zones() {
                self.in_flight[slot].status = status;
            }
            return false;
        }
        let Some(pending) = zoned.pending_beside(&command) else {
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
        let was_flushed = std::mem::replace(&mut pending[at].is_flushed, true);
        if syncs && !was_flushed && self.is_buffered() {
            let now_ps = self.clock.now_ps();
            if let Ok(Some(_)) = self.submit_part(slot, Kind::Flush, (0, 0), now_ps) {
                return true;
            }
        }
        if let Some(zoned) = &mut self.zoned {
            zoned.pending_beside(&command).map(VecDeque::pop_front);
            let number = zoned.zones.number(command.offset_bytes);
            self.advance_zone(number);
        }
        false
    }

    /// A command was answered: the next of its zone, if it is done and waited for that.
    pub(super) fn next_in_zone(&mut self, slot: usize) -> Option<(usize, u64)> {
        let zoned = self.zoned.as_mut()?;
        let ended = self.in_flight[slot].command;
        let Some(first) = zoned.pending_beside(&ended)?.front_mut() else {
            zoned.pending.remove(&zoned.zones.number(ended.offset_bytes));
            return None;
        };
        Some((first.slot, first.done_ps.take()?))
    }

    /// Moves the end of what is durable in all zones. The error of the backing file, if it has not taken the table.
    pub(super) fn advance_zones(&mut self) -> Result<(), Status> {
        for number in 0..self.zones().map_or(0, |zones| zones.geometry().count) {
            self.advance_zone(number);
        }
        match &mut self.zoned {
            Some(zoned) if zoned.is_table_stale => zoned.store_table(&self.store),
            _ => Ok(()),
        }
    }

    fn advance_zone(&mut self, number: u32) {
        let zone = self.zones().map(|zones| zones.all()[number as usize]);
        let Some(zone) = zone.filter(|zone| zone.durable_bytes < zone.write_pointer_bytes) else {
            return;
        };
        self.write_back();
        let durable_bytes = self.durable_end(zone.durable_bytes..zone.write_pointer_bytes);
        if let Some(zoned) = self.zoned.as_mut().filter(|_| durable_bytes != zone.durable_bytes) {
            zoned.zones.set_durable(number, durable_bytes);
            zoned.store_entry(number, &self.store);
        }
    }

    /// The end of what is durable from the beginning of a range on: the first block whose content in flash is not
    /// what was written.
    fn durable_end(&self, range: Range<u64>) -> u64 {
        let (mut at, mut limit) = (range.start, range.end);
        if let Some((dirty, _)) = self.store.first_dirty_unit(range) {
            limit = dirty.max(at);
        }
        while at < limit {
            let page = (at / self.page_bytes()) as u32;
            let (from, length) = self.page(page);
            let end = (from + length).min(limit);
            if let Some(durable) = self.write_cache.durable(page) {
                let durable = &durable[(at - from) as usize..(end - from) as usize];
                let present = self.store.present(at, end - at);
                if let Some(same) = durable.iter().zip(present).position(|(a, b)| a != b) {
                    let differs_at = at + same as u64;
                    return differs_at - differs_at % u64::from(self.facts.block_bytes);
                }
            }
            at = end;
        }
        at
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
        self.store_zone_table();
    }

    /// Finishes trims now: what was reset must not come back, and what is written next must not be trimmed.
    pub(super) fn settle_trims(&mut self, range: Range<u64>, now_ps: u64) -> Result<(), Status> {
        if self.zoned.is_none() || self.trims.is_empty() {
            return Ok(());
        }
        let end = range.end.next_multiple_of(self.page_bytes());
        let mut trims = std::mem::take(&mut self.trims);
        while let Some(mut rest) = trims.pop_front() {
            let mut settled = Ok(());
            if rest.from < end && rest.end > range.start {
                let length = rest.end.min(end) - rest.from;
                settled = self.trim_length(&mut rest, length, now_ps);
            }
            if settled.is_err() || rest.from < rest.end {
                self.trims.push_back(rest);
            } else {
                self.part_done(rest.slot, now_ps);
            }
            if settled.is_err() {
                self.trims.append(&mut trims);
                return settled;
            }
        }
        Ok(())
    }

    /// The content of a range becomes zeroes, durably.
    fn discard(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (from, length) = (range.start, range.end - range.start);
        // What cannot be read at its ends is about to be read again, and fails then.
        let _ = self.store.load_ends(from, length);
        self.store.zero(from, length);
        let is_writable = self.store.backing().is_some_and(|backing| !backing.read_only());
        if is_writable && self.store.write_back_zeroes(from, length).is_err() {
            if let Some(zoned) = &mut self.zoned {
                zoned.is_table_stale = true;
            }
        }
    }
}
