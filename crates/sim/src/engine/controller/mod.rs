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
mod mapping_cache;
mod write_cache;

use ioassay_block::Kind;

use super::RunOptions;
use super::core::{Core, Engine, EventLoop, World};
use super::load::requests::DriveRequest;
use super::timers::after;
use crate::drive::{COMMAND_BYTES, Controller, Position, SECTOR_BYTES, Spec};
use crate::policy::Page;
use crate::state::Stored;
use crate::{Error, engine};
use collection::Collections;
use events::{Event, EventQueue};
use flash::{Flash, Work};
use host_idle::HostIdle;
use mapping_cache::{MappingCache, MappingLog};
use write_cache::{Admission, Programmed, WriteCache};

/// The engine of a drive with a controller.
pub(super) struct ControllerEngine<W: World> {
    pub core: Core<W>,
    cache: WriteCache,
    events: EventQueue,
    link: Link,
    flash: Flash,
    collections: Collections,
    pub idle: HostIdle,
    /// `None`: the drive's memory has the whole mapping.
    mapping: Option<MappingCache>,
    log: MappingLog,
    /// For each request in flight, the pages that have crossed the link.
    received: Vec<u32>,
    /// When the next command may start.
    next_command_ps: u64,
    unit_pages: usize,
    /// Pages of the smallest unit of the host: in SLC mode, where there is an SLC region.
    least_unit_pages: usize,
    programmed: Vec<Programmed>,
    flushed: Vec<u32>,
}

/// The state of a controller between two runs.
#[derive(Clone)]
pub(super) struct Remains {
    cache: WriteCache,
    mapping: Option<MappingCache>,
    log: MappingLog,
    rotation: u32,
}

impl<W: World> ControllerEngine<W> {
    pub fn new(drive: W::Drive, controller: &Controller, arrivals: W::Arrivals, options: &RunOptions) -> Self {
        let spec = drive.spec();
        Self {
            cache: WriteCache::new(controller.cache_pages(spec) as usize),
            events: EventQueue::default(),
            link: Link::new(spec, controller),
            flash: Flash::new(spec, controller),
            collections: Collections::new(&drive),
            idle: HostIdle::new(&controller.slc),
            mapping: MappingCache::new(spec, controller),
            log: MappingLog::default(),
            received: Vec::new(),
            next_command_ps: 0,
            unit_pages: drive.unit_pages(),
            least_unit_pages: drive.least_unit_pages(),
            programmed: Vec::new(),
            flushed: Vec::new(),
            core: Core::new(drive, arrivals, options),
        }
    }

    /// Begins as another run on the drive left it.
    pub fn begin_with(&mut self, remains: Remains) {
        self.cache = remains.cache;
        self.mapping = remains.mapping;
        self.log = remains.log;
        self.flash.rotation = remains.rotation;
    }

    /// All that is in progress, in the order in which it is saved.
    pub fn parts(&mut self) -> Vec<&mut dyn Stored>
    where
        W::Arrivals: Stored,
    {
        let core = &mut self.core;
        let mut parts: Vec<&mut dyn Stored> = vec![
            &mut *core.drive,
            &mut core.arrivals,
            &mut core.now_ps,
            &mut core.host_queue,
            &mut core.requests,
            &mut self.received,
            &mut self.next_command_ps,
            &mut self.log,
            &mut self.link.free_ps,
            &mut self.events,
            &mut self.cache,
            &mut self.collections,
            &mut self.idle.is_idle,
            &mut self.idle.rest,
        ];
        parts.extend(self.flash.parts());
        parts.extend(self.mapping.as_mut().map(|mapping| mapping as _));
        parts.extend([&mut core.tally as _, &mut core.series as _, &mut core.counters_before as _]);
        parts
    }

    pub fn into_remains(self) -> (W::Arrivals, Remains) {
        let Self { core, cache, mapping, log, flash, .. } = self;
        (core.arrivals, Remains { cache, mapping, log, rotation: flash.rotation })
    }

    // Commands

    /// A command leaves the host's queue.
    fn dispatch(&mut self, id: u32) {
        let request = self.core.dispatch(id);
        let start_ps = self.core.now_ps.max(self.next_command_ps);
        self.next_command_ps = after(start_ps, self.flash.controller.command_interval_ps);
        let end_ps = after(start_ps, self.command_ps(&request));
        self.events.schedule(self.core.now_ps, end_ps, Event::Command(id));
    }

    /// The time of a command that holds no resource.
    fn command_ps(&self, request: &DriveRequest) -> u64 {
        let controller = &self.flash.controller;
        let (fixed, per_4k) = match request.kind {
            Kind::Read => (controller.command_read_ps, controller.command_read_ps_per_4k),
            Kind::Write => (controller.command_write_ps, controller.command_write_ps_per_4k),
            Kind::Trim | Kind::Flush => (0, 0),
        };
        let bytes = u128::from(request.sectors) * u128::from(SECTOR_BYTES);
        fixed + (bytes * u128::from(per_4k) / u128::from(COMMAND_BYTES)) as u64
    }

