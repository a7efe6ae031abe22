//! Carries out commands of a drive that has [faults](crate::faults), and arms and clears these.

use std::cmp::Reverse;

use super::EmulatedDrive;
use crate::Error;
use crate::command::{Command, Drive, Op, Status};
use crate::faults::{Fault, FaultReport, rotten_bits};

impl EmulatedDrive {
    /// Checks faults that are to be armed.
    pub fn check_faults(&self, faults: &[Fault]) -> Result<(), Error> {
        self.faults.check(faults, &self.namespaces).map(drop)
    }

    pub fn arm_faults(&mut self, faults: Vec<Fault>) -> Result<Vec<u64>, Error> {
        let now_ps = self.clock.now_ps();
        self.faults.arm(faults, &self.namespaces, now_ps)
    }

    /// Clears a fault, or all, and answers the commands that they held. Returns the number of faults cleared.
    pub fn clear_faults(&mut self, id: Option<u64>) -> usize {
        let waits_for_link = self.faults.is_link_down(self.clock.now_ps());
        let cleared = self.faults.clear(id);
        let now_ps = self.clock.now_ps();
        let link_is_back = waits_for_link && !self.faults.is_link_down(now_ps);
        let freed = |stuck: Option<u64>| id.is_none() || stuck == id || (link_is_back && stuck.is_none());
        let mut ready = std::mem::take(&mut self.ready).into_vec();
        for (slot, state) in &mut self.in_flight {
            let hold = &mut state.hold;
            if hold.not_before_ps > now_ps && freed(hold.stuck) {
                (hold.not_before_ps, hold.stuck) = (0, None);
                for Reverse((deadline_ps, _)) in ready.iter_mut().filter(|answer| answer.0.1 == slot) {
                    *deadline_ps = (*deadline_ps).min(now_ps);
                }
            }
        }
        self.ready = ready.into();
        cleared
    }

    /// All faults, with their counts.
    pub fn fault_reports(&self) -> Vec<FaultReport> {
        self.faults.reports()
    }

    /// Whether all connections are to be dropped now: a fault reset the controller, or its link is
    /// down. What was in flight at a reset is answered with [`Status::Aborted`].
    pub fn drops_connections(&mut self) -> bool {
        if self.faults.is_idle() {
            return false;
        }
        let now_ps = self.clock.now_ps();
        self.faults.advance(now_ps);
        if self.faults.take_reset(now_ps) {
            self.complete_all(|_| Status::Aborted, now_ps);
            return true;
        }
        self.faults.is_link_down(now_ps)
    }

    /// Carries out a command of a drive that has faults.
    pub(super) fn submit_with_faults(
        &mut self,
        slot: usize,
        command: &Command,
        data: &[u8],
        now_ps: u64,
    ) -> Result<(), Status> {
        let effect = self.faults.effect_on(command, self.in_flight.len(), now_ps);
        self.in_flight[slot].hold = effect.hold;
        if effect.is_worn {
            self.wear_zones(command.offset_bytes..command.offset_bytes + command.length_bytes);
        }
        if effect.fails {
            return Err(Status::Media);
        }
        if let Some((bits, seed)) = effect.rot {
            self.rot(command, bits, seed)?;
        }
        let mut command = *command;
        if effect.not_durable {
            if command.op == Op::Flush {
                return Ok(());
            }
            command.fua = false;
        }
        let kept = effect.written_bytes.map_or(data.len(), |bytes| data.len().min(bytes as usize));
        if kept == data.len() {
            return self.submit_command(slot, &command, data, now_ps);
        }
        // Only its beginning is written; the model writes all.
        self.store.load(command.offset_bytes, command.length_bytes)?;
        let mut written = self.store.present(command.offset_bytes, command.length_bytes).to_vec();
        written[..kept].copy_from_slice(&data[..kept]);
        self.submit_command(slot, &command, &written, now_ps)
    }

    /// Flips bits of a range, where there is content in flash.
    fn rot(&mut self, command: &Command, bits: u32, seed: u64) -> Result<(), Status> {
        let (offset, length) = (command.offset_bytes, command.length_bytes);
        self.store.load(offset, length)?;
        for (place, mask) in rotten_bits(length, bits, seed) {
            let at = offset + place;
            let page = (at / self.page_bytes()) as u32;
            let in_flash = self.write_cache.durable(page).is_none();
            if !in_flash || !self.extent(at, 1).is_allocated {
                continue;
            }
            self.store.write(at, &[self.store.present(at, 1)[0] ^ mask]);
            self.store.write_back(at, 1)?;
        }
        self.note_change(offset..offset + length);
        Ok(())
    }
}
