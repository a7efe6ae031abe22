//! What a power cut takes, what wear leaves, and the end.

use super::Served;
use crate::command::{Op, Status};
use crate::model::Model;
use crate::store::Syncer;

impl Served {
    /// Power is cut: what is not in flash is lost, as the model has it, and all that is in flight is
    /// answered with [`Status::PowerLost`]. The drive serves on, with an empty buffer. Returns how
    /// many pages were lost.
    pub fn power_cut(&mut self) -> u64 {
        let now_ps = self.clock.now_ps();
        self.go_on(now_ps);
        if let Some(model) = &mut self.model {
            model.simulation_mut().cut_power();
        }
        let (store, page_bytes) = (
            &mut self.store,
            self.model.as_ref().map_or(0, Model::page_bytes),
        );
        let lost = self
            .volatile
            .cut(|page, durable| store.write(u64::from(page) * page_bytes, durable));
        self.abandon(|_| Status::PowerLost, now_ps);
        self.health.unsafe_shutdowns += 1;
        self.lost_pages += lost as u64;
        lost as u64
    }

    /// No block is left to write to: as drives do then, it can only be read.
    pub(super) fn wear_out(&mut self, why: &str, now_ps: u64) {
        self.facts.read_only = true;
        self.worn_out = Some(why.to_owned());
        if let Some(model) = &mut self.model {
            model.simulation_mut().cut_power();
        }
        self.settle();
        self.abandon(
            |op| match op {
                Op::Read | Op::Flush => Status::Done,
                _ => Status::Failed,
            },
            now_ps,
        );
    }

    /// All that the model or the syncing still had is answered now; after `Done` a flush waits for the
    /// backing file, as always.
    fn abandon(&mut self, status: impl Fn(Op) -> Status, now_ps: u64) {
        self.era = self.era.wrapping_add(1);
        self.by_request.clear();
        self.trims.clear();
        self.ready.clear();
        for number in self.slots.numbers() {
            let slot = self.slots.get(number);
            slot.parts = 0;
            slot.status = status(slot.command.op);
            self.carried_out(number, now_ps);
        }
    }

    /// All that is present becomes durable.
    fn settle(&mut self) {
        let mut pages = Vec::new();
        self.volatile.settle(|page| pages.push(page));
        if self.store.backing().is_some() {
            let of_pages = pages.into_iter().map(|page| self.page(page));
            let ranges: Vec<(u64, u64)> = of_pages.collect();
            self.keeps.extend(ranges);
            self.keep();
        }
    }

    /// The clean end: the backing file has everything, and is synced.
    ///
    /// # Errors
    /// What it would not take, as the drive would have answered a flush.
    pub fn finish(&mut self) -> Result<(), Status> {
        let now_ps = self.clock.now_ps();
        self.go_on(now_ps);
        if self.syncer.is_none() {
            return Ok(());
        }
        self.settle();
        self.repay(0..self.facts.size_bytes)?;
        self.syncer.as_mut().map_or(Ok(()), Syncer::finish)
    }
}
