//! Elements that serve one page at a time, as those of the reference model do: first come, first served, or reads first.

use std::collections::VecDeque;

use super::{Context, Elements, PageJob, PageOp, execute_serially};
use crate::Error;
use crate::drive::{Drive, Spec};
use crate::engine::timers::{NEVER, Timers, after};

#[derive(Default, Clone, serde::Serialize, serde::Deserialize)]
struct Queue {
    current: Option<PageJob>,
    waiting: VecDeque<PageJob>,
    /// Reads, where they have priority.
    reads: VecDeque<PageJob>,
}

impl Queue {
    #[inline]
    fn next(&mut self) -> Option<PageJob> {
        if let Some(job) = self.reads.pop_front() {
            return Some(job);
        }
        self.waiting.pop_front()
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(in crate::engine) struct SerialElements {
    queues: Vec<Queue>,
    timers: Timers,
    reads_first: bool,
    /// When each finishes its queue, if every waiting job takes `write_ps`.
    free_at_ps: Vec<u64>,
    write_ps: u64,
}

impl SerialElements {
    /// An idle element collects garbage if it is low on free blocks, then starts the job.
    #[inline]
    fn start(&mut self, drive: &mut Drive, element: u32, job: PageJob, mut context: Context<'_>) -> Result<(), Error> {
        let busy_ps = drive.collect_garbage(element) + execute_serially(drive, element, job)?;
        let queue = &mut self.queues[element as usize];
        queue.current = Some(job);
        let waiting = queue.waiting.len() + queue.reads.len();
        let until_ps = after(context.now_ps, busy_ps);
        self.free_at_ps[element as usize] = until_ps.saturating_add(waiting as u64 * self.write_ps);
        context.record_busy(element, busy_ps);
        self.timers.set(element, until_ps);
        Ok(())
    }
}

impl Elements for SerialElements {
    fn new(spec: &Spec) -> Self {
        let elements = spec.elements as usize;
        Self {
            queues: vec![Queue::default(); elements],
            timers: Timers::new(elements),
            reads_first: spec.read_priority,
            free_at_ps: vec![0; elements],
            write_ps: spec.mean_write_ps(),
        }
    }

    #[inline]
    fn next(&self) -> (u64, u32) {
        self.timers.next()
    }

    #[inline]
    fn enqueue(&mut self, drive: &mut Drive, element: u32, job: PageJob, context: Context<'_>) -> Result<(), Error> {
        let queue = &mut self.queues[element as usize];
        if queue.current.is_none() {
            return self.start(drive, element, job, context);
        }
        if self.reads_first && matches!(job.op, PageOp::Read(_)) {
            queue.reads.push_back(job);
        } else {
            queue.waiting.push_back(job);
        }
        let free_at_ps = &mut self.free_at_ps[element as usize];
        *free_at_ps = free_at_ps.saturating_add(self.write_ps);
        Ok(())
    }

    #[inline]
    fn on_timer(
        &mut self,
        drive: &mut Drive,
        element: u32,
        context: Context<'_>,
    ) -> Result<Option<(u32, PageJob)>, Error> {
        let queue = &mut self.queues[element as usize];
        let done = queue.current.take();
        match queue.next() {
            Some(next) => self.start(drive, element, next, context)?,
            None => self.timers.set(element, NEVER),
        }
        Ok(done.map(|job| (element, job)))
    }

    fn free_at_ps(&self) -> &[u64] {
        &self.free_at_ps
    }
}
