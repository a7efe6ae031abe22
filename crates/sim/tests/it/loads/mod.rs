//! Drives, loads and runs, as the tests of the simulation need them.

use std::collections::{BTreeMap, BTreeSet};

pub use ioassay_block::SplitMix64 as Chance;
use ioassay_block::{Error as TraceError, Kind, Request, Source};
use ioassay_sim::drive::{Drive, Spec};
use ioassay_sim::engine::{
    BufferMode, Destaging, End, Event, OneThread, OnlineDrive, RunOptions, Scheduler, Tally, TimeSeries, WriteBuffer,
    run,
};
use ioassay_sim::policy::{Layout, Settings, make};
use ioassay_sim::{BufferSpec, Error, Setup, Simulation, simulate};
use proptest::prelude::*;

/// Properties, whose failures are not written to files.
macro_rules! properties {
    ($($properties:tt)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
            $($properties)*
        }
    };
}
pub(crate) use properties;

pub const MEMORY: u64 = 1 << 32;

/// The same with a change.
pub fn with<T>(mut it: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut it);
    it
}

pub const PAGE: u64 = 4096;

// Times of the reference drive, picoseconds.
/// A page crosses the host channel: 8 sectors of 238,400 ps.
pub const CHANNEL: u64 = 1_907_200;
/// A page crosses the pins: 8 sectors of (512 + 16) bytes of 25,000 ps.
pub const PINS: u64 = 105_600_000;
/// Pins and programming, 0.2 ms.
pub const PROGRAM: u64 = PINS + 200_000_000;
/// Sensing, 25 µs, and pins.
pub const SENSE: u64 = 25_000_000 + PINS;

/// A drive that a test can see through: few blocks of few pages, half of them in reserve.
pub fn small() -> Spec {
    Spec {
        elements: 2,
        dies: 1,
        planes: 2,
        blocks_per_plane: 8,
        pages_per_block: 4,
        reserve: 0.5,
        min_free: 0.125,
        endurance: 0,
        ..Spec::default()
    }
}

/// The reference drive, with fewer blocks: as fast to make as it must be for many tests.
pub fn reference(elements: u32) -> Spec {
    with(Spec::default(), |spec| {
        (spec.elements, spec.blocks_per_plane) = (elements, 64);
    })
}

pub fn request(kind: Kind, at_ns: u64, page: u64, pages: u64) -> Request {
    Request { at_ns, offset_bytes: page * PAGE, length_bytes: pages * PAGE, device: 0, kind }
}

pub fn write(at_ns: u64, page: u64, pages: u64) -> Request {
    request(Kind::Write, at_ns, page, pages)
}

pub fn read(at_ns: u64, page: u64, pages: u64) -> Request {
    request(Kind::Read, at_ns, page, pages)
}

pub fn flush(at_ns: u64) -> Request {
    request(Kind::Flush, at_ns, 0, 0)
}

pub fn each(count: u64, of: impl FnMut(u64) -> Request) -> Vec<Request> {
    (0..count).map(of).collect()
}

/// What random requests are like.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Flushes, discards and reads of twenty requests; the others are writes.
    pub kinds: [u32; 3],
    /// Mean gap between bursts, and requests of a burst.
    pub gap_ns: u32,
    pub burst: u32,
    pub most_pages: u32,
    /// Whether reads and writes may begin and end within a page.
    pub parts: bool,
}

/// Random requests to the first `pages` pages of a drive.
pub fn mixed(chance: &mut Chance, pages: u32, requests: u32, mix: Mix) -> Vec<Request> {
    let mut at_ns = 0;
    each(requests.into(), |number| {
        if number % u64::from(mix.burst) == 0 {
            at_ns += u64::from(chance.below(2 * mix.gap_ns + 1));
        }
        let length = 1 + chance.below(mix.most_pages);
        let first = chance.below(pages - length + 1);
        let [flushes, discards, reads] = mix.kinds;
        let kind = match chance.below(20) {
            number if number < flushes => return flush(at_ns),
            number if number < flushes + discards => Kind::Trim,
            number if number < flushes + discards + reads => Kind::Read,
            _ => Kind::Write,
        };
        let cut_sectors = if mix.parts && kind != Kind::Trim { u64::from(chance.below(8)) } else { 0 };
        with(request(kind, at_ns, first.into(), length.into()), |one| {
            one.offset_bytes += 512 * (cut_sectors / 2);
            one.length_bytes -= 512 * cut_sectors;
        })
    })
}

/// Requests that do not say whether all of them are writes: they go the long way.
pub struct Unsaid<'a>(pub &'a [Request]);

impl Source for Unsaid<'_> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.0.next_batch(batch)
    }
}

/// Open loop, no window, until all is complete.
pub fn plain() -> RunOptions {
    RunOptions { window: None, scheduler: Scheduler::Fcfs, end: End::Drained, ..RunOptions::default() }
}

pub fn drive(spec: &Spec) -> Drive {
    Drive::new(spec, MEMORY).expect("a drive that can be")
}

