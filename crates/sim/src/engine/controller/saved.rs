//! A drive with a controller in the middle of its work, saved and loaded.
//!
//! What is read is compared with itself before it is used: each request in flight waits for exactly
//! what is queued for it, each slot, unit and job belongs to one operation, no time is in the past.

use std::io::{Read, Write};

use ioassay_block::Kind;

use super::events::Event;
use super::flash::Work;
use super::mapping_cache::MappingCache;
use super::write_cache::WriteCache;
use super::{ControllerEngine, Drive};
use crate::engine::checkpoint::{Pausable, at_end};
use crate::engine::listener::NoListener;
use crate::engine::load::arrivals::Arrivals;
use crate::engine::load::lookahead::Lookahead;
use crate::engine::load::requests::InFlight;
use crate::engine::tally::Tally;
use crate::engine::time_series::TimeSeries;
use crate::engine::timers::NEVER;
use crate::engine::{End, WriteBuffer};
use crate::state::{ensure, put, take};
use crate::{Error, error};

/// The latest time of an event: no cost added to it leaves 64 bits.
const LATEST_PS: u64 = error::LONGEST_PS / 2 * 3;

/// What a drive with a controller has between two runs, beside its tables.
pub(in crate::engine) struct Idle {
    cache: WriteCache,
    mapping: Option<MappingCache>,
    rotation: u32,
}

type Engine<'a, 'b> = ControllerEngine<&'a mut Drive, Lookahead<'b>, NoListener>;

impl Engine<'_, '_> {
    /// Loads a drive and lets its requests in flight complete.
    pub fn settle(mut self, input: &mut dyn Read) -> Result<(Option<WriteBuffer>, Idle), Error> {
        self.read_all(input)?;
        self.check()?;
        // What that run counted is of no interest, nor how it was issued.
        self.tally = Tally::default();
        self.series = TimeSeries::new(self.options.series_rows, self.drive.spec().elements as usize);
        self.counters_before = self.drive.counters();
        self.advance_to(NEVER)?;
        self.check_end()?;
        let rotation = self.flash.rotation();
        let idle = Idle { cache: self.cache, mapping: self.mapping, rotation };
        Ok((self.arrivals.into_buffer(), idle))
    }

    /// Begins as another run on the drive left it.
    pub fn begin_with(&mut self, idle: Idle) {
        self.cache = idle.cache;
        self.mapping = idle.mapping;
        self.flash.continue_rotation(idle.rotation);
    }

    /// Reads all that was saved. The arrivals' place in the trace is that of the run that was saved.
    fn read_all(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        self.drive.load(input)?;
        self.arrivals.load(input)?;
        self.now_ps = take(input)?;
        self.host_queue = take(input)?;
        self.requests = take(input)?;
        self.received = take(input)?;
        self.next_command_ps = take(input)?;
        self.link.free_ps = take(input)?;
        let [one, other] = self.link.free_ps;
        let latest_ps = self.now_ps.max(self.next_command_ps).max(one).max(other);
        ensure(latest_ps <= LATEST_PS, "a time is too late")?;
        self.events = take(input)?;
        self.cache = take(input)?;
        let unit_sectors = self.unit_pages as u32 * self.page_sectors;
        self.flash.load(input, self.now_ps, LATEST_PS, unit_sectors)?;
        self.collections = take(input)?;
        self.idle.load(input)?;
        if let Some(mapping) = &mut self.mapping {
            mapping.load(input, self.drive.spec().pages())?;
        }
        self.tally = take(input)?;
        self.series = take(input)?;
        self.counters_before = take(input)?;
        at_end(input)
    }

