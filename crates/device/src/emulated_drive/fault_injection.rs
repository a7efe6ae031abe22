//! Carries out commands of a drive that has [faults](crate::faults), and arms and clears these.

use std::cmp::Reverse;

use super::EmulatedDrive;
use super::in_flight::ReadyAnswer;
use crate::Error;
use crate::command::{Command, Drive, Op, Status};
use crate::faults::{Effect, Fault, FaultReport, rotten_bits};

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
            if state.not_before_ps > now_ps && freed(state.stuck) {
                (state.not_before_ps, state.stuck) = (0, None);
                for Reverse(answer) in ready.iter_mut().filter(|answer| answer.0.slot == slot) {
                    answer.deadline_ps = answer.deadline_ps.min(now_ps);
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
        let state = &mut self.in_flight[slot];
        state.delay_ps = effect.delay_ps;
        state.not_before_ps = effect.not_before_ps;
        state.stuck = effect.stuck;
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
        match kept(&effect, data) {
            Some(bytes) => self.write_only(slot, &command, data, bytes, now_ps),
            None => self.submit_command(slot, &command, data, now_ps),
        }
    }

    /// Writes the first bytes of the data alone; the model writes them all.
    fn write_only(
        &mut self,
        slot: usize,
        command: &Command,
        data: &[u8],
        bytes: usize,
        now_ps: u64,
    ) -> Result<(), Status> {
        let range = (command.offset_bytes, command.length_bytes);
        self.store.load(range.0, range.1)?;
        let mut written = self.store.present(range.0, range.1).to_vec();
        written[..bytes].copy_from_slice(&data[..bytes]);
        self.submit_command(slot, command, &written, now_ps)
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

    /// When the answer of a command leaves that would leave at `deadline_ps`.
    pub(super) fn delayed(&mut self, slot: usize, deadline_ps: u64) -> ReadyAnswer {
        let state = &mut self.in_flight[slot];
        let deadline_ps = deadline_ps.saturating_add(state.delay_ps);
        ReadyAnswer { deadline_ps: deadline_ps.max(state.not_before_ps), slot }
    }
}

/// How many of the data's first bytes are written, if not all.
fn kept(effect: &Effect, data: &[u8]) -> Option<usize> {
    let bytes = usize::try_from(effect.written_bytes?).ok()?;
    (bytes < data.len()).then_some(bytes)
}
