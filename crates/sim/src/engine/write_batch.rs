//! A batch of write requests: each element writes its pages of the batch, whatever the others do.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

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
pub(super) struct Pending {
    pub issued_ps: u64,
    /// Elements set it, each for its own pages.
    pub done_ps: AtomicU64,
    pub sectors: u32,
    /// Number of its own transfer, where the search for the one in progress begins.
    pub transfer: u32,
}

impl Pending {
    #[inline]
    pub fn done_ps(&self) -> u64 {
        self.done_ps.load(Relaxed)
    }
}

/// Requests of a batch that are issued in the same row of the time series.
pub(super) struct Segment {
    /// When the row began for the stream: at its first issue.
    pub begin_ps: u64,
    /// Number of the request after the last.
    pub end: usize,
}

/// What an element did for a segment.
pub(super) struct Work {
    pub busy_ps: u64,
    pub counters: Counters,
}

#[derive(Default)]
pub(super) struct Batch {
    pub pending: Vec<Pending>,
    /// For each element its page writes, in order.
    pub writes: Vec<Vec<PageWrite>>,
    /// For each element its work for each segment.
    pub work: Vec<Vec<Work>>,
    pub segments: Vec<Segment>,
    /// Whether a request has several pages, which may lie on several elements.
    pub has_long: bool,
    /// The elements that have a page of it, or all.
    pub elements: Vec<u32>,
}

/// An element, with what it needs for a batch.
struct Lane<'a> {
    part: ElementPart<'a>,
    free_at_ps: &'a mut u64,
    writes: &'a [PageWrite],
    work: &'a mut Vec<Work>,
}

impl Batch {
    pub fn new(elements: usize) -> Self {
        Self {
            writes: vec![Vec::new(); elements],
            work: (0..elements).map(|_| Vec::new()).collect(),
            ..Self::default()
        }
    }

    pub fn clear(&mut self) {
        for &element in &self.elements {
            self.writes[element as usize].clear();
            self.work[element as usize].clear();
        }
        self.pending.clear();
        self.segments.clear();
        self.elements.clear();
        self.has_long = false;
    }

    /// Elements write their pages; the error is the element that found no free block first.
    pub fn serve(&mut self, drive: &mut Drive, free_at_ps: &mut [u64]) -> Result<(), u32> {
        let mut failed = Vec::new();
        for &number in &self.elements {
            let element = number as usize;
            let mut lane = Lane {
                part: drive.part(number),
                free_at_ps: &mut free_at_ps[element],
                writes: &self.writes[element],
                work: &mut self.work[element],
            };
            if let Err(request) = lane.serve(&self.segments, &self.pending, false) {
                failed.push((request, number));
            }
        }
        first_of(failed)
    }

    /// As `serve`, shared by the workers, while the caller's thread first does `meanwhile`.
    pub fn serve_shared(
        &mut self,
        drive: &mut Drive,
        free_at_ps: &mut [u64],
        workers: &dyn Workers,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), u32> {
        let (segments, pending) = (&self.segments, &self.pending);
        let queues = self.writes.iter().zip(&mut self.work).zip(free_at_ps);
        let lanes: Vec<Mutex<Lane<'_>>> = drive
            .parts()
            .zip(queues)
            .map(|(part, ((writes, work), free_at_ps))| {
                Mutex::new(Lane {
                    part,
                    free_at_ps,
                    writes,
                    work,
                })
            })
            .collect();
        let failed = Mutex::new(Vec::new());
        let serve = |element: usize| {
            let mut lane = lanes[element]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Err(request) = lane.serve(segments, pending, self.has_long) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push((request, element as u32));
            }
        };
        workers.share(lanes.len(), &serve, meanwhile);
        first_of(failed.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Of requests that failed, each with its element, the element of the first.
fn first_of(failed: Vec<(u32, u32)>) -> Result<(), u32> {
    let first = failed.into_iter().min();
    first.map_or(Ok(()), |(_, element)| Err(element))
}

impl Lane<'_> {
    /// Writes the pages, one after the other; the error is the request that finds no free block.
    /// `is_shared`: other lanes may write pages of the same request at the same time.
    fn serve(
        &mut self,
        segments: &[Segment],
        pending: &[Pending],
        is_shared: bool,
    ) -> Result<(), u32> {
        let mut later = self.writes;
        for segment in segments {
            let before = self.part.counters();
            let own = later.partition_point(|write| (write.request as usize) < segment.end);
            let (now, rest) = later.split_at(own);
            later = rest;
            let mut busy_ps = 0;
            for chunk in now.chunks(PREFETCHED) {
                if chunk.len() > 1 {
                    self.part.prefetch(chunk.iter().map(|write| write.local));
                }
                busy_ps += self.serve_chunk(chunk, pending, is_shared)?;
            }
            self.work.push(Work {
                busy_ps,
                counters: self.part.counters().since(before),
            });
        }
        Ok(())
    }

    /// Returns the time it takes.
    #[inline]
    fn serve_chunk(
        &mut self,
        writes: &[PageWrite],
        pending: &[Pending],
        is_shared: bool,
    ) -> Result<u64, u32> {
        let mut busy_ps = 0;
        let mut free_ps = *self.free_at_ps;
        for write in writes {
            let written = self.part.collect_and_write(write.local);
            let spent_ps = written.ok_or(write.request)?;
            free_ps = write.received_ps.max(free_ps).saturating_add(spent_ps);
            busy_ps += spent_ps;
            let done_ps = &pending[write.request as usize].done_ps;
            if is_shared {
                done_ps.fetch_max(free_ps, Relaxed);
            } else {
                done_ps.store(free_ps.max(done_ps.load(Relaxed)), Relaxed);
            }
        }
        *self.free_at_ps = free_ps;
        Ok(busy_ps)
    }
}

/// Page writes of an element whose table entries are prefetched together.
const PREFETCHED: usize = 128;
