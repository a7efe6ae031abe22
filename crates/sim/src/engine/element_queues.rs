//! The queues of elements as a buffer that watches them sees them, for writes that have no events.
//!
//! Their pages are known until they are programmed, so that no timer is needed.

use std::collections::VecDeque;

use super::timers::NEVER;
use crate::drive::Spec;

/// A page that waits at its element, or is on its way there.
struct Queued {
    received_ps: u64,
    done_ps: u64,
}

#[derive(Default)]
struct Queue {
    /// Pages that are not programmed, the first of them in progress if it was received.
    pages: VecDeque<Queued>,
    /// How many of them were received.
    received: usize,
}

impl Queue {
    /// Takes note of all that happens up to and including `now_ps`; returns when the element is estimated to finish what
    /// it has received, and when that is to be estimated again.
    fn advance(&mut self, now_ps: u64, write_ps: u64) -> (u64, u64) {
        let done = self.pages.partition_point(|page| page.done_ps <= now_ps);
        self.pages.drain(..done);
        self.received = self.pages.partition_point(|page| page.received_ps <= now_ps);
        let next_ps = self.pages.get(self.received).map_or(NEVER, |page| page.received_ps);
        if self.received == 0 {
            return (now_ps, next_ps);
        }
        let until_ps = self.pages[0].done_ps;
        let waiting = self.received as u64 - 1;
        (until_ps.saturating_add(waiting * write_ps), next_ps.min(until_ps))
    }
}

/// The queues of a [write stream](super::write_stream), and what a buffer in front of the drive is told of them: the
/// same as by the [event loop](super::event_loop), which does not know when pages that wait will be programmed either.
pub(super) struct ElementQueues {
    queues: Vec<Queue>,
    /// When each finishes the pages that it has received, if every waiting one takes `write_ps`.
    free_at_ps: Vec<u64>,
    /// When that is to be estimated again.
    changes_ps: Vec<u64>,
    write_ps: u64,
}

impl ElementQueues {
    pub fn new(spec: &Spec) -> Self {
        let elements = spec.elements as usize;
        Self {
            queues: (0..elements).map(|_| Queue::default()).collect(),
            free_at_ps: vec![0; elements],
            changes_ps: vec![NEVER; elements],
            write_ps: spec.mean_write_ps(),
        }
    }

    pub fn free_at_ps(&self) -> &[u64] {
        &self.free_at_ps
    }

    /// Takes note of all that happens up to and including `now_ps`.
    #[inline]
    pub fn advance(&mut self, now_ps: u64) {
        let estimates = self.free_at_ps.iter_mut().zip(&mut self.changes_ps);
        for (queue, (free_at_ps, changes_ps)) in self.queues.iter_mut().zip(estimates) {
            if *changes_ps <= now_ps {
                (*free_at_ps, *changes_ps) = queue.advance(now_ps, self.write_ps);
            }
        }
    }

    /// Queues a page that will be programmed at `done_ps`.
    #[inline]
    pub fn push(&mut self, element: usize, received_ps: u64, done_ps: u64) {
        self.queues[element].pages.push_back(Queued { received_ps, done_ps });
        let change_ps = &mut self.changes_ps[element];
        *change_ps = (*change_ps).min(received_ps);
    }
}
