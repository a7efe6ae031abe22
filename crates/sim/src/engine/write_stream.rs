//! The fast path for writes that wait for nothing but the drive: open loop, no window, one channel,
//! run until all are complete.
//!
//! Then transfers, and the pages of each element, keep the order of the requests. So each request's
//! times follow from those before it, without timers, and no element depends on another: a batch of
//! requests crosses the channel, then each element writes its pages of the batch, then requests
//! complete. The results are exactly those of the [event loop](super::event_loop)
//! (`tests/engines_agree.rs`), several times as fast.

use super::load::arrivals::Arrivals;
use super::load::lookahead::Lookahead;
use super::load::requests::DriveRequest;
use super::tally::Tally;
use super::{RunOptions, TimeSeries};
use crate::Error;
use crate::drive::{Counters, Drive, ElementPart};
use crate::policy::DriveState;

/// A page that its element writes once the request has crossed the channel.
#[derive(Clone, Copy)]
struct PageWrite {
    received_ps: u64,
    /// Number of the page within the element.
    local: u32,
    /// Its request, counted in the batch.
    request: u32,
}

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

/// What completes between the first issue in one row of the series and that in the next.
#[derive(Default)]
struct Interval {
    begin_ps: u64,
    end_ps: u64,
    completed: u64,
    response_ps: u128,
    sectors: u64,
    last_ps: u64,
}

impl Interval {
    #[inline]
    fn holds(&self, done_ps: u64) -> bool {
        self.begin_ps < done_ps && done_ps <= self.end_ps
    }

    #[inline]
    fn record(&mut self, at_ps: u64, pending: &Pending) {
        self.completed += 1;
        self.response_ps += u128::from(at_ps - pending.issued_ps);
        self.sectors += u64::from(pending.sectors);
        self.last_ps = self.last_ps.max(at_ps);
    }
}

pub(super) struct WriteStream<'a> {
    drive: &'a mut Drive,
    lookahead: Lookahead<'a>,
    options: &'a RunOptions,
    tally: Tally,
    series: TimeSeries,
    elements: u32,
    /// For each element its page writes of the batch, in order.
    writes: Vec<Vec<PageWrite>>,
    /// When each element finishes its queue.
    free_at_ps: Vec<u64>,
    channel_free_ps: u64,
    channel_ps_per_sector: u64,
    /// Requests that are not complete, in order of issue.
    pending: Vec<Pending>,
    /// How many were left when requests completed last.
    left: usize,
    /// Transfers that a search may still reach; the first has the number `first_transfer`.
    transfers: Vec<Transfer>,
    first_transfer: u32,
    now_ps: u64,
    /// When the intervals between rows of the series begin.
    begins_ps: Vec<u64>,
    /// The drive's counters at the end of the previous row of the series.
    counters_before: Counters,
}

impl<'a> WriteStream<'a> {
    pub fn new(drive: &'a mut Drive, lookahead: Lookahead<'a>, options: &'a RunOptions) -> Self {
        let elements = drive.spec().elements as usize;
        Self {
            elements: drive.spec().elements,
            channel_ps_per_sector: drive.spec().channel_ps_per_sector,
            counters_before: drive.counters(),
            drive,
            lookahead,
            options,
            tally: Tally::default(),
            series: TimeSeries::new(options.series_rows, elements),
            writes: vec![Vec::new(); elements],
            free_at_ps: vec![0; elements],
            channel_free_ps: 0,
            pending: Vec::new(),
            left: 0,
            transfers: Vec::new(),
            first_transfer: 0,
            now_ps: 0,
            begins_ps: vec![0],
        }
    }

    pub fn run(mut self) -> Result<(Tally, TimeSeries), Error> {
        let mut requests = Vec::new();
        loop {
            requests.clear();
            let more = self.read(&mut requests);
            self.issue_all(&requests)?;
            if !more? {
                break;
            }
            if self.pending.len() > self.options.max_outstanding {
                self.complete_until(self.now_ps);
                if self.pending.len() > self.options.max_outstanding {
                    self.tally.gave_up = true;
                    break;
                }
            }
        }
        Ok(self.finish())
    }

    /// Appends a batch of requests, short of the point at which too many may be outstanding; returns
    /// false at the end.
    fn read(&mut self, requests: &mut Vec<DriveRequest>) -> Result<bool, Error> {
        loop {
            let drive_state = DriveState {
                now_ps: self.now_ps,
                free_at_ps: &self.free_at_ps,
            };
            if !self
                .lookahead
                .append_ready(requests, &drive_state, &mut self.tally)?
            {
                return Ok(false);
            }
            let outstanding = self.pending.len() + requests.len();
            if requests.len() >= BATCH
                || outstanding > self.options.max_outstanding
                || self.lookahead.watches_elements()
            {
                return Ok(true);
            }
        }
    }

