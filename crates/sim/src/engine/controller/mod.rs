//! The engine of a drive with a controller: a drive of today, event by event.
//!
//! A command leaves the host's queue, starts no sooner than the command rate allows, and takes its command time, which
//! holds no resource. A write's pages cross the link and go to the write cache; program units of them go to the
//! elements in turn. A read's pages come from the cache, or from their elements over the flash channels, and cross the
//! link. Every resource serves what is ready first, so that nothing waits for what is not there yet.
//!
//! The rules of the reference drive are in [`event_loop`](super::event_loop).

mod collection;
mod events;
mod flash;
mod host_idle;
mod link;
mod mapping_cache;
mod saved;
mod write_cache;

use std::ops::DerefMut;

use ioassay_block::Kind;

use super::host_queue::HostQueue;
use super::listener::Listener;
use super::load::arrivals::Arrivals;
use super::load::requests::{DriveRequest, InFlight, Slab};
use super::load::trace_input::IssueMode;
use super::tally::Tally;
use super::time_series::TimeSeries;
use super::timers::{NEVER, after};
use super::{End, RunOptions};
use crate::Error;
use crate::drive::{COMMAND_BYTES, Controller, Counters, Drive, Position, SECTOR_BYTES};
use crate::error::check_time;
use crate::policy::{DriveState, Page};
use collection::Collections;
use events::{Event, EventQueue};
use flash::{Flash, Work};
use host_idle::HostIdle;
use link::Link;
use mapping_cache::MappingCache;
pub(in crate::engine) use saved::Idle;
use write_cache::{Admission, Programmed, WriteCache};

/// A drive with a controller under load: the drive, owned or borrowed (`D`), the requests that arrive
/// (`A`), and who is notified of events (`L`).
pub(super) struct ControllerEngine<D, A, L> {
    pub drive: D,
    pub arrivals: A,
    pub listener: L,
    pub now_ps: u64,
    pub requests: Slab,
    pub tally: Tally,
    pub series: TimeSeries,
    pub cache: WriteCache,
    options: RunOptions,
    controller: Controller,
    host_queue: HostQueue,
    events: EventQueue,
    link: Link,
    flash: Flash,
    collections: Collections,
    pub idle: HostIdle,
    /// `None`: the drive's memory has the whole mapping.
    mapping: Option<MappingCache>,
    /// For each request in flight, the pages that have crossed the link.
    received: Vec<u32>,
    /// When the next command may start.
    next_command_ps: u64,
    page_sectors: u32,
    unit_pages: usize,
    /// Pages of the smallest unit of the host: in SLC mode, where there is an SLC region.
    least_unit_pages: usize,
    /// The drive's counters at the end of the previous row of the series.
    counters_before: Counters,
    programmed: Vec<Programmed>,
    flushed: Vec<u32>,
    /// Whether it stops when the last request is issued (`checkpoint`).
    pauses_at_end: bool,
}

