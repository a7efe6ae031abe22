//! Aborting commands that are not done yet. What the model has begun of them is done all the same.

use std::cmp::Reverse;

use super::EmulatedDrive;
use super::in_flight::ReadyAnswer;
use crate::command::{Op, Status, Tag};

/// Requests of aborted commands that the model may have: it does them all, and a host that aborts all it
/// submits must not fill it without end.
const MOST_ABORTED: usize = 1024;

impl EmulatedDrive {
    /// Answers commands with this tag now, with [`Status::Aborted`], where the model has yet to do
    /// something for them; whether there was one. What it does is done all the same, as by a drive
    /// that has begun, and of a trim what was not begun is left.
    pub(super) fn abort_commands(&mut self, tag: Tag) -> bool {
        let deadline_ps = self.clock.now_ps();
        if self.aborted_requests >= MOST_ABORTED {
            return false;
        }
        let mut any = false;
        for number in self.in_flight_slots(|command| command.tag == tag) {
            let op = self.in_flight[number].command.op;
            if self.zoned.is_some() && !matches!(op, Op::Read | Op::Flush) {
                continue; // a write that is not done would leave a gap in its zone
            }
            let (requests, trims) = (self.by_request.len(), self.trims.len());
            self.by_request.retain(|_, slot| *slot != number);
            self.trims.retain(|trim| trim.slot != number);
            let forgotten = requests - self.by_request.len();
            self.aborted_requests += forgotten;
            let slot = &mut self.in_flight[number];
            let held = slot.not_before_ps > deadline_ps || slot.delay_ps > 0;
            let is_ready = slot.parts == 0;
            if forgotten == 0 && self.trims.len() == trims && !(held && is_ready) {
                continue; // only its answer is due, or a sync of the backing file
            }
            if held {
                self.ready.retain(|Reverse(ready)| ready.slot != number);
            }
            let slot = &mut self.in_flight[number];
            slot.parts = 0;
            slot.status = Status::Aborted;
            self.ready.push(Reverse(ReadyAnswer { deadline_ps, slot: number }));
            any = true;
        }
        any
    }
}
