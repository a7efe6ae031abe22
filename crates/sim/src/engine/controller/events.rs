//! The events of a drive with a controller, in order of time.
//!
//! What takes no time happens before anything else of the same time, in the order in which it began.
//! Of events that took time and end together, the one that began first is first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::engine::timers::NEVER;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(super) enum Event {
    /// A request's command time is over.
    Command(u32),
    /// The next page of a write has crossed the link.
    Received(u32),
    /// A part of a read has crossed the link.
    Sent(u32),
    /// A phase of an element's operation is over, unless it was suspended: then the phase has another number.
    Element { element: u32, phase: u32 },
    /// The host may be idle, unless this rest has ended.
    Idle(u64),
}

#[derive(Default, serde::Serialize, serde::Deserialize)]
pub(super) struct EventQueue {
    later: BinaryHeap<Reverse<(u64, u64, Event)>>,
    at_once: VecDeque<Event>,
    sequence: u64,
}

impl EventQueue {
    /// Schedules an event for `at_ps`, which is not before `now_ps`.
    #[inline]
    pub fn schedule(&mut self, now_ps: u64, at_ps: u64, event: Event) {
        if at_ps <= now_ps {
            self.at_once.push_back(event);
        } else {
            self.sequence += 1;
            self.later.push(Reverse((at_ps, self.sequence, event)));
        }
    }

    /// When the next event is; `NEVER` without one.
    #[inline]
    pub fn next_ps(&self, now_ps: u64) -> u64 {
        if !self.at_once.is_empty() {
            return now_ps;
        }
        self.later.peek().map_or(NEVER, |Reverse((at_ps, ..))| *at_ps)
    }

    /// The next event with its time, unless it is later than `limit_ps`. What takes no time is due at any limit.
    #[inline]
    pub fn pop_until(&mut self, now_ps: u64, limit_ps: u64) -> Option<(u64, Event)> {
        if let Some(event) = self.at_once.pop_front() {
            return Some((now_ps, event));
        }
        let &Reverse((at_ps, ..)) = self.later.peek()?;
        if at_ps > limit_ps {
            return None;
        }
        self.later.pop().map(|Reverse((at_ps, _, event))| (at_ps, event))
    }
}
