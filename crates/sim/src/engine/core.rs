//! The core of both engines: the load, the clock, the host's queue, requests in flight, and the counts.
//!
//! It knows nothing of what happens to a request inside the drive: that is each engine's own.

#![expect(clippy::inline_always, reason = "measured: as calls, issue and completion cost 3 % of the event loop")]

use std::ops::DerefMut;

use super::event_log::{Event, Listener};
use super::host_queue::HostQueue;
use super::load::arrivals::Arrivals;
use super::load::requests::{DriveRequest, InFlight, Slab};
use super::tally::Tally;
use super::time_series::TimeSeries;
use super::timers::NEVER;
use super::{End, RunOptions};
use crate::Error;
use crate::drive::{Counters, Drive};
use crate::error::check_time;
use crate::policy::{DriveState, Page};

/// What an engine runs on: a drive, owned or borrowed, the requests that arrive, and who is notified of events.
pub(super) trait World {
    type Drive: DerefMut<Target = Drive>;
    type Arrivals: Arrivals;
    type Listener: Listener + Default;
}

impl<D: DerefMut<Target = Drive>, A: Arrivals, L: Listener + Default> World for (D, A, L) {
    type Drive = D;
    type Arrivals = A;
    type Listener = L;
}

/// A drive under load.
pub(super) struct Core<W: World> {
    pub drive: W::Drive,
    pub arrivals: W::Arrivals,
    pub listener: W::Listener,
    pub options: RunOptions,
    /// Whether the run stops when the last request is issued, to be saved.
    pub pauses_at_end: bool,
    pub now_ps: u64,
    pub host_queue: HostQueue,
    pub requests: Slab,
    pub page_sectors: u32,
    pub tally: Tally,
    pub series: TimeSeries,
    /// The drive's counters at the end of the previous row of the series.
    pub counters_before: Counters,
}

impl<W: World> Core<W> {
    pub fn new(drive: W::Drive, arrivals: W::Arrivals, options: &RunOptions) -> Self {
        let spec = drive.spec();
        Self {
            pauses_at_end: false,
            now_ps: 0,
            host_queue: HostQueue::new(options.scheduler, options.window),
            requests: Slab::default(),
            page_sectors: spec.page_sectors(),
            tally: Tally::default(),
            series: TimeSeries::new(options.series_rows, spec.elements as usize),
            counters_before: drive.counters(),
            options: options.clone(),
            drive,
            arrivals,
            listener: W::Listener::default(),
        }
    }

    /// When the next request is issued; `NEVER` if that depends on a completion, or at the end.
    #[inline]
    pub fn next_arrival_ps(&self) -> u64 {
        self.arrivals.due_ps(self.options.issue_mode, self.requests.len(), self.now_ps)
    }

    #[inline]
    pub fn set_now(&mut self, at_ps: u64) -> Result<(), Error> {
        self.now_ps = at_ps;
        if at_ps >= self.series.row_end_ps {
            check_time(at_ps)?;
            let counters = self.take_counters();
            self.series.advance(at_ps, counters);
        }
        Ok(())
    }

    /// Something happened.
    #[inline]
    pub fn record(&mut self, event: Event<u32>) {
        self.listener.record(event);
    }

    fn take_counters(&mut self) -> Counters {
        let all = self.drive.counters();
        let since = all.since(self.counters_before);
        self.counters_before = all;
        since
    }

    /// Makes further requests ready. The elements finish what they have at `free_at_ps`.
    pub fn refill(&mut self, free_at_ps: &[u64]) -> Result<(), Error> {
        let drive_state = DriveState { now_ps: self.now_ps, free_at_ps };
        self.arrivals.refill(&self.drive, &drive_state, &mut self.tally)
    }

    /// Issues the next request; returns its number, and whether it may go to the drive at once.
    #[inline(always)]
    fn issue(&mut self) -> Option<(u32, bool)> {
        let &request = self.arrivals.peek()?;
        let now_ps = self.now_ps;
        self.tally.issued += 1;
        self.tally.last_issue_ps = now_ps;
        self.series.current_row().issued += 1;
        let sector = u64::from(request.first) * u64::from(self.page_sectors) + u64::from(request.skip);
        let id = self.requests.insert(InFlight { request, issued_ps: now_ps, dispatched_ps: now_ps, parts: 0 });
        self.tally.issue(id);
        self.listener.issued(id);
        let is_urgent = self.arrivals.issued(now_ps);
        Some((id, self.host_queue.issue(id, sector, is_urgent)))
    }

    /// A request leaves the host's queue.
    #[inline]
    pub fn dispatch(&mut self, id: u32) -> DriveRequest {
        let in_flight = self.requests.get(id);
        in_flight.dispatched_ps = self.now_ps;
        in_flight.request
    }

