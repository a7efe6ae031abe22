//! The queue of an element: one page at a time, first come first served, or reads first.

use std::collections::VecDeque;

/// Who waits for a page's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// A request, by its number.
    Request(u32),
    /// A place in the buffer.
    Place,
    /// Nobody: a page that only completes a block.
    Nobody,
}

/// What is done with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// So many sectors are read.
    Read(u32),
    Write,
    /// Nothing: all work before it is to be done first.
    Barrier,
}

/// One page's work at an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub waits: Waits,
    /// Number of the page within the element.
    pub local: u32,
    pub work: Work,
}

#[derive(Default)]
pub(super) struct Server {
    /// What it works on.
    pub current: Option<Job>,
    waiting: VecDeque<Job>,
    /// Reads, where they go first.
    reads: VecDeque<Job>,
}

impl Server {
    #[inline]
    pub fn wait(&mut self, job: Job, reads_first: bool) {
        if reads_first && matches!(job.work, Work::Read(_)) {
            self.reads.push_back(job);
        } else {
            self.waiting.push_back(job);
        }
    }

    #[inline]
    pub fn next(&mut self) -> Option<Job> {
        if let Some(job) = self.reads.pop_front() {
            return Some(job);
        }
        self.waiting.pop_front()
    }

    pub fn len(&self) -> usize {
        self.reads.len() + self.waiting.len()
    }
}
