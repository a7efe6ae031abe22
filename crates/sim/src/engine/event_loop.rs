//! The event loop: which event is next, and what follows from it for requests and channels. What
//! follows for the write buffer and the elements is in `back_end`.

use std::ops::DerefMut;

use ioassay_block::Kind;

use super::channel::{ChannelStep, Channels, Transfer};
use super::elements::{Elements, PageOp, Waiter};
use super::host_queue::HostQueue;
use super::inline_buffer::InlineBuffer;
use super::listener::Listener;
use super::load::arrivals::Arrivals;
use super::load::requests::{DriveRequest, InFlight, Slab};
use super::load::trace_input::IssueMode;
use super::tally::Tally;
use super::time_series::TimeSeries;
use super::timers::NEVER;
use super::{End, RunOptions};
use crate::Error;
use crate::drive::{Counters, Drive, Place};
use crate::error::check_time;
use crate::policy::DriveState;

/// A drive under load: the drive, owned or borrowed (`D`), the schedule of its elements (`E`), the
/// requests that arrive (`A`), and who is notified of events (`L`).
pub(super) struct Engine<D, E, A, L> {
    pub drive: D,
    pub arrivals: A,
    pub listener: L,
    pub options: RunOptions,
    /// Whether it stops when the last request is issued (`checkpoint`).
    pub pauses_at_end: bool,
    pub now_ps: u64,
    pub elements: E,
    pub channels: Channels,
    pub host_queue: HostQueue,
    pub requests: Slab,
    pub buffer: Option<InlineBuffer>,
    pub page_sectors: u32,
    pub element_count: u32,
    pub tally: Tally,
    pub series: TimeSeries,
    /// The drive's counters at the end of the previous row of the series.
    pub counters_before: Counters,
}

