//! The fast path for writes that wait for nothing but the drive: open loop, no window, one channel,
//! run until all are complete.
//!
//! Then transfers, and the pages of each element, keep the order of the requests. So each request's
//! times follow from those before it, without timers. The results are exactly those of the
//! [event loop](super::event_loop) (`tests/engines_agree.rs`), several times as fast.

use std::collections::VecDeque;

use super::load::arrivals::Arrivals;
use super::load::lookahead::Lookahead;
use super::load::requests::DriveRequest;
use super::tally::Tally;
use super::{RunOptions, TimeSeries};
use crate::Error;
use crate::drive::{Counters, Drive};
use crate::policy::DriveState;

/// A request whose last page is programmed at `done_ps`: it completes then, or at the end of the
/// transfer that is in progress on the channel.
#[derive(Clone, Copy)]
struct Pending {
    issued_ps: u64,
    done_ps: u64,
    sectors: u32,
    /// Number of its own transfer, where the search for the one in progress begins.
    transfer: u32,
}

#[derive(Clone, Copy)]
struct Transfer {
    start_ps: u64,
    end_ps: u64,
}

pub(super) struct WriteStream<'a> {
    pub drive: &'a mut Drive,
    pub lookahead: Lookahead<'a>,
    options: &'a RunOptions,
    pub tally: Tally,
    pub series: TimeSeries,
    /// When each element finishes its queue.
    free_at_ps: Vec<u64>,
    channel_free_ps: u64,
    channel_ps_per_sector: u64,
    /// For each element the requests that its pages complete, in order.
    pending: Vec<VecDeque<Pending>>,
    outstanding: usize,
    /// Transfers that a search may still reach; the first has the number `first_transfer`.
    transfers: Vec<Transfer>,
    first_transfer: u32,
    now_ps: u64,
    /// The drive's counters at the end of the previous row of the series.
    counters_before: Counters,
}

impl<'a> WriteStream<'a> {
    pub fn new(drive: &'a mut Drive, lookahead: Lookahead<'a>, options: &'a RunOptions) -> Self {
        let elements = drive.spec().elements as usize;
        Self {
            channel_ps_per_sector: drive.spec().channel_ps_per_sector,
            counters_before: drive.counters(),
            drive,
            lookahead,
            options,
            tally: Tally::default(),
            series: TimeSeries::new(options.series_rows, elements),
            free_at_ps: vec![0; elements],
            channel_free_ps: 0,
            pending: vec![VecDeque::new(); elements],
            outstanding: 0,
            transfers: Vec::new(),
            first_transfer: 0,
            now_ps: 0,
        }
    }

    pub fn run(mut self) -> Result<(Tally, TimeSeries), Error> {
        loop {
            let drive_state = DriveState {
                now_ps: self.now_ps,
                free_at_ps: &self.free_at_ps,
            };
            self.lookahead
                .refill(self.drive, &drive_state, &mut self.tally)?;
            if self.lookahead.peek().is_none() {
                break;
            }
            self.issue_ready()?;
            if self.outstanding > self.options.max_outstanding {
                self.complete_until(self.now_ps);
                if self.outstanding > self.options.max_outstanding {
                    self.tally.gave_up = true;
                    break;
                }
            }
        }
        Ok(self.finish())
    }

    /// Issues all requests that are ready.
    fn issue_ready(&mut self) -> Result<(), Error> {
        let ready = self.lookahead.take_ready();
        let before = self.now_ps;
        for request in &ready {
            self.issue(request)?;
        }
        self.lookahead.recycle(ready);
        // Often enough to keep searches short, and never for a few requests only.
        if self.outstanding >= COMPLETION_BATCH && self.now_ps > before {
            self.complete_until(self.now_ps);
        }
        Ok(())
    }