    /// Whether what was read can be in progress on this drive.
    fn check(&self) -> Result<(), Error> {
        self.events.check(self.now_ps, LATEST_PS)?;
        let pages = self.drive.spec().pages();
        let capacity = self.controller.cache_pages(self.drive.spec()) as usize;
        self.cache.check(capacity, pages)?;
        let mut slots: Vec<u32> = self.flash.slots().collect();
        let mut placed: Vec<u32> = self.cache.placed().collect();
        slots.sort_unstable();
        placed.sort_unstable();
        ensure(slots == placed, "a program unit is not that of its pages")?;
        if let Some(translation) = self.drive.translation() {
            self.collections.check(&self.flash, translation)?;
        }
        match &self.mapping {
            Some(mapping) => mapping.check(&self.flash, self.drive.spec().elements)?,
            None => self.check_no_translation()?,
        }
        self.check_phases()?;
        self.check_requests(pages)
    }

    /// No element reads a mapping that the drive's memory has.
    fn check_no_translation(&self) -> Result<(), Error> {
        let elements = 0..self.drive.spec().elements;
        let mut operations = elements.flat_map(|element| self.flash.operations(element));
        let translates =
            |work| matches!(work, Work::TranslationRead(_) | Work::TranslationUpdate(_) | Work::TranslationWrite(_));
        ensure(
            !operations.any(|operation| translates(operation.work)),
            "a drive without mapping cache reads its mapping",
        )
    }

    /// The phase of each element that is busy ends with an event.
    fn check_phases(&self) -> Result<(), Error> {
        let mut ends = vec![None; self.drive.spec().elements as usize];
        for (at_ps, event) in self.events.iter(self.now_ps) {
            let Event::Element { element, phase } = event else {
                continue;
            };
            let known = (element as usize) < ends.len();
            ensure(known, "an event is of no element")?;
            let busy = self.flash.phase_of(element);
            if busy.is_some_and(|(number, _)| number == phase) {
                let end = ends[element as usize].replace((phase, at_ps));
                ensure(end.is_none(), "an operation ends twice")?;
            }
        }
        let ends_as_it_says = |(element, end)| self.flash.phase_of(element) == end;
        ensure((0..).zip(ends).all(ends_as_it_says), "an operation does not end")
    }

    /// Each request waits for what is queued for it, and nothing else is queued.
    fn check_requests(&self, pages: u32) -> Result<(), Error> {
        let Some(is_live) = self.requests.in_use() else {
            return Err(Error::State("it is damaged: a request is free twice".into()));
        };
        let queued = self.host_queue.waiting();
        let mut commands = vec![0_u32; is_live.len()];
        let mut transfers = vec![0_u32; is_live.len()];
        let mut parts = vec![0_u32; is_live.len()];
        let of = |counts: &mut Vec<u32>, id: u32, kind: Option<Kind>| {
            let live = is_live.get(id as usize) == Some(&true);
            let fits = live && kind.is_none_or(|kind| self.requests.at(id).request.kind == kind);
            if fits {
                counts[id as usize] += 1;
            }
            ensure(fits, "something is queued for no request")
        };
        for &id in &queued {
            of(&mut commands, id, None)?;
        }
        for (_, event) in self.events.iter(self.now_ps) {
            match event {
                Event::Command(id) => of(&mut commands, id, None)?,
                Event::Received(id) => of(&mut transfers, id, Some(Kind::Write))?,
                Event::Sent(id) => of(&mut parts, id, Some(Kind::Read))?,
                Event::Element { .. } | Event::Idle(_) => {}
            }
        }
        for id in self.cache.writes_that_wait() {
            of(&mut parts, id, Some(Kind::Write))?;
        }
        for id in self.cache.flushes_that_wait() {
            of(&mut parts, id, Some(Kind::Flush))?;
        }
        for id in self.mapping.iter().flat_map(MappingCache::reads_that_wait) {
            of(&mut parts, id, Some(Kind::Read))?;
        }
        for element in 0..self.drive.spec().elements {
            for operation in self.flash.operations(element) {
                if let Work::Read(id, sectors) = operation.work {
                    of(&mut parts, id, Some(Kind::Read))?;
                    let all = self.requests.at(id).request.sectors;
                    ensure(sectors <= all, "a read is longer than its request")?;
                }
            }
        }
        for (id, _) in (0..).zip(&is_live).filter(|(_, live)| **live) {
            let place = id as usize;
            let in_flight = self.requests.at(id);
            self.check_request(in_flight, pages)?;
            let begins = commands[place] == 1 && parts[place] + transfers[place] == 0;
            let goes_on = commands[place] == 0 && parts[place] + transfers[place] > 0;
            ensure(
                (begins || goes_on) && in_flight.parts == parts[place] + transfers[place],
                "a request does not wait for what is queued for it",
            )?;
            let pages = in_flight.request.pages;
            if goes_on && in_flight.request.kind == Kind::Write {
                let received = self.received.get(place);
                let together = received.and_then(|&done| done.checked_add(transfers[place]));
                ensure(together == Some(pages), "a write has other pages")?;
            }
        }
        let live = is_live.iter().filter(|live| **live).count();
        self.host_queue.check(live.saturating_sub(queued.len()))
    }