impl<D, E, A, L> Engine<D, E, A, L>
where
    D: DerefMut<Target = Drive>,
    E: Elements,
    A: Arrivals,
    L: Listener,
{
    pub fn new(
        drive: D,
        arrivals: A,
        elements: E,
        buffer: Option<InlineBuffer>,
        options: &RunOptions,
        listener: L,
    ) -> Self {
        let spec = drive.spec();
        Self {
            now_ps: 0,
            elements,
            channels: Channels::new(spec),
            host_queue: HostQueue::new(options.scheduler, options.window),
            requests: Slab::default(),
            buffer,
            page_sectors: spec.page_sectors(),
            element_count: spec.elements,
            tally: Tally::default(),
            series: TimeSeries::new(options.series_rows, spec.elements as usize),
            counters_before: drive.counters(),
            drive,
            arrivals,
            listener,
            options: options.clone(),
            pauses_at_end: false,
        }
    }

    pub fn run(mut self) -> Result<(Tally, TimeSeries), Error> {
        self.refill()?;
        self.advance_to(NEVER)?;
        Ok(self.finish())
    }

    /// Handles all events up to and including `until_ps`, or until the run is over.
    pub fn advance_to(&mut self, until_ps: u64) -> Result<(), Error> {
        // Of events at the same time, the end of a page's work comes first, so that its completion
        // goes before the channel's next transfer; an arrival comes last.
        loop {
            let (element_ps, timer) = self.elements.next();
            let (channel_ps, channel) = self.channels.next();
            let arrival_ps = self.next_arrival_ps();
            if element_ps <= channel_ps.min(arrival_ps) {
                if element_ps == NEVER || element_ps > until_ps {
                    return Ok(());
                }
                self.set_now(element_ps)?;
                self.on_element_done(timer)?;
                self.drive_channels()?;
            } else if channel_ps <= arrival_ps {
                if channel_ps > until_ps {
                    return Ok(());
                }
                self.set_now(channel_ps)?;
                self.on_channel_done(channel)?;
                self.drive_channels()?;
            } else {
                if arrival_ps > until_ps {
                    return Ok(());
                }
                self.set_now(arrival_ps)?;
                self.issue()?;
                if self.is_over() {
                    return Ok(());
                }
            }
        }
    }

    /// Time of the next event; `NEVER` without one.
    pub fn next_ps(&self) -> u64 {
        let within_ps = self.elements.next().0.min(self.channels.next().0);
        within_ps.min(self.next_arrival_ps())
    }

    /// Power loss: requests in flight and the buffer's content are gone; the mapping stays.
    pub fn cut_power(&mut self, elements: E) {
        self.elements = elements;
        self.channels = Channels::new(self.drive.spec());
        self.host_queue = HostQueue::new(self.options.scheduler, self.options.window);
        self.requests = Slab::default();
        if let Some(buffer) = &mut self.buffer {
            buffer.clear();
        }
    }

    /// Restarts the clock at 0, for a drive with no request in flight.
    pub fn reset_clock(&mut self, elements: E) {
        self.now_ps = 0;
        self.elements = elements;
        self.channels = Channels::new(self.drive.spec());
        self.series = TimeSeries::new(self.options.series_rows, self.element_count as usize);
    }

    /// When the next request is issued; `NEVER` if that depends on a completion, or at the end.
    #[inline]
    fn next_arrival_ps(&self) -> u64 {
        match (self.arrivals.peek(), self.options.issue_mode) {
            (None, _) => NEVER,
            (Some(_), IssueMode::ClosedLoop(most)) => {
                if self.requests.len() < most as usize {
                    self.now_ps
                } else {
                    NEVER
                }
            }
            (Some(request), _) => request.at_ps,
        }
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

    #[inline]
    fn set_now(&mut self, at_ps: u64) -> Result<(), Error> {
        self.now_ps = at_ps;
        if at_ps >= self.series.row_end_ps {
            check_time(at_ps)?;
            let counters = self.take_counters();
            self.series.advance(at_ps, self.requests.len() as u64, counters);
        }
        Ok(())
    }

    fn take_counters(&mut self) -> Counters {
        let all = self.drive.counters();
        let since = all.since(self.counters_before);
        self.counters_before = all;
        since
    }

    pub fn refill(&mut self) -> Result<(), Error> {
        let drive_state = DriveState { now_ps: self.now_ps, free_at_ps: self.elements.free_at_ps() };
        self.arrivals.refill(&self.drive, &drive_state, &mut self.tally)
    }

    // Requests

    #[inline]
    fn issue(&mut self) -> Result<(), Error> {
        let Some(&request) = self.arrivals.peek() else {
            return Ok(());
        };
        self.tally.issued += 1;
        self.series.current_row().issued += 1;
        let sector = u64::from(request.first) * u64::from(self.page_sectors) + u64::from(request.skip);
        let id =
            self.requests.insert(InFlight { request, issued_ps: self.now_ps, dispatched_ps: self.now_ps, parts: 0 });
        self.listener.issued(id);
        self.tally.last_issue_ps = self.now_ps;
        if self.host_queue.issue(id, sector) {
            self.dispatch(id)?;
            self.drive_channels()?;
        }
        self.arrivals.pop();
        if self.arrivals.peek().is_none() {
            self.refill()?;
        }
        Ok(())
    }

    /// The drive accepts a request. The caller then drives the channels.
    #[inline]
    fn dispatch(&mut self, id: u32) -> Result<(), Error> {
        let now_ps = self.now_ps;
        let in_flight = self.requests.get(id);
        in_flight.dispatched_ps = now_ps;
        let request = in_flight.request;
        match request.kind {
            Kind::Write => self.start_host_transfer(id, &request),
            Kind::Read => self.enqueue_read(id, &request)?,
            Kind::Trim => self.trim(id, &request),
            Kind::Flush => self.flush(id)?,
        }
        Ok(())
    }

    /// A write's data cross the channel whole; of several channels, each carries its own pages.
    #[inline]
    fn start_host_transfer(&mut self, id: u32, request: &DriveRequest) {
        self.requests.get(id).parts = request.pages;
        for channel in 0..self.channels.count() {
            let sectors = self.sectors_on_channel(request, channel);
            if sectors > 0 {
                let transfer = Transfer { request: id, sectors };
                self.channels.enqueue_transfer(channel, transfer, self.now_ps);
            }
        }
    }

    /// Sectors of a request that cross a channel.
    #[inline]
    fn sectors_on_channel(&self, request: &DriveRequest, channel: u32) -> u32 {
        if self.channels.count() == 1 {
            return request.sectors;
        }
        (0..request.pages)
            .filter(|&index| self.channels.of(self.drive.place(request.first + index)) == channel)
            .map(|index| request.sectors_of(index, self.page_sectors))
            .sum()
    }

    /// A read waits its turn behind the writes that came before it, on each channel of its pages.
    fn enqueue_read(&mut self, id: u32, request: &DriveRequest) -> Result<(), Error> {
        self.requests.get(id).parts = request.pages;
        for channel in 0..self.channels.count() {
            if self.sectors_on_channel(request, channel) > 0 && !self.channels.enqueue_read(channel, id) {
                self.read(id, request, channel)?;
            }
        }
        Ok(())
    }

    /// Queues a read's pages of a channel at their elements, except those that the buffer holds.
    fn read(&mut self, id: u32, request: &DriveRequest, channel: u32) -> Result<(), Error> {
        for index in 0..request.pages {
            let page = request.first + index;
            let place = self.drive.place(page);
            if self.channels.of(place) != channel {
                continue;
            }
            if let Some(buffer) = &mut self.buffer {
                if buffer.read(page, &mut self.tally) {
                    self.part_done(id, place.element);
                    continue;
                }
            }
            let op = PageOp::Read(request.sectors_of(index, self.page_sectors));
            self.enqueue(place, op, Waiter::Request(id))?;
        }
        Ok(())
    }

    fn trim(&mut self, id: u32, request: &DriveRequest) {
        for page in request.first..request.first + request.pages {
            if let Some(buffer) = &mut self.buffer {
                if buffer.discard(page) {
                    self.listener.dropped(page);
                }
            }
            let place = self.drive.place(page);
            self.drive.trim(place);
        }
        self.requests.get(id).parts = 1;
        self.part_done(id, 0);
    }

    /// Evicts the buffer and queues a barrier at each element: complete when all earlier writes are in flash.
    fn flush(&mut self, id: u32) -> Result<(), Error> {
        if let Some(buffer) = &mut self.buffer {
            buffer.drain(&mut self.tally);
        }
        self.issue_evictions()?;
        self.requests.get(id).parts = self.element_count;
        for element in 0..self.element_count {
            self.enqueue(Place { element, local: 0 }, PageOp::Barrier, Waiter::Request(id))?;
        }
        Ok(())
    }

    /// A part of a request is done; the last one completes it, over the channel of its element.
    #[inline]
    pub fn part_done(&mut self, id: u32, element: u32) {
        let in_flight = self.requests.get(id);
        in_flight.parts -= 1;
        if in_flight.parts > 0 {
            return;
        }
        let request = in_flight.request;
        if request.kind == Kind::Read && self.channels.count() > 1 {
            return self.enqueue_read_transfers(id, &request);
        }
        let sectors = if request.kind == Kind::Read { request.sectors } else { 0 };
        in_flight.parts = 1;
        let channel = self.channels.of(Place { element, local: 0 });
        self.channels.enqueue_completion(channel, Transfer { request: id, sectors });
    }

    /// As `part_done`, for a page that its element has finished. Mostly it is the only page of a
    /// write on an idle channel, so that the request completes at once.
    #[inline]
    pub fn page_done(&mut self, id: u32, element: u32) -> Result<(), Error> {
        let in_flight = self.requests.get(id);
        let channel = self.channels.of(Place { element, local: 0 });
        if in_flight.parts == 1 && in_flight.request.kind == Kind::Write && self.channels.is_free(channel) {
            return self.complete(id);
        }
        self.part_done(id, element);
        Ok(())
    }

    fn enqueue_read_transfers(&mut self, id: u32, request: &DriveRequest) {
        for channel in 0..self.channels.count() {
            let sectors = self.sectors_on_channel(request, channel);
            if sectors > 0 {
                self.requests.get(id).parts += 1;
                self.channels.enqueue_completion(channel, Transfer { request: id, sectors });
            }
        }
    }

    /// A transfer to the host has ended, or the completion needed none.
    #[inline]
    fn on_host_transfer_done(&mut self, id: u32) -> Result<(), Error> {
        let in_flight = self.requests.get(id);
        in_flight.parts -= 1;
        if in_flight.parts == 0 { self.complete(id) } else { Ok(()) }
    }

    #[inline]
    fn complete(&mut self, id: u32) -> Result<(), Error> {
        let in_flight = self.requests.remove(id);
        let response_ps = self.now_ps - in_flight.issued_ps;
        let device_ps = self.now_ps - in_flight.dispatched_ps;
        self.tally.complete(in_flight.request.kind, response_ps, device_ps, in_flight.request.sectors);
        self.listener.completed(id, self.now_ps);
        self.tally.last_completion_ps = self.now_ps;
        let row = self.series.current_row();
        row.completed += 1;
        row.response_ps += u128::from(response_ps);
        match self.host_queue.complete() {
            Some(next) => self.dispatch(next),
            None => Ok(()),
        }
    }

    // Channels

    #[inline]
    fn on_channel_done(&mut self, channel: u32) -> Result<(), Error> {
        let Some((transfer, to_host)) = self.channels.end(channel) else {
            return Ok(());
        };
        if to_host {
            return self.on_host_transfer_done(transfer.request);
        }
        let request = self.requests.get(transfer.request).request;
        for page in request.first..request.first + request.pages {
            let place = self.drive.place(page);
            if self.channels.of(place) == channel {
                self.on_page_received(transfer.request, page, place)?;
            }
        }
        Ok(())
    }

    /// Lets idle channels start what waits for them, until none can: a completion on one may make work for another.
    #[inline]
    fn drive_channels(&mut self) -> Result<(), Error> {
        while self.channels.are_ready() {
            for channel in 0..self.channels.count() {
                self.drive_channel(channel)?;
            }
        }
        Ok(())
    }

    fn drive_channel(&mut self, channel: u32) -> Result<(), Error> {
        loop {
            match self.channels.start_next(channel, self.now_ps) {
                ChannelStep::Completes(id) => self.on_host_transfer_done(id)?,
                ChannelStep::Admits(id) => {
                    let request = self.requests.get(id).request;
                    self.read(id, &request, channel)?;
                }
                ChannelStep::Started | ChannelStep::Idle => return Ok(()),
            }
        }
    }

    pub fn finish(mut self) -> (Tally, TimeSeries) {
        let counters = self.take_counters();
        let outstanding = self.requests.len() as u64;
        self.series.close(outstanding, counters);
        self.tally.busy_ps = self.series.busy_ps();
        self.tally.record_recent();
        self.tally.unfinished = outstanding;
        self.tally.buffered_at_end =
            self.arrivals.held_pages() + self.buffer.as_ref().map_or(0, InlineBuffer::held_pages);
        (self.tally, self.series)
    }
}
