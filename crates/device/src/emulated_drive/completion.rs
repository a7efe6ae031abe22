//! What follows later from a command: the model advances, content becomes durable and is written back
//! to the backing file, answers become due.

use std::cmp::Reverse;
use std::ops::Range;

use ioassay_sim::engine::Event;

use super::{EmulatedDrive, InFlight};
use crate::command::{Answer, Command, Op, Status};
use crate::store::Syncer;

impl EmulatedDrive {
    /// Appends the answers that are due. The caller answers them, then calls
    /// [`record_answers`](EmulatedDrive::record_answers).
    pub fn take_answers(&mut self, into: &mut Vec<Answer>) {
        let now_ps = self.clock.now_ps();
        self.faults.advance(now_ps);
        self.advance_trims(now_ps);
        self.advance_model(now_ps);
        self.answer_synced(now_ps);
        while let Some(&Reverse((deadline_ps, slot))) = self.ready.peek().filter(|Reverse(ready)| ready.0 <= now_ps) {
            self.ready.pop();
            let InFlight { command, status, arrived_ps, .. } = self.in_flight.remove(slot);
            into.push(Answer { command, status, arrived_ps, deadline_ps });
        }
    }

    /// Advances the model to now plus the largest transport overhead: each answer leaves before its time
    /// by the overhead of its transport.
    pub(super) fn advance_model(&mut self, now_ps: u64) {
        let Some(model) = &mut self.model else {
            return;
        };
        let to_ps = now_ps
            + self.overheads.iter().map(|overhead| 1000 * overhead.alone_ns.max(overhead.busy_ns)).max().unwrap_or(0);
        if model.next_ps().is_none_or(|next_ps| next_ps > to_ps) {
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        let advanced = model.advance_to(to_ps, &mut events);
        for event in events.drain(..) {
            match event {
                Event::Buffered { request, page } => self.write_cache.on_buffered(page, request),
                Event::Dropped { page } => self.write_cache.on_dropped(page),
                Event::ProgramIssued { request, page } => self.write_cache.on_program_issued(page, request),
                Event::Programmed { request, page } => self.programmed(request, page),
                Event::Complete { request, at_ps } => self.completed(request, at_ps),
            }
        }
        self.events = events;
        self.write_back();
        if let Err(error) = advanced {
            self.wear_out(&error.to_string(), now_ps);
        }
    }

    /// Durable content goes to the backing file: present content a little later, with its neighbours;
    /// nothing changes it until then.
    fn programmed(&mut self, request: Option<u64>, page: u32) {
        let (from, length) = self.page(page);
        let (store, writeback) = (&mut self.store, &mut self.writeback);
        let backed = store.backing().is_some();
        self.write_cache.on_programmed(page, request, |older| match older {
            _ if !backed => {}
            None => writeback.push((from, length)),
            // What the file refuses stays dirty, and the next flush reports it.
            Some(bytes) => {
                let _ = store.write_back_bytes(from, &bytes[..length as usize]);
            }
        });
    }

    fn completed(&mut self, request: u64, at_ps: u64) {
        let Some(slot) = self.by_request.remove(&request) else {
            self.aborted_requests = self.aborted_requests.saturating_sub(1);
            return;
        };
        self.part_done(slot, at_ps);
    }

    /// A part of a command is done; the last one finishes it.
    pub(super) fn part_done(&mut self, slot: usize, at_ps: u64) {
        let parts = &mut self.in_flight[slot].parts;
        *parts = parts.saturating_sub(1);
        if *parts == 0 {
            self.finish_command(slot, at_ps);
        }
    }

    /// A command is finished, except for a sync of the backing file if it needs one.
    pub(super) fn finish_command(&mut self, slot: usize, at_ps: u64) {
        let mut next = Some((slot, at_ps));
        while let Some((slot, at_ps)) = next {
            if self.hold_for_zone_order(slot, at_ps) {
                return;
            }
            self.finish_now(slot, at_ps);
            next = self.next_in_zone(slot).map(|(next, done_ps)| (next, done_ps.max(at_ps)));
        }
    }

    fn finish_now(&mut self, slot: usize, at_ps: u64) {
        self.write_back();
        let InFlight { command, mut status, syncs, .. } = self.in_flight[slot];
        if status == Status::Done {
            status = self.writeback_status(&command);
        }
        if syncs && status == Status::Done && self.syncer.is_some() {
            let flushed = self.flush_deferred(0..self.facts.size_bytes);
            let ticket = (u64::from(self.epoch) << 32) | slot as u64;
            if flushed.is_ok() && self.syncer.as_ref().is_some_and(|syncer| syncer.request(ticket)) {
                self.in_flight[slot].parts = 1;
                return;
            }
            status = flushed.err().unwrap_or(Status::Failed);
        }
        self.in_flight[slot].status = status;
        self.answer_at(slot, at_ps.saturating_sub(self.overhead_ps(&command)));
    }

    /// The answer of a command leaves at this time, or later if faults hold it.
    fn answer_at(&mut self, slot: usize, at_ps: u64) {
        let hold = self.in_flight[slot].hold;
        let deadline_ps = at_ps.saturating_add(hold.delay_ps).max(hold.not_before_ps);
        self.ready.push(Reverse((deadline_ps, slot)));
    }

    /// Without a write buffer all that is answered is durable: the status of a command whose changes must
    /// be in the backing file.
    fn writeback_status(&mut self, command: &Command) -> Status {
        let changes = matches!(command.op, Op::Write | Op::Trim | Op::WriteZeroes);
        if !changes || !self.store.is_dirty() || self.is_buffered() {
            return Status::Done;
        }
        let end = command.offset_bytes + command.length_bytes;
        self.flush_deferred(command.offset_bytes..end).err().unwrap_or(Status::Done)
    }

    /// Finishes commands that waited for a sync of the backing file.
    fn answer_synced(&mut self, now_ps: u64) {
        while let Some((ticket, ended)) = self.syncer.as_ref().and_then(Syncer::done) {
            self.sync_failed |= ended.is_err();
            if ticket >> 32 != u64::from(self.epoch) {
                continue;
            }
            let slot = (ticket & u64::from(u32::MAX)) as usize;
            let state = &mut self.in_flight[slot];
            state.parts = 0;
            if let Err(status) = ended {
                state.status = status;
            }
            self.answer_at(slot, now_ps);
        }
    }

    /// Writes back what became durable, neighbours together.
    pub(super) fn write_back(&mut self) {
        if self.writeback.is_empty() {
            return;
        }
        let mut writeback = std::mem::take(&mut self.writeback);
        writeback.sort_unstable();
        writeback.push((u64::MAX, 0)); // ends the last run
        let mut run = writeback[0];
        for &(from, length) in &writeback {
            if from <= run.0 + run.1 {
                run.1 = run.1.max(from + length - run.0);
            } else {
                let _ = self.store.write_back(run.0, run.1); // stays dirty; the next flush reports it
                run = (from, length);
            }
        }
        writeback.clear();
        self.writeback = writeback;
    }

    /// Writes back the durable content of a range's dirty units, which the backing file refused before. Parts of it may
    /// differ from the present content.
    pub(super) fn flush_deferred(&mut self, range: Range<u64>) -> Result<(), Status> {
        let mut next = range.start;
        while let Some((offset, length)) = self.store.first_dirty_unit(next..range.end) {
            let mut bytes = self.store.present(offset, length).to_vec();
            for page in self.pages((offset, length)) {
                let from = self.page(page).0;
                if let Some(durable) = self.write_cache.durable(page) {
                    let begin = from.max(offset);
                    let end = (from + durable.len() as u64).min(offset + length);
                    let part = &durable[(begin - from) as usize..(end - from) as usize];
                    bytes[(begin - offset) as usize..(end - offset) as usize].copy_from_slice(part);
                }
            }
            self.store.write_back_bytes(offset, &bytes)?;
            next = offset + length;
        }
        Ok(())
    }
}
