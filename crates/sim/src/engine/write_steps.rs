//! The fast path for writes that wait in the host's queue, of a source that is repeatable.
//!
//! As in a [stream](super::write_stream), transfers and the pages of each element keep the order in which requests leave
//! the host's queue, and a request's times are known then. That order depends on completions, so requests are served one
//! at a time. The results are those of the [event loop](super::event_loop); where only events tell, the run fails with
//! [`Error::NeedsEvents`].

use ioassay_block::Kind;

use super::RunOptions;
use super::completions::Transfer;
use super::host_queue::HostQueue;
use super::load::arrivals::Arrivals;
use super::load::lookahead::Lookahead;
use super::load::requests::{DriveRequest, InFlight, Slab};
use super::tally::Tally;
use super::time_series::{Interval, TimeSeries, row_of};
use super::timers::{NEVER, Passing, after};
use super::write_batch::RowWork;
use crate::Error;
use crate::drive::{Drive, Placement};
use crate::error::check_time;
use crate::policy::DriveState;

pub(super) struct WriteSteps<'a> {
    drive: &'a mut Drive,
    lookahead: Lookahead<'a>,
    options: &'a RunOptions,
    tally: Tally,
    series: TimeSeries,
    /// What was counted in a row of the series, before that has it.
    interval: Interval,
    host_queue: HostQueue,
    /// Requests in the host's queue.
    held: Slab,
    /// Requests in the drive, in the order in which their last pages are programmed.
    in_flight: Passing<Written>,
    /// The last transfer that began before the page that was programmed last, and those after it.
    current: Transfer,
    transfers: Passing<Transfer>,
    /// The last transfer that began when the end of a page made room in the drive.
    at_once: Transfer,
    channel_free_ps: u64,
    channel_ps_per_sector: u64,
    placement: Placement,
    elements: Vec<ElementState>,
    /// How many requests were done.
    done: u64,
    now_ps: u64,
}

struct ElementState {
    free_at_ps: u64,
    work: RowWork,
    /// How many pages it was given.
    pages: u32,
    /// The last page known to be done, counted among its pages, and the number of its request in the order in which
    /// requests were done.
    done: (u32, u64),
}

/// A request in the drive.
#[derive(Default, Clone, Copy)]
struct Written {
    last: LastPage,
    element: u32,
    /// The number of its last page among those of the element, from 1 on.
    page: u32,
    issued_ps: u64,
    dispatched_ps: u64,
    sectors: u32,
}

/// The number of a page that is last together with others, so that it is not known to be the last one.
const NO_PAGE: u32 = 0;

/// The page of a request that is programmed last. Of pages that are programmed at the same time, the one that began
/// first is first, and of those that began at the same time, those that waited for their elements. Of these, the one
/// whose element was free first is.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct LastPage {
    done_ps: u64,
    start_ps: u64,
    /// Whether it began when the channel brought it.
    by_channel: bool,
}

impl<'a> WriteSteps<'a> {
    pub fn new(drive: &'a mut Drive, lookahead: Lookahead<'a>, options: &'a RunOptions) -> Self {
        let elements = drive.elements().iter().map(|element| ElementState {
            free_at_ps: 0,
            work: RowWork::new(element.counters()),
            pages: 0,
            done: (0, 0),
        });
        Self {
            series: TimeSeries::new(options.series_rows, drive.elements().len()),
            elements: elements.collect(),
            channel_ps_per_sector: drive.spec().channel_ps_per_sector,
            placement: drive.placement(),
            drive,
            lookahead,
            options,
            tally: Tally::default(),
            interval: Interval::default(),
            host_queue: HostQueue::new(options.scheduler, options.window),
            held: Slab::default(),
            in_flight: Passing::default(),
            current: Transfer::default(),
            transfers: Passing::default(),
            at_once: Transfer { start_ps: NEVER, ..Transfer::default() },
            channel_free_ps: 0,
            done: 0,
            now_ps: 0,
        }
    }

    pub fn run(mut self) -> Result<(Tally, TimeSeries), Error> {
        // The buffer does not look at the elements.
        let drive_state = DriveState { now_ps: 0, free_at_ps: &[] };
        loop {
            self.lookahead.refill(self.drive, &drive_state, &mut self.tally)?;
            if self.lookahead.peek().is_none() {
                break;
            }
            while let Some(&request) = self.lookahead.peek() {
                self.lookahead.pop();
                self.issue(request)?;
            }
        }
        self.complete_until(u64::MAX)?;
        Ok(self.finish())
    }

    #[inline]
    fn issue(&mut self, request: DriveRequest) -> Result<(), Error> {
        let now_ps = request.at_ps;
        if request.kind != Kind::Write {
            return Err(Error::NeedsEvents);
        }
        self.now_ps = now_ps;
        self.complete_until(now_ps)?;
        self.series.enter(&mut self.interval, now_ps);
        self.interval.issued += 1;
        self.tally.issued += 1;
        let held = InFlight { request, issued_ps: now_ps, dispatched_ps: now_ps, parts: 0 };
        let id = if self.host_queue.is_full() { self.held.insert(held) } else { 0 };
        let sector = u64::from(request.first) * u64::from(self.drive.spec().page_sectors()) + u64::from(request.skip);
        if self.host_queue.issue(id, sector, false) {
            self.dispatch(&request, now_ps, now_ps)?;
        }
        let gives_up = self.tally.issued - self.done > self.options.max_outstanding as u64;
        if gives_up { Err(Error::NeedsEvents) } else { Ok(()) }
    }