    /// Issues requests, row by row of the series.
    fn issue_all(&mut self, mut requests: &[DriveRequest]) -> Result<(), Error> {
        while let Some(first) = requests.first() {
            if first.at_ps >= self.series.row_end_ps {
                self.next_row(first.at_ps);
            }
            let row_end_ps = self.series.row_end_ps;
            let of_row = requests.partition_point(|request| request.at_ps < row_end_ps);
            let (now, later) = requests.split_at(of_row);
            self.issue(now)?;
            requests = later;
        }
        // Rarely enough that what is left is looked at a few times at most.
        if self.pending.len() >= COMPLETION_BATCH + 2 * self.left {
            self.complete_until(self.now_ps);
        }
        Ok(())
    }

    #[cold]
    fn next_row(&mut self, now_ps: u64) {
        let all = self.drive.counters();
        self.series
            .advance(now_ps, 0, all.since(self.counters_before));
        self.counters_before = all;
        self.begins_ps.push(now_ps);
    }

    fn issue(&mut self, requests: &[DriveRequest]) -> Result<(), Error> {
        let first = self.pending.len();
        self.transfer(requests);
        let pending = &mut self.pending[first..];
        let busy_ps = &mut self.series.current_row().busy_ps;
        let mut failed: Option<(u32, u32)> = None;
        // A request alone concerns few elements.
        let (mut element, elements) = match requests {
            [alone] => (
                self.drive.place(alone.first).element,
                alone.pages.min(self.elements),
            ),
            _ => (0, self.elements),
        };
        for _ in 0..elements {
            let number = element as usize;
            let writes = &mut self.writes[number];
            let free_ps = &mut self.free_at_ps[number];
            let part = self.drive.part(element);
            if let Err(request) = serve(part, writes, free_ps, &mut busy_ps[number], pending) {
                failed = failed.into_iter().chain([(request, element)]).min();
            }
            writes.clear();
            element = if element + 1 < self.elements {
                element + 1
            } else {
                0
            };
        }
        match failed {
            Some((_, element)) => Err(self.drive.worn_out(element)),
            None => Ok(()),
        }
    }

    /// Requests cross the channel, and their pages queue at the elements.
    fn transfer(&mut self, requests: &[DriveRequest]) {
        let issued = requests.len() as u64;
        self.tally.issued += issued;
        self.series.current_row().issued += issued;
        let first = self.transfers.len();
        let mut free_ps = self.channel_free_ps;
        self.transfers.extend(requests.iter().map(|request| {
            let start_ps = request.at_ps.max(free_ps);
            free_ps = start_ps + u64::from(request.sectors) * self.channel_ps_per_sector;
            Transfer {
                start_ps,
                end_ps: free_ps,
            }
        }));
        self.channel_free_ps = free_ps;
        let numbers = self.first_transfer.wrapping_add(first as u32)..;
        let pending = requests
            .iter()
            .zip(numbers)
            .map(|(request, transfer)| Pending {
                issued_ps: request.at_ps,
                done_ps: 0,
                sectors: request.sectors,
                transfer,
            });
        self.pending.extend(pending);
        let transfers = self.transfers[first..].iter();
        for (number, (request, transfer)) in (0..).zip(requests.iter().zip(transfers)) {
            let mut place = self.drive.place(request.first);
            for _ in 0..request.pages {
                self.writes[place.element as usize].push(PageWrite {
                    received_ps: transfer.end_ps,
                    local: place.local,
                    request: number,
                });
                place = self.drive.next_place(place);
            }
        }
        if let Some(last) = requests.last() {
            self.now_ps = last.at_ps;
        }
    }

