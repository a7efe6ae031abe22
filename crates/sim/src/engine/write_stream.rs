//! The fast path for writes that wait for nothing but the drive: open loop, no window, one channel,
//! run until all are complete.
//!
//! Then transfers, and the pages of each element, keep the order of the requests. So each request's
//! times follow from those before it, without timers, and no element depends on another: a batch of
//! requests crosses the channel, then each element writes its pages of the batch, then requests
//! complete. Workers share the elements, and the completions. The results are exactly those of the
//! [event loop](super::event_loop) (`tests/it/engines_agree.rs`), several times as fast.

use std::sync::{Mutex, PoisonError};

use ioassay_block::Kind;

use super::completions::{Share, Transfer, Transfers};
use super::load::arrivals::Arrivals;
use super::load::lookahead::Lookahead;
use super::load::requests::DriveRequest;
use super::tally::Tally;
use super::time_series::row_of;
use super::timers::after;
use super::workers::Workers;
use super::write_batch::{Batch, PageWrite, Pages, Pending};
use super::{RunOptions, TimeSeries};
use crate::Error;
use crate::drive::{Drive, Placement};
use crate::error::check_time;
use crate::policy::DriveState;

pub(super) struct WriteStream<'a> {
    drive: &'a mut Drive,
    workers: &'a dyn Workers,
    options: &'a RunOptions,
    /// Whether the run can be repeated by events.
    is_repeatable: bool,
    input: Input<'a>,
    series: TimeSeries,
    /// When each element finishes its queue.
    free_at_ps: Vec<u64>,
    /// Requests that are not complete.
    pending: Vec<Pending>,
    /// How many were left when requests completed last.
    left: usize,
    shares: Vec<Mutex<Share>>,
    now_ps: u64,
}

/// Requests up to the elements: they are read, and cross the channel.
struct Input<'a> {
    lookahead: Lookahead<'a>,
    tally: Tally,
    requests: Vec<DriveRequest>,
    batch: usize,
    placement: Placement,
    channel_free_ps: u64,
    channel_ps_per_sector: u64,
    transfers: Transfers,
}

impl<'a> WriteStream<'a> {
    pub fn new(
        drive: &'a mut Drive,
        lookahead: Lookahead<'a>,
        options: &'a RunOptions,
        workers: &'a dyn Workers,
        is_repeatable: bool,
    ) -> Self {
        let elements = drive.spec().elements;
        let shares = match workers.count() {
            1 => 1,
            // So that those who are late have less to do.
            several => 4 * several,
        };
        Self {
            input: Input {
                lookahead,
                tally: Tally::default(),
                requests: Vec::new(),
                batch: if workers.count() == 1 { BATCH } else { SHARED_BATCH },
                placement: drive.placement(),
                channel_free_ps: 0,
                channel_ps_per_sector: drive.spec().channel_ps_per_sector,
                transfers: Transfers::default(),
            },
            drive,
            workers,
            options,
            is_repeatable,
            series: TimeSeries::new(options.series_rows, elements as usize),
            free_at_ps: vec![0; elements as usize],
            pending: Vec::new(),
            left: 0,
            shares: (0..shares).map(|_| Mutex::default()).collect(),
            now_ps: 0,
        }
    }

    pub fn run(mut self) -> Result<(Tally, TimeSeries), Error> {
        let elements = self.free_at_ps.len();
        let (mut batch, mut next) = (Batch::new(elements), Batch::new(elements));
        let mut more = self.prepare(&mut batch);
        loop {
            if let Some(last) = batch.pending.last() {
                // So that rows are as wide as they will be, or nearly so.
                self.series.row_at(last.issued_ps);
            }
            let is_shared = self.workers.count() > 1 && more.as_ref().is_ok_and(|&more| more);
            let prepared = self.serve_batch(&mut batch, is_shared.then_some(&mut next))?;
            self.free_at_ps.iter().try_for_each(|&at_ps| check_time(at_ps))?;
            self.settle(&mut batch);
            if !more? {
                break;
            }
            if self.gives_up(next.pending.first()) {
                // By events, no work was begun after that.
                if self.is_repeatable {
                    return Err(Error::NeedsEvents);
                }
                break;
            }
            more = prepared.unwrap_or_else(|| self.prepare(&mut next));
            std::mem::swap(&mut batch, &mut next);
        }
        Ok(self.finish())
    }

    /// Completes what is done, if much is pending; returns whether too much is outstanding even so.
    fn gives_up(&mut self, next: Option<&Pending>) -> bool {
        let most = self.options.max_outstanding;
        // Rarely enough that what is left is looked at a few times at most.
        if self.pending.len() > most.min(COMPLETION_BATCH + 2 * self.left) {
            self.complete_until(self.now_ps, next);
            self.input.tally.gave_up = self.pending.len() > most;
        }
        self.input.tally.gave_up
    }

    /// Prepares a batch; returns false at the end.
    fn prepare(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        let room = self.options.max_outstanding;
        let room = room.saturating_sub(self.pending.len());
        self.input.prepare(batch, room)
    }

    /// The workers serve a batch. Meanwhile this thread prepares the next one, if there is one, unless too many
    /// requests may be outstanding then.
    fn serve_batch(
        &mut self,
        batch: &mut Batch,
        mut next: Option<&mut Batch>,
    ) -> Result<Option<Result<bool, Error>>, Error> {
        let outstanding = self.pending.len() + batch.pending.len();
        let room = self.options.max_outstanding.checked_sub(outstanding);
        let mut prepared = None;
        let mut meanwhile = || {
            if let (Some(next), Some(room)) = (&mut next, room) {
                prepared = Some(self.input.prepare(next, room));
            }
        };
        batch
            .serve(self.drive, &mut self.free_at_ps, self.workers, self.series.width_ps, &mut meanwhile)
            .map_err(|element| self.drive.worn_out(element))?;
        Ok(prepared)
    }