    /// A request is complete; returns the one that takes its place in the drive.
    #[inline(always)]
    pub fn complete(&mut self, id: u32) -> Option<u32> {
        let in_flight = self.requests.remove(id);
        let response_ps = self.now_ps - in_flight.issued_ps;
        let device_ps = self.now_ps - in_flight.dispatched_ps;
        self.tally.record_latency(id, response_ps);
        self.tally.complete(in_flight.request.kind, response_ps, device_ps, in_flight.request.sectors);
        self.arrivals.completed(&in_flight.request, self.now_ps, response_ps, device_ps);
        self.listener.record(Event::Complete { request: id, at_ps: self.now_ps });
        self.tally.last_completion_ps = self.now_ps;
        let row = self.series.current_row();
        row.completed += 1;
        row.response_ps += u128::from(response_ps);
        self.host_queue.complete()
    }

    fn is_over(&mut self) -> bool {
        if self.requests.len() > self.options.max_outstanding {
            self.tally.gave_up = true;
            return true;
        }
        (self.options.end == End::LastIssued || self.pauses_at_end) && self.is_exhausted()
    }

    /// Whether all requests are issued.
    pub fn is_exhausted(&self) -> bool {
        self.arrivals.peek().is_none()
    }

    /// Whether a run that has paused is not over.
    pub fn goes_on(&self) -> bool {
        !self.tally.gave_up && (self.options.end == End::Drained || !self.is_exhausted())
    }

    /// Loss of power: the requests in flight are gone.
    pub fn drop_requests(&mut self) {
        self.host_queue = HostQueue::new(self.options.scheduler, self.options.window);
        self.requests = Slab::default();
    }

    /// Restarts the clock at 0.
    pub fn reset_clock(&mut self) {
        self.now_ps = 0;
        self.series = TimeSeries::new(self.options.series_rows, self.drive.spec().elements as usize);
    }

    /// Restarts what is counted.
    pub fn reset_counts(&mut self) {
        self.tally = Tally::default();
        self.series = TimeSeries::new(self.options.series_rows, self.drive.spec().elements as usize);
        self.counters_before = self.drive.counters();
    }

    /// The results of the run, at the end of which the drive's own buffer has `buffered_pages`.
    pub fn finish(&mut self, buffered_pages: u64) -> (Tally, TimeSeries) {
        let counters = self.take_counters();
        self.series.close(counters);
        let (tally, series) = (std::mem::take(&mut self.tally), std::mem::take(&mut self.series));
        series.finish(tally, self.requests.len(), self.arrivals.held_pages() + buffered_pages)
    }
}

/// An engine: what happens to requests inside the drive, event by event.
pub(super) trait Engine<W: World> {
    fn core(&self) -> &Core<W>;
    fn core_mut(&mut self) -> &mut Core<W>;

    /// Time of the next event inside the drive; `NEVER` without one.
    fn next_event_ps(&self) -> u64;

    /// Handles all events up to and including `until_ps`, or until the run is over.
    fn advance_to(&mut self, until_ps: u64) -> Result<(), Error>;

    /// Makes further requests ready.
    fn refill(&mut self) -> Result<(), Error>;

    /// Estimated time at which each element will have finished its queue.
    fn free_at_ps(&self) -> &[u64];

    /// Power loss: requests in flight and the buffer's content are gone; the mapping stays.
    fn cut_power(&mut self);

    /// Restarts the clock at 0, for a drive with no request in flight.
    fn reset_clock(&mut self);

    /// Whether the buffer can serve a read of the page.
    fn is_buffered(&self, page: Page) -> bool;

    fn buffered_pages(&self) -> u64;

    /// Pages that the buffer can hold; 0 without one.
    fn buffer_capacity_pages(&self) -> u64;

    /// Time of the next event; `NEVER` without one.
    fn next_ps(&self) -> u64 {
        self.next_event_ps().min(self.core().next_arrival_ps())
    }
}

/// The steps of an engine, apart from [`Engine`] so that the compiler has one copy of the event loop.
pub(super) trait EventLoop<W: World>: Engine<W> + Sized {
    /// Handles the next event inside the drive, unless it is later than `limit_ps`, which is before `NEVER`; returns
    /// whether there was one.
    fn step(&mut self, limit_ps: u64) -> Result<bool, Error>;

    /// A request that was issued just now goes to the drive.
    fn admit(&mut self, id: u32) -> Result<(), Error>;

    /// As [`Engine::advance_to`]. Of events at the same time, an arrival comes last.
    #[inline]
    fn run_until(&mut self, until_ps: u64) -> Result<(), Error> {
        let until_ps = until_ps.min(NEVER - 1);
        loop {
            let arrival_ps = self.core().next_arrival_ps();
            if self.step(until_ps.min(arrival_ps))? {
                continue;
            }
            if arrival_ps > until_ps {
                return Ok(());
            }
            self.core_mut().set_now(arrival_ps)?;
            self.issue()?;
            if self.core_mut().is_over() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn issue(&mut self) -> Result<(), Error> {
        let Some((id, goes_to_drive)) = self.core_mut().issue() else {
            return Ok(());
        };
        if goes_to_drive {
            self.admit(id)?;
        }
        self.core_mut().arrivals.pop();
        if self.core().arrivals.wants_refill() {
            self.refill()?;
        }
        Ok(())
    }
}
