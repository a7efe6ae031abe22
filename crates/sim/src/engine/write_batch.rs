//! A batch of write requests: each element writes its pages of the batch, whatever the others do.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::time_series::{Work, row_of};
use super::workers::Workers;
use crate::drive::{Counters, Drive, ElementPart};

/// A page that its element writes once the request has crossed the channel.
#[derive(Clone, Copy)]
pub(super) struct PageWrite {
    pub received_ps: u64,
    /// Number of the page within the element.
    pub local: u32,
    /// Its request, counted in the batch.
    pub request: u32,
}

/// A request whose last page is programmed at `done_ps`: it completes then, or at the end of the
/// transfer that is in progress on the channel.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub issued_ps: u64,
    pub done_ps: u64,
    pub sectors: u32,
    /// Number of its own transfer, where the search for the one in progress begins.
    pub transfer: u32,
}

/// The pages of a request, which lie on one element after the other.
#[derive(Clone, Copy)]
pub(super) struct Pages {
    /// The element of the first.
    pub element: u32,
    pub count: u32,
}

#[derive(Default)]
pub(super) struct Batch {
    pub pending: Vec<Pending>,
    /// The pages of each request.
    pub pages: Vec<Pages>,
    /// For each element its page writes, in order, and when each is done.
    pub writes: Vec<Vec<PageWrite>>,
    done_ps: Vec<Vec<u64>>,
    /// For each element its work, row by row.
    pub work: Vec<Vec<Work>>,
    /// How many of its writes each element has been asked for.
    served: Vec<usize>,
}

/// An element, with what it needs for a batch.
struct Lane<'a> {
    part: ElementPart<'a>,
    free_at_ps: &'a mut u64,
    writes: &'a [PageWrite],
    done_ps: &'a mut Vec<u64>,
    work: &'a mut Vec<Work>,
}

impl Batch {
    pub fn new(elements: usize) -> Self {
        Self {
            writes: vec![Vec::new(); elements],
            done_ps: vec![Vec::new(); elements],
            served: vec![0; elements],
            work: (0..elements).map(|_| Vec::new()).collect(),
            ..Self::default()
        }
    }

    pub fn clear(&mut self) {
        self.writes.iter_mut().for_each(Vec::clear);
        self.done_ps.iter_mut().for_each(Vec::clear);
        self.work.iter_mut().for_each(Vec::clear);
        self.served.fill(0);
        self.pending.clear();
        self.pages.clear();
    }

    /// Elements write their pages, shared by the workers, while the caller's thread first does `meanwhile`; the error is
    /// the element that found no free block first. The series' rows are `row_ps` wide.
    pub fn serve(
        &mut self,
        drive: &mut Drive,
        free_at_ps: &mut [u64],
        workers: &dyn Workers,
        row_ps: u64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), u32> {
        let queues = self.writes.iter().zip(&mut self.done_ps);
        let queues = queues.zip(&mut self.work).zip(free_at_ps);
        let lanes: Vec<Mutex<Lane<'_>>> = drive
            .parts()
            .zip(queues)
            .map(|(part, (((writes, done_ps), work), free_at_ps))| {
                Mutex::new(Lane { part, free_at_ps, writes, done_ps, work })
            })
            .collect();
        let failed = Mutex::new(Vec::new());
        let serve = |element: usize| {
            let mut lane = lanes[element].lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(request) = lane.serve(row_ps) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push((request, element as u32));
            }
        };
        workers.share(lanes.len(), &serve, meanwhile);
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.into_iter().min().map_or(Ok(()), |(_, element)| Err(element))
    }

    /// Sets when each request is done, of the times when its pages are.
    pub fn set_done(&mut self) {
        let elements = self.served.len();
        for (request, pages) in self.pending.iter_mut().zip(&self.pages) {
            let mut element = pages.element as usize;
            for _ in 0..pages.count {
                let served = &mut self.served[element];
                request.done_ps = request.done_ps.max(self.done_ps[element][*served]);
                *served += 1;
                element = if element + 1 < elements { element + 1 } else { 0 };
            }
        }
    }
}

impl Lane<'_> {
    /// Writes the pages, one after the other; the error is the request that finds no free block.
    fn serve(&mut self, row_ps: u64) -> Result<(), u32> {
        let mut work = RowWork::new(self.part.counters());
        let mut free_ps = *self.free_at_ps;
        for chunk in self.writes.chunks(PREFETCHED) {
            if chunk.len() > 1 {
                self.part.prefetch(chunk.iter().map(|write| write.local));
            }
            for write in chunk {
                let start_ps = write.received_ps.max(free_ps);
                if work.ends_by(start_ps) {
                    self.work.push(work.end(row_of(start_ps, row_ps), self.part.counters()));
                }
                let spent_ps = self.part.collect_and_write(write.local).ok_or(write.request)?;
                free_ps = start_ps.saturating_add(spent_ps);
                work.busy_ps = work.busy_ps.saturating_add(spent_ps);
                self.done_ps.push(free_ps);
            }
        }
        self.work.push(work.end(0..0, self.part.counters()));
        *self.free_at_ps = free_ps;
        Ok(())
    }
}

/// What an element does in one row of the time series.
pub(super) struct RowWork {
    row: Range<u64>,
    pub busy_ps: u64,
    /// Its counters at the beginning of the row.
    before: Counters,
}

impl RowWork {
    pub fn new(before: Counters) -> Self {
        Self { row: 0..0, busy_ps: 0, before }
    }

    #[inline]
    pub fn ends_by(&self, start_ps: u64) -> bool {
        start_ps >= self.row.end
    }

    /// Ends the row, and begins another one.
    pub fn end(&mut self, next: Range<u64>, counters: Counters) -> Work {
        let row = std::mem::replace(&mut self.row, next);
        let before = std::mem::replace(&mut self.before, counters);
        Work { begin_ps: row.start, busy_ps: std::mem::take(&mut self.busy_ps), counters: counters.since(before) }
    }
}

/// Page writes of an element whose table entries are prefetched together.
const PREFETCHED: usize = 128;