    #[inline]
    fn issue(&mut self, request: &DriveRequest) -> Result<(), Error> {
        self.now_ps = request.at_ps;
        if request.at_ps >= self.series.row_end_ps {
            self.next_row();
        }
        let start_ps = request.at_ps.max(self.channel_free_ps);
        let end_ps = start_ps + u64::from(request.sectors) * self.channel_ps_per_sector;
        self.channel_free_ps = end_ps;
        self.transfers.push(Transfer { start_ps, end_ps });
        let (mut done_ps, mut last) = (0, 0);
        let row = self.series.current_row();
        row.issued += 1;
        self.tally.issued += 1;
        for page in request.first..request.first + request.pages {
            let place = self.drive.place(page);
            let element = place.element as usize;
            let Some(busy_ps) = self.drive.collect_and_write(place) else {
                return Err(self.drive.worn_out(place.element));
            };
            let free_ps = self.free_at_ps[element].max(end_ps).saturating_add(busy_ps);
            self.free_at_ps[element] = free_ps;
            row.busy_ps[element] += busy_ps;
            if free_ps > done_ps {
                (done_ps, last) = (free_ps, element);
            }
        }
        self.pending[last].push_back(Pending {
            issued_ps: request.at_ps,
            done_ps,
            sectors: request.sectors,
            transfer: self.first_transfer + (self.transfers.len() - 1) as u32,
        });
        self.outstanding += 1;
        Ok(())
    }

    #[cold]
    fn next_row(&mut self) {
        self.complete_until(self.now_ps);
        let all = self.drive.counters();
        self.series.advance(
            self.now_ps,
            self.outstanding as u64,
            all.since(self.counters_before),
        );
        self.counters_before = all;
    }

    /// Completes the requests that are done by `until_ps`: transfers not issued yet start later.
    fn complete_until(&mut self, until_ps: u64) {
        let mut oldest = self.first_transfer + self.transfers.len() as u32;
        for element in 0..self.pending.len() {
            while let Some(&pending) = self.pending[element].front() {
                if pending.done_ps > until_ps {
                    oldest = oldest.min(pending.transfer);
                    break;
                }
                let at_ps = self.completion_ps(&pending);
                self.pending[element].pop_front();
                self.outstanding -= 1;
                self.complete(&pending, at_ps);
            }
        }
        let known = (oldest - self.first_transfer) as usize;
        // Rarely enough that each transfer is moved a few times at most.
        if known > 1024 && known * 2 > self.transfers.len() {
            self.transfers.drain(..known);
            self.first_transfer = oldest;
        }
    }

    #[inline]
    fn complete(&mut self, pending: &Pending, at_ps: u64) {
        let response_ps = at_ps - pending.issued_ps;
        self.tally.complete(
            ioassay_block::Kind::Write,
            response_ps,
            response_ps,
            pending.sectors,
        );
        self.tally.last_completion_ps = self.tally.last_completion_ps.max(at_ps);
        let row = self.series.row_at(at_ps);
        row.completed += 1;
        row.response_ps += u128::from(response_ps);
    }

    /// When a request with all its pages done completes: then, or after the transfer in progress.
    #[inline]
    fn completion_ps(&self, pending: &Pending) -> u64 {
        let from = (pending.transfer - self.first_transfer) as usize;
        let later = &self.transfers[from..];
        let in_progress = started_before(later, pending.done_ps);
        later[in_progress].end_ps.max(pending.done_ps)
    }

    fn finish(mut self) -> (Tally, TimeSeries) {
        self.tally.last_issue_ps = self.now_ps;
        self.complete_until(self.now_ps);
        if !self.tally.gave_up {
            self.complete_until(u64::MAX);
        }
        let fresh = self.drive.counters().since(self.counters_before);
        self.series.close(self.outstanding as u64, fresh);
        self.tally.busy_ps = self.series.busy_ps();
        self.tally.record_recent();
        self.tally.unfinished = self.outstanding as u64;
        self.tally.buffered_at_end = self.lookahead.held_pages();
        (self.tally, self.series)
    }
}

/// Outstanding requests below which completion waits for more.
const COMPLETION_BATCH: usize = 1024;

/// The last transfer that started before `done_ps`; the first one did. An exponential search, then a
/// binary one: the answer is rarely far away, and the binary search has no unpredictable branch.
#[inline]
fn started_before(transfers: &[Transfer], done_ps: u64) -> usize {
    let started = |index: usize| {
        transfers
            .get(index)
            .is_some_and(|transfer| transfer.start_ps < done_ps)
    };
    let mut width = 16;
    while started(width) {
        width *= 4;
    }
    let (mut low, mut step) = (0, width / 2);
    while step > 0 {
        low += usize::from(started(low + step)) * step;
        step /= 2;
    }
    low
}
