//! Power loss, wear-out, and the clean end.

use super::{EmulatedDrive, InFlight};
use crate::command::{Op, Status};
use crate::store::Syncer;

impl EmulatedDrive {
    /// Cuts and restores power: what the model has not in flash is lost, and commands in flight are answered with
    /// [`Status::PowerLost`]. The drive continues with an empty buffer. Returns the number of pages lost.
    pub fn power_cut(&mut self) -> u64 {
        let now_ps = self.clock.now_ps();
        self.advance_model(now_ps);
        let _ = self.settle_trims(0..self.facts.size_bytes, now_ps); // their commands end now
        if let Some(model) = &mut self.model {
            model.simulation.cut_power();
        }
        let _ = self.advance_zones(); // an error of the backing file is told by the next flush
        let (page_bytes, store) = (self.page_bytes(), &mut self.store);
        let lost = self.write_cache.lose_power(|page, durable| store.write(u64::from(page) * page_bytes, durable));
        if lost > 0 {
            self.note_change(0..self.facts.size_bytes);
        }
        self.cut_zones(now_ps);
        self.complete_all(|_| Status::PowerLost, now_ps);
        self.health.unsafe_shutdowns += 1;
        self.lost_pages += lost as u64;
        lost as u64
    }

    /// No block is left to write to: the drive becomes read-only, as drives do.
    pub(super) fn wear_out(&mut self, why: &str, now_ps: u64) {
        self.facts.read_only = true;
        self.namespaces.refuse_writes();
        self.worn_out = Some(why.to_owned());
        if let Some(model) = &mut self.model {
            model.simulation.cut_power();
        }
        self.make_durable();
        self.wear_zones(0..self.facts.size_bytes);
        self.complete_all(
            |op| match op {
                Op::Read | Op::Flush => Status::Done,
                _ => Status::Failed,
            },
            now_ps,
        );
    }

    /// Completes all commands in flight now; a flush with `Done` still waits for the backing file.
    pub(super) fn complete_all(&mut self, status: impl Fn(Op) -> Status, now_ps: u64) {
        let _ = self.settle_trims(0..self.facts.size_bytes, now_ps); // their commands end now
        if let Some(zoned) = &mut self.zoned {
            zoned.pending.clear(); // nothing waits for others
        }
        self.epoch = self.epoch.wrapping_add(1);
        self.by_request.clear();
        self.aborted_requests = 0;
        self.trims.clear();
        self.ready.clear();
        for slot in self.in_flight_slots(|_| true) {
            let state = &mut self.in_flight[slot];
            *state = InFlight { syncs: state.syncs, ..InFlight::new(state.command, state.arrived_ps) };
            state.status = status(state.command.op);
            self.finish_command(slot, now_ps);
        }
    }

    /// Makes all present content durable.
    fn make_durable(&mut self) {
        let pages: Vec<u32> = self.write_cache.make_durable().collect();
        if self.store.backing().is_some() {
            let ranges: Vec<(u64, u64)> = pages.into_iter().map(|page| self.page(page)).collect();
            self.writeback.extend(ranges);
            self.write_back();
        }
    }

    /// The clean end: writes everything back to the backing file, and syncs it.
    pub fn finish(&mut self) -> Result<(), Status> {
        let now_ps = self.clock.now_ps();
        self.advance_model(now_ps);
        if self.syncer.is_none() {
            return Ok(());
        }
        self.make_durable();
        self.flush_deferred(0..self.facts.size_bytes)?;
        self.advance_zones()?;
        self.syncer.as_mut().map_or(Ok(()), Syncer::finish)
    }
}