    fn start(&mut self, id: u32) -> Result<(), Error> {
        let request = self.core.requests.get(id).request;
        match request.kind {
            Kind::Write => self.start_transfer(id, &request),
            Kind::Read => self.look_up(id, &request),
            Kind::Trim => self.trim(id, &request)?,
            Kind::Flush => {
                self.core.requests.get(id).parts = 1;
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
        self.log_mapping(request);
        self.core.requests.get(id).parts = request.pages;
        if id as usize >= self.received.len() {
            self.received.resize(id as usize + 1, 0);
        }
        self.received[id as usize] = 0;
        for index in 0..request.pages {
            let sectors = request.sectors_of(index, self.core.page_sectors);
            let end_ps = self.link.receive(self.core.now_ps, sectors);
            self.events.schedule(self.core.now_ps, end_ps, Event::Received(id));
        }
    }

    /// A part of a read's data crosses the link.
    fn send(&mut self, id: u32, sectors: u32) {
        let end_ps = self.link.send(self.core.now_ps, sectors);
        self.events.schedule(self.core.now_ps, end_ps, Event::Sent(id));
    }

    fn trim(&mut self, id: u32, request: &DriveRequest) -> Result<(), Error> {
        for page in request.first..request.first + request.pages {
            if self.cache.discard(page, &mut self.flushed) {
                self.core.record(engine::Event::Dropped { page });
            }
            let place = self.core.drive.place(page);
            self.core.drive.trim(place);
            self.change_entry(page);
        }
        self.core.requests.get(id).parts = 1;
        self.part_done(id);
        self.complete_flushes();
        self.admit_waiting();
        self.place_units()
    }

    // Writes

    /// A page of a write has crossed the link.
    #[inline]
    fn receive(&mut self, id: u32) -> Result<(), Error> {
        let request = self.core.requests.get(id).request;
        let received = &mut self.received[id as usize];
        let page = request.first + *received;
        *received += 1;
        let is_last = *received == request.pages;
        if request.bypass || self.cache.capacity() == 0 {
            if request.bypass && self.cache.discard(page, &mut self.flushed) {
                self.core.record(engine::Event::Dropped { page });
                self.complete_flushes();
            }
            self.core.record(engine::Event::ProgramIssued { request: Some(id), page });
            self.cache.write_through(id, page, is_last);
            return self.place_units();
        }
        self.core.tally.buffered_writes += 1;
        match self.cache.write(id, page) {
            Admission::Waits => {
                self.core.tally.cache_waits += 1;
                return Ok(());
            }
            Admission::Hit => self.core.tally.write_hits += 1,
            Admission::Stored => {}
        }
        self.core.record(engine::Event::Buffered { request: id, page });
        self.part_done(id);
        self.place_units()
    }

    /// Pages that waited for the cache go there while it has room.
    fn admit_waiting(&mut self) {
        while let Some((id, page)) = self.cache.admit() {
            self.core.record(engine::Event::Buffered { request: id, page });
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
            let (drive, collections) = (&*self.core.drive, &self.collections);
            let next = self.flash.next_for_unit(most_pages, |element| {
                if collections.throttles(drive, element) { None } else { drive.layer().host_unit(element) }
            });
            let Some((element, unit_pages)) = next else {
                return self.start_collections();
            };
            self.collections.spend(self.core.drive.layer().group_of(element));
            let unit = self.flash.new_unit(element);
            let (slots, pages) = self.flash.unit(unit);
            self.cache.take_unit(unit_pages, slots, pages);
            if self.cache.capacity() > 0 {
                for (&slot, &page) in slots.iter().zip(pages.iter()) {
                    if !self.cache.is_of_request(slot) {
                        self.core.tally.evicted_pages += 1;
                        self.core.record(engine::Event::ProgramIssued { request: None, page });
                    }
                }
            }
            let sectors = pages.len() as u32 * self.core.page_sectors;
            let Some(place) = self.core.drive.write_unit(element, pages) else {
                return Err(self.core.drive.worn_out(element));
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
            self.core.record(engine::Event::Programmed { request, page });
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
        self.core.requests.get(id).parts = 1;
        let mut run: Option<FlashRun> = None;
        for index in 0..request.pages {
            let page: Page = request.first + index;
            let sectors = request.sectors_of(index, self.core.page_sectors);
            let hit = self.cache.contains(page);
            if self.cache.capacity() > 0 {
                self.core.tally.buffered_reads += 1;
                self.core.tally.read_hits += u64::from(hit);
            }
            let position = if hit { None } else { self.core.drive.position(page) };
            let Some(position) = position else {
                self.core.requests.get(id).parts += 1;
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
        self.core.requests.get(id).parts += 1;
        self.core.drive.count_reads(run.at.element, run.pages);
        let work = Work::Read(id, run.sectors);
        let operation = self.flash.read(work, &run.at, run.sectors, run.sectors);
        self.enqueue_first(run.at.element, operation);
    }

    // Completion

    /// A part of a request is done; the last one completes it.
    #[inline]
    fn part_done(&mut self, id: u32) {
        let in_flight = self.core.requests.get(id);
        in_flight.parts -= 1;
        if in_flight.parts == 0 {
            self.complete(id);
        }
    }

    fn complete(&mut self, id: u32) {
        if let Some(next) = self.core.complete(id) {
            self.dispatch(next);
        }
        self.await_idle();
    }
}

impl<W: World> Engine<W> for ControllerEngine<W> {
    fn core(&self) -> &Core<W> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core<W> {
        &mut self.core
    }

    fn next_event_ps(&self) -> u64 {
        self.events.next_ps(self.core.now_ps)
    }

    fn advance_to(&mut self, until_ps: u64) -> Result<(), Error> {
        self.run_until(until_ps)
    }

    fn refill(&mut self) -> Result<(), Error> {
        self.core.refill(self.flash.free_at_ps())
    }

    fn free_at_ps(&self) -> &[u64] {
        self.flash.free_at_ps()
    }

    fn cut_power(&mut self) {
        self.core.drop_requests();
        self.core.drive.layer_mut().release_victims();
        let spec = self.core.drive.spec();
        self.flash = Flash::new(spec, &self.flash.controller);
        self.cache = WriteCache::new(self.cache.capacity());
        self.mapping = MappingCache::new(spec, &self.flash.controller);
        self.log = MappingLog::default();
        self.collections = Collections::new(&self.core.drive);
        self.events = EventQueue::default();
        self.link.free_ps = [0; 2];
        self.next_command_ps = 0;
        self.idle.end();
    }

    /// The cache keeps its pages.
    fn reset_clock(&mut self) {
        self.core.reset_clock();
        self.flash.reset_clock();
        self.link.free_ps = [0; 2];
        self.next_command_ps = 0;
    }

    fn is_buffered(&self, page: Page) -> bool {
        self.cache.contains(page)
    }

    fn buffered_pages(&self) -> u64 {
        self.cache.staged_pages() as u64
    }

    fn buffer_capacity_pages(&self) -> u64 {
        self.cache.capacity() as u64
    }
}

impl<W: World> EventLoop<W> for ControllerEngine<W> {
    #[inline]
    fn step(&mut self, limit_ps: u64) -> Result<bool, Error> {
        let Some((at_ps, event)) = self.events.pop_until(self.core.now_ps, limit_ps) else {
            return Ok(false);
        };
        self.core.set_now(at_ps)?;
        match event {
            Event::Command(id) => self.start(id)?,
            Event::Received(id) => self.receive(id)?,
            Event::Sent(id) => self.part_done(id),
            Event::Element { element, phase } => self.end_phase(element, phase)?,
            Event::Idle(rest) => self.begin_idle(rest)?,
        }
        Ok(true)
    }

    fn admit(&mut self, id: u32) -> Result<(), Error> {
        self.idle.end();
        self.dispatch(id);
        Ok(())
    }
}

/// Pages of a request that one operation of an element reads.
struct FlashRun {
    at: Position,
    pages: u32,
    sectors: u32,
}

/// The link to the host, first come, first served.
struct Link {
    /// When each direction is free; one that is not duplex uses the first only.
    free_ps: [u64; 2],
    ps_per_sector: u64,
    to_host: usize,
}

impl Link {
    fn new(spec: &Spec, controller: &Controller) -> Self {
        Self {
            free_ps: [0; 2],
            ps_per_sector: controller.link_ps_per_sector.unwrap_or(spec.channel_ps_per_sector),
            to_host: usize::from(controller.link_duplex),
        }
    }

    /// When data from the host that are ready now have crossed.
    #[inline]
    fn receive(&mut self, now_ps: u64, sectors: u32) -> u64 {
        self.reserve(0, now_ps, sectors)
    }

    /// When data to the host that are ready now have crossed.
    #[inline]
    fn send(&mut self, now_ps: u64, sectors: u32) -> u64 {
        self.reserve(self.to_host, now_ps, sectors)
    }

    #[inline]
    fn reserve(&mut self, direction: usize, now_ps: u64, sectors: u32) -> u64 {
        let free_ps = &mut self.free_ps[direction];
        let took_ps = u64::from(sectors) * self.ps_per_sector;
        *free_ps = after(now_ps.max(*free_ps), took_ps);
        *free_ps
    }
}
