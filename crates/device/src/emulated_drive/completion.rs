//! What follows from commands as time goes on: the model goes on, content becomes durable, the
//! backing file gets it, answers become due.

use std::ops::Range;

use ioassay_sim::engine::Event;

use super::Served;
use super::slots::Ready;
use crate::command::{Answer, Command, Op, Status};
use crate::counters::Delivered;
use crate::store::Syncer;
use crate::write_cache::Durable;

impl Served {
    /// Appends the answers that are due; they are to be handed over, and then
    /// [`delivered`](Served::delivered) is to be told.
    pub fn due(&mut self, into: &mut Vec<Delivered>) {
        let now_ps = self.clock.now_ps();
        self.go_on_trimming(now_ps);
        self.go_on(now_ps);
        self.synced(now_ps);
        while let Some(ready) = self
            .ready
            .peek()
            .filter(|ready| ready.deadline_ps <= now_ps)
        {
            let deadline_ps = ready.deadline_ps;
            let slot = self.slots.remove(ready.slot);
            self.ready.pop();
            into.push(Delivered {
                command: slot.command,
                status: slot.status,
                arrived_ps: slot.arrived_ps,
                deadline_ps,
            });
        }
    }

    /// The model goes on to now, and further by what the slowest transport takes: answers leave
    /// before their time by what theirs takes.
    pub(super) fn go_on(&mut self, now_ps: u64) {
        let Some(model) = &mut self.model else {
            return;
        };
        let to_ps = now_ps
            + self
                .floors
                .iter()
                .map(|floor| 1000 * floor.alone_ns.max(floor.busy_ns))
                .max()
                .unwrap_or(0);
        if model.next_ps().is_none_or(|next_ps| next_ps > to_ps) {
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        let gone_on = model.advance_to(to_ps, &mut events);
        for event in events.drain(..) {
            self.follow(event);
        }
        self.events = events;
        self.keep();
        if let Err(error) = gone_on {
            self.wear_out(&error.to_string(), now_ps);
        }
    }

    fn follow(&mut self, event: Event) {
        match event {
            Event::Buffered { request, page } => self.volatile.arrived(page, request),
            Event::Dropped { page } => self.volatile.dropped(page),
            Event::ProgramIssued { request, page } => self.volatile.leaves(page, request),
            Event::Programmed { request, page } => self.programmed(request, page),
            Event::Complete { request, at_ps } => self.completed(request, at_ps),
        }
    }

    /// What is durable now goes to the backing file: what is present with its neighbours, soon;
    /// nothing else happens to it until then.
    fn programmed(&mut self, request: Option<u64>, page: u32) {
        let (from, length) = self.page(page);
        let (store, keeps) = (&mut self.store, &mut self.keeps);
        let backed = store.backing().is_some();
        self.volatile.programmed(page, request, |durable| {
            if !backed {
                return;
            }
            match durable {
                Durable::Present => keeps.push((from, length)),
                // What the file refuses it is owed, and told at the next flush.
                Durable::Bytes(bytes) => drop(store.keep_bytes(from, &bytes[..length as usize])),
                Durable::Nothing => {}
            }
        });
    }

    fn completed(&mut self, request: u64, at_ps: u64) {
        let Some(slot) = self.by_request.remove(&request) else {
            return;
        };
        self.part_done(slot, at_ps);
    }

    /// A part of a command is done; the last one carries it out.
    pub(super) fn part_done(&mut self, slot: u32, at_ps: u64) {
        let left = &mut self.slots.get(slot).parts;
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.carried_out(slot, at_ps);
        }
    }

    /// A command is done but for the backing file, if that has to be synced.
    pub(super) fn carried_out(&mut self, slot: u32, at_ps: u64) {
        self.keep();
        let mut state = *self.slots.get(slot);
        if state.status == Status::Done {
            state.status = self.kept(&state.command);
            self.slots.get(slot).status = state.status;
        }
        if state.syncs && state.status == Status::Done && self.syncer.is_some() {
            let repaid = self.repay(0..self.facts.size_bytes);
            let ticket = u64::from(self.era) << 32 | u64::from(slot);
            let wanted = repaid.is_ok() && self.syncer.as_ref().is_some_and(|one| one.want(ticket));
            if wanted {
                self.slots.get(slot).parts = 1;
                return;
            }
            self.slots.get(slot).status = repaid.err().unwrap_or(Status::Failed);
        }
        let deadline_ps = at_ps.saturating_sub(self.floor_ps(&state.command));
        self.ready.push(Ready { deadline_ps, slot });
    }

    /// Without a buffer all that is answered is durable: how a command ends whose changes the backing
    /// file was to have.
    fn kept(&mut self, command: &Command) -> Status {
        let changes = matches!(command.op, Op::Write | Op::Trim | Op::WriteZeroes);
        if !changes || !self.store.owes() || self.is_buffered() {
            return Status::Done;
        }
        let end = command.offset_bytes + command.length_bytes;
        self.repay(command.offset_bytes..end)
            .err()
            .unwrap_or(Status::Done)
    }

    /// Answers what waited for the backing file.
    fn synced(&mut self, now_ps: u64) {
        while let Some((ticket, ended)) = self.syncer.as_ref().and_then(Syncer::done) {
            self.sync_failed |= ended.is_err();
            if ticket >> 32 != u64::from(self.era) {
                continue;
            }
            let slot = ticket as u32;
            let state = self.slots.get(slot);
            state.parts = 0;
            if let Err(status) = ended {
                state.status = status;
            }
            let deadline_ps = now_ps;
            self.ready.push(Ready { deadline_ps, slot });
        }
    }

    /// Gives the backing file what became durable: neighbours together.
    pub(super) fn keep(&mut self) {
        if self.keeps.is_empty() {
            return;
        }
        let mut keeps = std::mem::take(&mut self.keeps);
        keeps.sort_unstable();
        let mut run = keeps[0];
        for &(from, length) in &keeps[1..] {
            if from <= run.0 + run.1 {
                run.1 = run.1.max(from + length - run.0);
            } else {
                let _ = self.store.keep(run.0, run.1); // owed, and told at the next flush
                run = (from, length);
            }
        }
        let _ = self.store.keep(run.0, run.1);
        keeps.clear();
        self.keeps = keeps;
    }

    /// Gives the backing file what it would not take before of a range.
    pub(super) fn repay(&mut self, range: Range<u64>) -> Result<(), Status> {
        let mut from = range.start;
        while let Some((offset, length)) = self.store.owed(from..range.end) {
            self.repay_unit(offset, length)?;
            from = offset + length;
        }
        Ok(())
    }

    /// What is durable of a unit: here and there not what is present.
    fn repay_unit(&mut self, offset: u64, length: u64) -> Result<(), Status> {
        let mut bytes = self.store.present(offset, length).to_vec();
        for page in self.pages((offset, length)) {
            let from = self.page(page).0;
            if let Some(durable) = self.volatile.durable(page) {
                let begin = from.max(offset);
                let end = (from + durable.len() as u64).min(offset + length);
                let part = &durable[(begin - from) as usize..(end - from) as usize];
                bytes[(begin - offset) as usize..(end - offset) as usize].copy_from_slice(part);
            }
        }
        self.store.keep_bytes(offset, &bytes)
    }
}

impl From<&Delivered> for Answer {
    fn from(one: &Delivered) -> Self {
        Self {
            command: one.command,
            status: one.status,
        }
    }
}
