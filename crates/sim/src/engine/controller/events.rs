//! The events of a drive with a controller, in order of time.
//!
//! What takes no time happens before anything else of the same time, in the order in which it began.
//! Of events that took time and end together, the one that began first is first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::Error;
use crate::engine::timers::NEVER;
use crate::state::ensure;

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

    /// The next event of the present time that took no time.
    #[inline]
    pub fn pop_at_once(&mut self) -> Option<Event> {
        self.at_once.pop_front()
    }

    /// When the next event that takes time ends; `NEVER` without one.
    #[inline]
    pub fn next_ps(&self) -> u64 {
        self.later.peek().map_or(NEVER, |Reverse((at_ps, ..))| *at_ps)
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.later.pop().map(|Reverse((.., event))| event)
    }

    /// Checks a queue that was read: no event is in the past, or later than `latest_ps`.
    pub fn check(&self, now_ps: u64, latest_ps: u64) -> Result<(), Error> {
        let later = self
            .later
            .iter()
            .all(|Reverse((at_ps, number, _))| (now_ps..=latest_ps).contains(at_ps) && *number <= self.sequence);
        let counts = self.sequence < u64::MAX / 2;
        ensure(later && counts, "an event is not in order")
    }

    /// All events with their times.
    pub fn iter(&self, now_ps: u64) -> impl Iterator<Item = (u64, Event)> {
        let later = self.later.iter();
        let later = later.map(|&Reverse((at_ps, _, event))| (at_ps, event));
        let at_once = self.at_once.iter();
        later.chain(at_once.map(move |&event| (now_ps, event)))
    }
}