    /// Completes the requests that are done by `until_ps`: transfers not issued yet start later.
    fn complete_until(&mut self, until_ps: u64) {
        let mut interval = self.interval_of(until_ps);
        let mut left = 0;
        for index in 0..self.pending.len() {
            let pending = self.pending[index];
            if pending.done_ps > until_ps {
                self.pending[left] = pending;
                left += 1;
                continue;
            }
            let from = pending.transfer.wrapping_sub(self.first_transfer) as usize;
            let at_ps = completion_ps(&self.transfers[from..], pending.done_ps);
            if !interval.holds(pending.done_ps) {
                self.add(&interval);
                interval = self.interval_of(pending.done_ps);
            }
            interval.record(at_ps, &pending);
            let response_ps = at_ps - pending.issued_ps;
            self.tally.writes.record_response(response_ps);
        }
        self.add(&interval);
        self.pending.truncate(left);
        self.left = left;
        // No later search begins before the transfer of the first that is pending.
        let end = self
            .first_transfer
            .wrapping_add(self.transfers.len() as u32);
        let oldest = self.pending.first().map_or(end, |first| first.transfer);
        let passed = oldest.wrapping_sub(self.first_transfer) as usize;
        self.transfers.drain(..passed);
        self.first_transfer = oldest;
    }

    /// The interval of a completion.
    fn interval_of(&self, done_ps: u64) -> Interval {
        let next = self
            .begins_ps
            .partition_point(|&begin_ps| begin_ps < done_ps);
        Interval {
            begin_ps: self.begins_ps[next.max(1) - 1],
            end_ps: self.begins_ps.get(next).copied().unwrap_or(u64::MAX),
            ..Interval::default()
        }
    }

    /// Adds what completed in an interval.
    fn add(&mut self, interval: &Interval) {
        self.tally.last_completion_ps = self.tally.last_completion_ps.max(interval.last_ps);
        let writes = &mut self.tally.writes;
        writes.response_ps += interval.response_ps;
        writes.device_ps += interval.response_ps;
        writes.sectors += interval.sectors;
        // Rows of the series may have been merged since, but never cut.
        let row = self.series.row_at(interval.begin_ps);
        row.completed += interval.completed;
        row.response_ps += interval.response_ps;
    }

    fn finish(mut self) -> (Tally, TimeSeries) {
        self.tally.last_issue_ps = self.now_ps;
        self.complete_until(self.now_ps);
        if !self.tally.gave_up {
            self.complete_until(u64::MAX);
        }
        self.series.count_outstanding();
        let outstanding = self.pending.len() as u64;
        let fresh = self.drive.counters().since(self.counters_before);
        self.series.close(outstanding, fresh);
        self.tally.busy_ps = self.series.busy_ps();
        self.tally.record_recent();
        self.tally.unfinished = outstanding;
        self.tally.buffered_at_end = self.lookahead.held_pages();
        (self.tally, self.series)
    }
}

/// An element writes its pages of a batch, one after the other; the request that finds no free block is
/// the error.
fn serve(
    mut part: ElementPart<'_>,
    writes: &[PageWrite],
    free_at_ps: &mut u64,
    busy_ps: &mut u64,
    pending: &mut [Pending],
) -> Result<(), u32> {
    for chunk in writes.chunks(PREFETCHED) {
        if chunk.len() > 1 {
            part.prefetch(chunk.iter().map(|write| write.local));
        }
        for write in chunk {
            let spent_ps = part.collect_and_write(write.local).ok_or(write.request)?;
            *free_at_ps = write.received_ps.max(*free_at_ps).saturating_add(spent_ps);
            *busy_ps += spent_ps;
            let done_ps = &mut pending[write.request as usize].done_ps;
            *done_ps = (*done_ps).max(*free_at_ps);
        }
    }
    Ok(())
}

/// When a request with all its pages done completes: then, or after the transfer in progress. The
/// first of `transfers` is its own.
#[inline]
fn completion_ps(transfers: &[Transfer], done_ps: u64) -> u64 {
    let started = |transfer: &Transfer| transfer.start_ps < done_ps;
    let in_progress = match transfers.first_chunk::<NEAR>() {
        // Mostly it is one of the next few: then the search has no branch.
        Some(near) if !started(&near[NEAR - 1]) => {
            let mut low = 0;
            for step in [32, 16, 8, 4, 2, 1] {
                low += usize::from(started(&near[low + step])) * step;
            }
            near[low]
        }
        _ => {
            let mut width = NEAR;
            while transfers.get(width).is_some_and(started) {
                width *= 4;
            }
            let near = &transfers[..width.min(transfers.len())];
            near[near.partition_point(started) - 1]
        }
    };
    in_progress.end_ps.max(done_ps)
}

/// Transfers among which the one in progress mostly is.
const NEAR: usize = 64;

/// Requests that are issued together, about.
const BATCH: usize = 1 << 13;

/// Page writes of an element whose table entries are prefetched together.
const PREFETCHED: usize = 128;

/// Pending requests below which completion waits for more.
const COMPLETION_BATCH: usize = 1024;
