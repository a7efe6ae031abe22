//! Elements that serve one page at a time: first come first served, or reads first.

use std::collections::VecDeque;

use super::{Elements, Job, Now, Work, done_alone};
use crate::Error;
use crate::drive::{Drive, Spec};
use crate::engine::timers::{Clocks, NEVER};

#[derive(Default, Clone)]
struct Queue {
    /// What is worked on.
    current: Option<Job>,
    waiting: VecDeque<Job>,
    /// Reads, where they go first.
    reads: VecDeque<Job>,
}

impl Queue {
    #[inline]
    fn next(&mut self) -> Option<Job> {
        if let Some(job) = self.reads.pop_front() {
            return Some(job);
        }
        self.waiting.pop_front()
    }
}

pub(in crate::engine) struct Single {
    queues: Vec<Queue>,
    clocks: Clocks,
    reads_first: bool,
    /// When each is done with what it has, if all that waits takes `write_ps`.
    free_at_ps: Vec<u64>,
    write_ps: u64,
}

impl Single {
    pub fn new(spec: &Spec) -> Self {
        let elements = spec.elements as usize;
        Self {
            queues: vec![Queue::default(); elements],
            clocks: Clocks::new(elements),
            reads_first: spec.read_priority,
            free_at_ps: vec![0; elements],
            write_ps: spec.mean_write_ps(),
        }
    }

    /// An idle element cleans if it has to, and begins to serve a page.
    #[inline]
    fn begin(
        &mut self,
        drive: &mut Drive,
        element: u32,
        job: Job,
        mut now: Now<'_>,
    ) -> Result<(), Error> {
        let busy_ps = drive.clean(element) + done_alone(drive, element, job)?;
        let queue = &mut self.queues[element as usize];
        queue.current = Some(job);
        let waiting = queue.waiting.len() + queue.reads.len();
        let until_ps = now.ps.saturating_add(busy_ps);
        self.free_at_ps[element as usize] = until_ps + waiting as u64 * self.write_ps;
        now.works(element, busy_ps);
        self.clocks.set(element, until_ps);
        Ok(())
    }
}

impl Elements for Single {
    #[inline]
    fn next(&self) -> (u64, u32) {
        self.clocks.next()
    }

    #[inline]
    fn offer(
        &mut self,
        drive: &mut Drive,
        element: u32,
        job: Job,
        now: Now<'_>,
    ) -> Result<(), Error> {
        let queue = &mut self.queues[element as usize];
        if queue.current.is_none() {
            return self.begin(drive, element, job, now);
        }
        if self.reads_first && matches!(job.work, Work::Read(_)) {
            queue.reads.push_back(job);
        } else {
            queue.waiting.push_back(job);
        }
        self.free_at_ps[element as usize] += self.write_ps;
        Ok(())
    }

    #[inline]
    fn strike(
        &mut self,
        drive: &mut Drive,
        element: u32,
        now: Now<'_>,
    ) -> Result<Option<(u32, Job)>, Error> {
        let queue = &mut self.queues[element as usize];
        let done = queue.current.take();
        match queue.next() {
            Some(next) => self.begin(drive, element, next, now)?,
            None => self.clocks.set(element, NEVER),
        }
        Ok(done.map(|job| (element, job)))
    }

    fn free_at_ps(&self) -> &[u64] {
        &self.free_at_ps
    }
}