impl<D, A, L> ControllerEngine<D, A, L>
where
    D: DerefMut<Target = Drive>,
    A: Arrivals,
    L: Listener,
{
    pub fn new(drive: D, controller: Controller, arrivals: A, options: &RunOptions, listener: L) -> Self {
        let spec = drive.spec();
        Self {
            now_ps: 0,
            requests: Slab::default(),
            tally: Tally::default(),
            series: TimeSeries::new(options.series_rows, spec.elements as usize),
            cache: WriteCache::new(controller.cache_pages(spec) as usize),
            host_queue: HostQueue::new(options.scheduler, options.window),
            events: EventQueue::default(),
            link: Link::new(spec, &controller),
            flash: Flash::new(spec, &controller),
            collections: Collections::new(&drive),
            idle: HostIdle::new(&controller.slc),
            mapping: MappingCache::new(spec, &controller),
            received: Vec::new(),
            next_command_ps: 0,
            page_sectors: spec.page_sectors(),
            unit_pages: drive.unit_pages(),
            least_unit_pages: drive.least_unit_pages(),
            counters_before: drive.counters(),
            programmed: Vec::new(),
            flushed: Vec::new(),
            pauses_at_end: false,
            options: options.clone(),
            controller,
            drive,
            arrivals,
            listener,
        }
    }

    pub fn run(mut self) -> Result<(Tally, TimeSeries), Error> {
        self.refill()?;
        self.advance_to(NEVER)?;
        Ok(self.finish())
    }

    /// Handles all events up to and including `until_ps`, or until the run is over. Of those at the
    /// same time, arrivals come last.
    pub fn advance_to(&mut self, until_ps: u64) -> Result<(), Error> {
        loop {
            while let Some(event) = self.events.pop_at_once() {
                self.apply(event)?;
            }
            let (event_ps, arrival_ps) = (self.events.next_ps(), self.next_arrival_ps());
            let next_ps = event_ps.min(arrival_ps);
            if next_ps == NEVER || next_ps > until_ps {
                return Ok(());
            }
            self.set_now(next_ps)?;
            if event_ps <= arrival_ps {
                if let Some(event) = self.events.pop() {
                    self.apply(event)?;
                }
            } else {
                self.issue()?;
                if self.is_over() {
                    return Ok(());
                }
            }
        }
    }

    #[inline]
    fn apply(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Command(id) => self.start(id),
            Event::Received(id) => self.receive(id),
            Event::Sent(id) => {
                self.part_done(id);
                Ok(())
            }
            Event::Element { element, phase } => self.end_phase(element, phase),
            Event::Idle(rest) => self.begin_idle(rest),
        }
    }

    /// Time of the next event; `NEVER` without one.
    pub fn next_ps(&self) -> u64 {
        self.events.next_ps().min(self.next_arrival_ps())
    }

    /// Power loss: what is in flight and in the cache is gone; the mapping stays.
    pub fn cut_power(&mut self) {
        let spec = self.drive.spec();
        self.flash = Flash::new(spec, &self.controller);
        self.cache = WriteCache::new(self.cache.capacity());
        self.mapping = MappingCache::new(spec, &self.controller);
        self.collections = Collections::new(&self.drive);
        self.drive.release_victims();
        self.events = EventQueue::default();
        self.host_queue = HostQueue::new(self.options.scheduler, self.options.window);
        self.requests = Slab::default();
        self.link.free_ps = [0; 2];
        self.next_command_ps = 0;
        self.idle.end();
    }

    /// Restarts the clock at 0, for a drive in which nothing happens. The cache keeps its pages.
    pub fn reset_clock(&mut self) {
        let elements = self.drive.spec().elements as usize;
        self.now_ps = 0;
        self.flash.reset_clock();
        self.link.free_ps = [0; 2];
        self.next_command_ps = 0;
        self.series = TimeSeries::new(self.options.series_rows, elements);
    }

    /// Estimated time at which each element will have finished its operation.
    pub fn free_at_ps(&self) -> &[u64] {
        self.flash.free_at_ps()
    }

    // The load

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
            (Some(request), _) => request.at_ps.max(self.now_ps),
        }
    }

    fn is_over(&mut self) -> bool {
        if self.requests.len() > self.options.max_outstanding {
            self.tally.gave_up = true;
            return true;
        }
        (self.options.end == End::LastIssued || self.pauses_at_end) && self.arrivals.peek().is_none()
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

    fn refill(&mut self) -> Result<(), Error> {
        let drive_state = DriveState { now_ps: self.now_ps, free_at_ps: self.flash.free_at_ps() };
        self.arrivals.refill(&self.drive, &drive_state, &mut self.tally)
    }

    fn issue(&mut self) -> Result<(), Error> {
        let Some(&request) = self.arrivals.peek() else {
            return Ok(());
        };
        self.idle.end();
        self.tally.issued += 1;
        self.tally.last_issue_ps = self.now_ps;
        self.series.current_row().issued += 1;
        let sector = u64::from(request.first) * u64::from(self.page_sectors) + u64::from(request.skip);
        let id =
            self.requests.insert(InFlight { request, issued_ps: self.now_ps, dispatched_ps: self.now_ps, parts: 0 });
        self.listener.issued(id);
        if self.host_queue.issue(id, sector) {
            self.dispatch(id);
        }
        self.arrivals.pop();
        if self.arrivals.peek().is_none() {
            self.refill()?;
        }
        Ok(())
    }

    // Commands

    /// A command leaves the host's queue.
    fn dispatch(&mut self, id: u32) {
        let in_flight = self.requests.get(id);
        in_flight.dispatched_ps = self.now_ps;
        let request = in_flight.request;
        let start_ps = self.now_ps.max(self.next_command_ps);
        self.next_command_ps = after(start_ps, self.controller.command_interval_ps);
        let end_ps = after(start_ps, self.command_ps(&request));
        self.events.schedule(self.now_ps, end_ps, Event::Command(id));
    }

    /// The time of a command that holds no resource.
    fn command_ps(&self, request: &DriveRequest) -> u64 {
        let controller = &self.controller;
        let (fixed, per_4k) = match request.kind {
            Kind::Read => (controller.command_read_ps, controller.command_read_ps_per_4k),
            Kind::Write => (controller.command_write_ps, controller.command_write_ps_per_4k),
            Kind::Trim | Kind::Flush => (0, 0),
        };
        let bytes = u128::from(request.sectors) * u128::from(SECTOR_BYTES);
        fixed + (bytes * u128::from(per_4k) / u128::from(COMMAND_BYTES)) as u64
    }

    fn start(&mut self, id: u32) -> Result<(), Error> {
        let request = self.requests.get(id).request;
        match request.kind {
            Kind::Write => self.start_transfer(id, &request),
            Kind::Read => self.look_up(id, &request),
            Kind::Trim => self.trim(id, &request)?,
            Kind::Flush => {
                self.requests.get(id).parts = 1;
                if self.cache.flush(id) {
                    self.place_units()?;
                } else {
                    self.part_done(id);
                }
            }
        }
        Ok(())
    }

    /// A write's pages cross the link, one after the other.
    fn start_transfer(&mut self, id: u32, request: &DriveRequest) {
        self.requests.get(id).parts = request.pages;
        if id as usize >= self.received.len() {
            self.received.resize(id as usize + 1, 0);
        }
        self.received[id as usize] = 0;
        for index in 0..request.pages {
            let sectors = request.sectors_of(index, self.page_sectors);
            let end_ps = self.link.receive(self.now_ps, sectors);
            self.events.schedule(self.now_ps, end_ps, Event::Received(id));
        }
    }

    /// A part of a read's data crosses the link.
    fn send(&mut self, id: u32, sectors: u32) {
        let end_ps = self.link.send(self.now_ps, sectors);
        self.events.schedule(self.now_ps, end_ps, Event::Sent(id));
    }

    fn trim(&mut self, id: u32, request: &DriveRequest) -> Result<(), Error> {
        for page in request.first..request.first + request.pages {
            if self.cache.discard(page, &mut self.flushed) {
                self.listener.dropped(page);
            }
            let place = self.drive.place(page);
            self.drive.trim(place);
            self.change_entry(page);
        }
        self.requests.get(id).parts = 1;
        self.part_done(id);
        self.complete_flushes();
        self.admit_waiting();
        self.place_units()
    }

    // Writes

    /// A page of a write has crossed the link.
    #[inline]
    fn receive(&mut self, id: u32) -> Result<(), Error> {
        let request = self.requests.get(id).request;
        let received = &mut self.received[id as usize];
        let page = request.first + *received;
        *received += 1;
        if request.bypass || self.cache.capacity() == 0 {
            if request.bypass && self.cache.discard(page, &mut self.flushed) {
                self.listener.dropped(page);
                self.complete_flushes();
            }
            self.listener.program_issued(Some(id), page);
            self.cache.write_through(id, page);
            return self.place_units();
        }
        self.tally.buffered_writes += 1;
        match self.cache.write(id, page) {
            Admission::Waits => {
                self.tally.cache_waits += 1;
                return Ok(());
            }
            Admission::Hit => self.tally.write_hits += 1,
            Admission::Stored => {}
        }
        self.listener.buffered(id, page);
        self.part_done(id);
        self.place_units()
    }

    /// Pages that waited for the cache go there while it has room.
    fn admit_waiting(&mut self) {
        while let Some((id, page)) = self.cache.admit() {
            self.listener.buffered(id, page);
            self.part_done(id);
        }
    }

    fn complete_flushes(&mut self) {
        while let Some(id) = self.flushed.pop() {
            self.part_done(id);
        }
    }

    /// Program units go to the elements in turn that have none and have room, as long as there are pages for one.
    fn place_units(&mut self) -> Result<(), Error> {
        while self.cache.has_unit(self.least_unit_pages) {
            let most_pages = if self.cache.has_unit(self.unit_pages) { self.unit_pages } else { self.least_unit_pages };
            let next = self.flash.next_for_unit(&self.drive, most_pages);
            let Some((element, unit_pages)) = next else {
                return self.start_collections();
            };
            let unit = self.flash.new_unit(element);
            let (slots, pages) = self.flash.unit(unit);
            self.cache.take_unit(unit_pages, slots, pages);
            if self.cache.capacity() > 0 {
                for (&slot, &page) in slots.iter().zip(pages.iter()) {
                    if !self.cache.is_of_request(slot) {
                        self.tally.evicted_pages += 1;
                        self.listener.program_issued(None, page);
                    }
                }
            }
            let sectors = pages.len() as u32 * self.page_sectors;
            let Some(place) = self.drive.write_unit(element, pages) else {
                return Err(self.drive.worn_out(element));
            };
            let operation = self.flash.program(Work::Program(unit), &place, sectors);
            self.enqueue(element, operation);
            self.start_collections()?;
        }
        Ok(())
    }

    /// A unit of the host is programmed.
    fn unit_done(&mut self, unit: u32) -> Result<(), Error> {
        let (slots, _) = self.flash.unit(unit);
        let slots = std::mem::take(slots);
        if self.mapping.is_some() {
            for &slot in &slots {
                self.change_entry(self.cache.page_of(slot));
            }
        }
        for &slot in &slots {
            self.cache.programmed(slot, &mut self.programmed, &mut self.flushed);
        }
        let mut programmed = std::mem::take(&mut self.programmed);
        for Programmed { page, request } in programmed.drain(..) {
            self.listener.programmed(request, page);
            if let Some(id) = request {
                self.part_done(id);
            }
        }
        self.programmed = programmed;
        self.flash.recycle_unit(unit, slots);
        self.complete_flushes();
        self.admit_waiting();
        self.place_units()
    }

    // Reads

    /// Pages that the cache has cross the link; the others are read, those of a flash page together.
    fn read(&mut self, id: u32, request: &DriveRequest) {
        self.requests.get(id).parts = 1;
        let mut run: Option<FlashRun> = None;
        for index in 0..request.pages {
            let page: Page = request.first + index;
            let sectors = request.sectors_of(index, self.page_sectors);
            let hit = self.cache.contains(page);
            if self.cache.capacity() > 0 {
                self.tally.buffered_reads += 1;
                self.tally.read_hits += u64::from(hit);
            }
            let position = if hit { None } else { self.drive.position(page) };
            let Some(position) = position else {
                self.requests.get(id).parts += 1;
                self.send(id, sectors);
                continue;
            };
            match &mut run {
                Some(run) if run.at.flash_page == position.flash_page => {
                    run.sectors += sectors;
                    run.pages += 1;
                }
                _ => {
                    let before = run.replace(FlashRun { at: position, pages: 1, sectors });
                    if let Some(before) = before {
                        self.read_run(id, &before);
                    }
                }
            }
        }
        if let Some(run) = run {
            self.read_run(id, &run);
        }
        self.part_done(id);
    }

    fn read_run(&mut self, id: u32, run: &FlashRun) {
        self.requests.get(id).parts += 1;
        self.drive.count_reads(run.at.element, run.pages);
        self.enqueue_read(id, run);
    }

    // Completion

    /// A part of a request is done; the last one completes it.
    #[inline]
    fn part_done(&mut self, id: u32) {
        let in_flight = self.requests.get(id);
        in_flight.parts -= 1;
        if in_flight.parts == 0 {
            self.complete(id);
        }
    }

    fn complete(&mut self, id: u32) {
        let in_flight = self.requests.remove(id);
        let response_ps = self.now_ps - in_flight.issued_ps;
        let device_ps = self.now_ps - in_flight.dispatched_ps;
        let request = in_flight.request;
        self.tally.complete(request.kind, response_ps, device_ps, request.sectors);
        self.listener.completed(id, self.now_ps);
        self.tally.last_completion_ps = self.now_ps;
        let row = self.series.current_row();
        row.completed += 1;
        row.response_ps += u128::from(response_ps);
        if let Some(next) = self.host_queue.complete() {
            self.dispatch(next);
        }
        self.await_idle();
    }

    fn finish(mut self) -> (Tally, TimeSeries) {
        let counters = self.take_counters();
        let outstanding = self.requests.len() as u64;
        self.series.close(outstanding, counters);
        self.tally.busy_ps = self.series.busy_ps();
        self.tally.record_recent();
        self.tally.unfinished = outstanding;
        self.tally.buffered_at_end = self.arrivals.held_pages() + self.cache.staged_pages() as u64;
        (self.tally, self.series)
    }
}

/// Pages of a request that one operation of an element reads.
struct FlashRun {
    at: Position,
    pages: u32,
    sectors: u32,
}