    /// Adds up a batch that was served.
    fn settle(&mut self, batch: &mut Batch) {
        batch.set_done();
        if let Some(last) = batch.pending.last() {
            self.now_ps = last.issued_ps;
        }
        self.input.tally.issued += batch.pending.len() as u64;
        let mut later = &batch.pending[..];
        while let Some(first) = later.first() {
            let end_ps = row_of(first.issued_ps, self.series.width_ps).end;
            let issued = later.partition_point(|request| request.issued_ps < end_ps);
            self.series.row_at(first.issued_ps).issued += issued as u64;
            later = &later[issued..];
        }
        for (element, work) in batch.work.iter().enumerate() {
            for work in work {
                self.series.add_work(work, element);
            }
        }
        // Only few are moved.
        if self.pending.len() < batch.pending.len() {
            std::mem::swap(&mut self.pending, &mut batch.pending);
        }
        self.pending.append(&mut batch.pending);
    }

    /// Completes the requests that are done by `until_ps`: transfers not issued yet start later.
    fn complete_until(&mut self, until_ps: u64, next: Option<&Pending>) {
        let size = self.pending.len().div_ceil(self.shares.len()).max(1);
        let chunks: Vec<&[Pending]> = self.pending.chunks(size).collect();
        let (shares, transfers, row_ps) = (&self.shares, &self.input.transfers, self.series.width_ps);
        let count = |number: usize| {
            let mut share = shares[number].lock().unwrap_or_else(PoisonError::into_inner);
            share.count(chunks[number], until_ps, transfers, row_ps);
        };
        self.workers.share(chunks.len(), &count, &mut || ());
        self.pending.retain(|request| request.done_ps > until_ps);
        self.left = self.pending.len();
        for share in &mut self.shares {
            let share = share.get_mut().unwrap_or_else(PoisonError::into_inner);
            for interval in share.intervals.drain(..) {
                share.responses.response_ps += interval.response_ps;
                share.responses.device_ps += interval.response_ps;
                self.series.add_interval(&interval);
            }
        }
        // No later search begins before the transfer of the oldest that is pending.
        let transfers = self.pending.iter().chain(next);
        let transfers = transfers.map(|request| request.transfer);
        self.input.transfers.forget_before_all(transfers);
    }

    fn finish(mut self) -> (Tally, TimeSeries) {
        self.complete_until(self.now_ps, None);
        if !self.input.tally.gave_up {
            self.complete_until(u64::MAX, None);
        }
        let mut tally = self.input.tally;
        for share in self.shares {
            let mut share = share.into_inner().unwrap_or_else(PoisonError::into_inner);
            share.responses.record_recent();
            tally.writes = tally.writes.plus(&share.responses);
            tally.last_completion_ps = tally.last_completion_ps.max(share.last_ps);
        }
        tally.last_issue_ps = self.now_ps;
        self.series.finish(tally, self.pending.len(), self.input.lookahead.held_pages())
    }
}

impl Input<'_> {
    /// Prepares a batch: `room` more requests, about, before too many may be outstanding. Returns false at the end.
    fn prepare(&mut self, batch: &mut Batch, room: usize) -> Result<bool, Error> {
        batch.clear();
        self.requests.clear();
        // The buffer does not look at the elements.
        let drive_state = DriveState { now_ps: 0, free_at_ps: &[] };
        let mut more = Ok(true);
        while let Ok(true) = more {
            more = self.lookahead.append_ready(&mut self.requests, &drive_state, &mut self.tally);
            let requests = self.requests.len();
            if requests >= self.batch || requests > room {
                break;
            }
        }
        if self.requests.iter().any(|request| request.kind != Kind::Write) {
            more = Err(Error::NeedsEvents);
        }
        self.transfer_all(batch);
        more
    }

    /// Requests cross the channel, and their pages queue at the elements.
    fn transfer_all(&mut self, batch: &mut Batch) {
        let first = self.transfers.known.len();
        let mut free_ps = self.channel_free_ps;
        let transfers = self.requests.iter().map(|request| {
            let start_ps = request.at_ps.max(free_ps);
            free_ps = after(start_ps, u64::from(request.sectors) * self.channel_ps_per_sector);
            Transfer { start_ps, end_ps: free_ps }
        });
        self.transfers.known.extend(transfers);
        self.channel_free_ps = free_ps;
        let numbers = self.transfers.first.wrapping_add(first as u32)..;
        let pending = self.requests.iter().zip(numbers);
        batch.pending.extend(pending.map(|(request, transfer)| Pending {
            issued_ps: request.at_ps,
            done_ps: 0,
            sectors: request.sectors,
            transfer,
        }));
        let transfers = self.transfers.known[first..].iter();
        for (number, (request, transfer)) in (0..).zip(self.requests.iter().zip(transfers)) {
            let mut place = self.placement.place(request.first);
            batch.pages.push(Pages { element: place.element, count: request.pages });
            for _ in 0..request.pages {
                batch.writes[place.element as usize].push(PageWrite {
                    received_ps: transfer.end_ps,
                    local: place.local,
                    request: number,
                });
                place = self.placement.next(place);
            }
        }
    }
}

/// Requests that are issued together, about: what the second-level cache holds.
const BATCH: usize = 1 << 13;

/// The same for several workers, whose meetings cost as much as hundreds of requests.
const SHARED_BATCH: usize = 1 << 16;

/// Pending requests below which completion waits for more.
const COMPLETION_BATCH: usize = 1024;