pub fn layout(spec: &Spec) -> Layout {
    Layout { elements: spec.elements, pages_per_block: spec.pages_per_block, pages: spec.pages() }
}

pub fn buffer(spec: &Spec, policy: &str, pages: usize, mode: BufferMode) -> WriteBuffer {
    WriteBuffer {
        policy: make(policy, &Settings::new(layout(spec), pages)).expect("a policy"),
        mode,
        pad_reads: true,
        destager: None,
    }
}

/// A buffer inside the drive.
pub fn inline(spec: &Spec, policy: &str, pages: usize) -> WriteBuffer {
    buffer(spec, policy, pages, BufferMode::Inline)
}

pub fn buffer_spec(spec: &Spec, policy: &str, pages: usize, mode: BufferMode) -> BufferSpec {
    BufferSpec {
        policy: policy.into(),
        settings: Settings::new(layout(spec), pages),
        mode,
        pad_reads: true,
        destaging: Destaging::default(),
    }
}

/// A drive alone, with the usual options.
pub fn setup(spec: &Spec) -> Setup {
    Setup {
        drive: spec.clone(),
        buffer: None,
        preconditioning: None,
        run: RunOptions::default(),
        available_bytes: MEMORY,
    }
}

pub fn simulated(load: &[Request], setup: &Setup) -> Simulation {
    simulate(&mut &load[..], setup, &OneThread, &mut || true).expect("a run")
}

/// Runs a new drive over requests.
pub fn try_tally(
    spec: &Spec,
    requests: &[Request],
    buffer: Option<WriteBuffer>,
    options: &RunOptions,
) -> Result<(Drive, Tally, TimeSeries), Error> {
    let mut drive = drive(spec);
    let (tally, series) = run(&mut drive, &mut Unsaid(requests), buffer, options)?;
    drive.audit().expect("tables that agree");
    Ok((drive, tally, series))
}

pub fn tally(spec: &Spec, requests: &[Request], buffer: Option<WriteBuffer>, options: &RunOptions) -> Tally {
    try_tally(spec, requests, buffer, options).expect("a run").1
}

/// An online drive, all of whose requests and steps are possible, and what happened in it.
pub struct Live {
    pub drive: OnlineDrive,
    pub events: Vec<Event>,
}

impl Live {
    pub fn new(drive: Drive, buffer: Option<WriteBuffer>) -> Self {
        let drive = OnlineDrive::new(drive, buffer).expect("a live drive");
        let events = Vec::new();
        Self { drive, events }
    }

    pub fn submit(&mut self, at_ps: u64, request: &Request) -> u64 {
        self.drive.submit(at_ps, request).expect("a request")
    }

    pub fn advance_to(&mut self, at_ps: u64) {
        let advanced = self.drive.advance_to(at_ps, &mut self.events);
        advanced.expect("a drive that lives");
    }

    /// Until nothing is on its way.
    pub fn finish(&mut self) {
        self.advance_to(u64::MAX - 1);
        let left = (self.drive.next_ps(), self.drive.in_flight());
        assert_eq!(left, (None, 0));
    }

    /// What the events say of pages: all that entered the buffer is in it, or was dropped, or left; all that left was
    /// programmed. Returns the pages that replaced one of the buffer, and those of the buffer that were programmed.
    pub fn consistent(&self) -> Result<(u64, u64), TestCaseError> {
        let mut buffered = BTreeSet::new();
        let mut leaving: BTreeMap<u32, Vec<Option<u64>>> = BTreeMap::new();
        let (mut hits, mut programmed) = (0, 0);
        for event in &self.events {
            match *event {
                Event::Complete { .. } => {}
                Event::Buffered { page, .. } => hits += u64::from(!buffered.insert(page)),
                Event::Dropped { page } => prop_assert!(buffered.remove(&page), "{} was not held", page),
                Event::ProgramIssued { request, page } => {
                    prop_assert!(request.is_some() || buffered.remove(&page), "{} was not held", page);
                    leaving.entry(page).or_default().push(request);
                }
                Event::Programmed { request, page } => {
                    let of_page = leaving.get_mut(&page).expect("a page that left");
                    let place = of_page.iter().position(|left| *left == request);
                    of_page.remove(place.expect("what left"));
                    programmed += u64::from(request.is_none());
                }
            }
        }
        prop_assert!(leaving.values().all(Vec::is_empty), "all that left is in flash");
        prop_assert_eq!(buffered.len() as u64, self.drive.buffered_pages());
        prop_assert!(buffered.iter().all(|&page| self.drive.is_buffered(page)));
        Ok((hits, programmed))
    }

    pub fn audit(&self) {
        self.drive.drive().audit().expect("tables that agree");
    }
}

/// What the drives did, and where they left each page.
pub fn same_drive(left: &Drive, right: &Drive) -> Result<(), TestCaseError> {
    for (left, right) in left.elements().iter().zip(right.elements()) {
        prop_assert_eq!(left.counters(), right.counters());
        prop_assert_eq!(left.erases(), right.erases());
    }
    for page in 0..left.spec().pages() {
        prop_assert_eq!(left.physical_page(page), right.physical_page(page));
    }
    Ok(())
}