    fn check_request(&self, in_flight: &InFlight, pages: u32) -> Result<(), Error> {
        let request = &in_flight.request;
        let end = u64::from(request.first) + u64::from(request.pages);
        let sectors = u64::from(request.skip) + u64::from(request.sectors);
        ensure(
            end <= u64::from(pages)
                && request.skip < self.page_sectors
                && (sectors <= u64::from(request.pages) * u64::from(self.page_sectors))
                && in_flight.issued_ps <= self.now_ps
                && in_flight.dispatched_ps <= self.now_ps,
            "a request is not within the drive",
        )
    }

    /// Whether the counts that were read go on in a run with these options.
    fn check_counts(&self) -> Result<(), Error> {
        self.host_queue.check_options(self.options.scheduler, self.options.window)?;
        let responses = [&self.tally.reads, &self.tally.writes, &self.tally.others];
        let possible = responses.iter().all(|each| each.response_ns.is_possible());
        ensure(possible, "response times were counted twice")?;
        let counters = self.drive.counters();
        ensure(counters.follow(&self.counters_before), "the drive's counts are behind those of the time series")?;
        let elements = self.drive.spec().elements as usize;
        self.series.check(self.options.series_rows, elements)
    }
}

impl Pausable for Engine<'_, '_> {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        self.drive.save(output)?;
        self.arrivals.save(output)?;
        put(output, &self.now_ps)?;
        put(output, &self.host_queue)?;
        put(output, &self.requests)?;
        put(output, &self.received)?;
        put(output, &self.next_command_ps)?;
        put(output, &self.link.free_ps)?;
        put(output, &self.events)?;
        put(output, &self.cache)?;
        self.flash.save(output)?;
        put(output, &self.collections)?;
        self.idle.save(output)?;
        if let Some(mapping) = &self.mapping {
            mapping.save(output)?;
        }
        put(output, &self.tally)?;
        put(output, &self.series)?;
        put(output, &self.counters_before)
    }

    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        self.read_all(input)?;
        self.check()?;
        self.check_counts()
    }

    fn refill(&mut self) -> Result<(), Error> {
        ControllerEngine::refill(self)
    }

    fn advance_to(&mut self, until_ps: u64) -> Result<(), Error> {
        ControllerEngine::advance_to(self, until_ps)
    }

    fn pause_at_end(&mut self, pauses: bool) {
        self.pauses_at_end = pauses;
    }

    fn is_exhausted(&self) -> bool {
        self.arrivals.peek().is_none()
    }

    fn goes_on(&self) -> bool {
        !self.tally.gave_up && (self.options.end == End::Drained || !self.is_exhausted())
    }

    fn check_end(&self) -> Result<(), Error> {
        let elements = 0..self.drive.spec().elements;
        let mut operations = elements.flat_map(|element| self.flash.operations(element));
        let mut requests = self.cache.writes_that_wait();
        ensure(
            self.requests.len() == 0
                && operations.next().is_none()
                && requests.next().is_none()
                && self.cache.flushes_that_wait().next().is_none(),
            "something in it never completes",
        )
    }

    fn finish(self) -> (Tally, TimeSeries) {
        ControllerEngine::finish(self)
    }
}