    /// A request crosses the channel, and its elements write its pages.
    #[inline]
    fn dispatch(&mut self, request: &DriveRequest, issued_ps: u64, dispatched_ps: u64) -> Result<(), Error> {
        let start_ps = self.channel_free_ps.max(dispatched_ps);
        let end_ps = after(start_ps, u64::from(request.sectors) * self.channel_ps_per_sector);
        self.channel_free_ps = end_ps;
        self.transfers.insert(Transfer { start_ps, end_ps }, |_| false);
        let mut place = self.placement.place(request.first);
        let (mut last, mut page) = (LastPage::default(), (0, 0));
        for _ in 0..request.pages {
            let element = place.element as usize;
            let state = &mut self.elements[element];
            let free_ps = state.free_at_ps;
            let start_ps = end_ps.max(free_ps);
            let mut part = self.drive.part(place.element);
            if state.work.ends_by(start_ps) {
                let work = state.work.end(row_of(start_ps, self.series.width_ps), part.counters());
                self.series.add_work(&work, element);
            }
            // The drive may be worn out.
            let Some(spent_ps) = part.collect_and_write(place.local) else { return Err(Error::NeedsEvents) };
            let done_ps = start_ps.saturating_add(spent_ps);
            state.free_at_ps = done_ps;
            state.work.busy_ps += spent_ps;
            state.pages = state.pages.wrapping_add(1);
            let this = LastPage { done_ps, start_ps, by_channel: free_ps <= end_ps };
            if this > last {
                (last, page) = (this, (place.element, state.pages));
            } else if this == last && !this.by_channel {
                page.1 = NO_PAGE;
            }
            place = self.placement.next(place);
        }
        check_time(last.done_ps)?;
        let (element, page) = page;
        let written = Written { last, element, page, issued_ps, dispatched_ps, sectors: request.sectors };
        self.in_flight.insert(written, |other| other.last > last);
        Ok(())
    }

    /// Completes all that completes up to and including `until_ps`; what waits in the host's queue takes its place.
    #[inline]
    fn complete_until(&mut self, until_ps: u64) -> Result<(), Error> {
        while let Some(mut first) = self.in_flight.get(0).copied().filter(|first| first.last.done_ps <= until_ps) {
            if !first.last.by_channel && self.in_flight.get(1).is_some_and(|second| second.last == first.last) {
                first = self.order_first()?;
            }
            let done_ps = first.last.done_ps;
            while let Some(next) = self.transfers.get(0).copied().filter(|next| next.start_ps < done_ps) {
                self.current = next;
                self.transfers.gone += 1;
            }
            let behind = if self.at_once.start_ps == done_ps { self.at_once } else { self.current };
            let at_ps = behind.end_ps.max(done_ps);
            if at_ps > until_ps {
                break;
            }
            self.in_flight.gone += 1;
            self.done += 1;
            self.elements[first.element as usize].done = (first.page, self.done);
            let response_ps = at_ps - first.issued_ps;
            self.tally.complete(Kind::Write, response_ps, at_ps - first.dispatched_ps, first.sectors);
            self.tally.last_completion_ps = at_ps;
            self.series.enter(&mut self.interval, at_ps);
            self.interval.completed += 1;
            self.interval.response_ps += u128::from(response_ps);
            let Some(id) = self.host_queue.complete() else {
                continue;
            };
            let next = self.held.remove(id);
            // Then it crosses the channel at once, and completions of the same time wait for that.
            let channel_is_free = behind.end_ps < done_ps;
            self.dispatch(&next.request, next.issued_ps, at_ps)?;
            if channel_is_free {
                self.at_once = Transfer { start_ps: at_ps, end_ps: self.channel_free_ps };
            }
        }
        Ok(())
    }

    /// Of the first requests, whose last pages waited for their elements and began at the same time, moves the one to the
    /// front whose element was free first.
    #[cold]
    fn order_first(&mut self) -> Result<Written, Error> {
        let requests = &mut self.in_flight.items[self.in_flight.gone..];
        let same = requests.partition_point(|request| request.last <= requests[0].last);
        let (mut first, mut free_first) = (0, u64::MAX);
        for (number, request) in requests[..same].iter().enumerate() {
            let (page, done) = self.elements[request.element as usize].done;
            // Of a request of several pages, only the last one is known to be done.
            if page.wrapping_add(1) != request.page {
                return Err(Error::NeedsEvents);
            }
            if done < free_first {
                (first, free_first) = (number, done);
            }
        }
        requests.swap(0, first);
        Ok(requests[0])
    }

    fn finish(mut self) -> (Tally, TimeSeries) {
        self.series.add_interval(&self.interval);
        for (number, (state, element)) in self.elements.iter_mut().zip(self.drive.elements()).enumerate() {
            self.series.add_work(&state.work.end(0..0, element.counters()), number);
        }
        self.tally.last_issue_ps = self.now_ps;
        self.series.finish(self.tally, 0, self.lookahead.held_pages())
    }
}
