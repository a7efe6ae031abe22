//! Drives on a clock that tests set, and commands for them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ioassay_block::SplitMix64;
use ioassay_device::clock::Clock;
use ioassay_device::command::{Answer, Drive, DriveInfo};
use ioassay_device::emulated_drive::EmulatedDrive;
use ioassay_device::geometry::Geometry;
use ioassay_device::model::Model;
use ioassay_device::store::{Backing, Store};
use ioassay_device::{Command, Op, Status, Tag};
use ioassay_sim::BufferOptions;
use ioassay_sim::engine::BufferMode;
use ioassay_sim::policy::POLICIES;
use proptest::prelude::*;

pub const PAGE: u64 = 4096;

#[derive(Debug, Clone)]
pub struct Setup {
    pub pages: u64,
    pub model: &'static str,
    pub policy: &'static str,
    pub buffer_pages: u64,
    pub overlap: &'static str,
    pub page_bytes: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self { pages: 128, model: "reference", policy: "none", buffer_pages: 16, overlap: "off", page_bytes: 4096 }
    }
}

impl Setup {
    /// A drive of this model and policy.
    pub fn of(model: &'static str, policy: &'static str) -> Self {
        Self { model, policy, ..Self::default() }
    }

    pub fn size_bytes(&self) -> u64 {
        self.pages * PAGE
    }

    pub fn geometry(&self) -> Geometry {
        Geometry::default()
            .with("elements", 3)
            .with("planes", 2)
            .with("dies", 2)
            .with("pages_per_block", 8)
            .with("reserve", 0.5)
            .with("min_free", 0.126)
            .with("overlap", self.overlap)
            .with("page", u64::from(self.page_bytes))
    }

    pub fn buffer(&self) -> BufferOptions {
        BufferOptions {
            policy: self.policy.into(),
            bytes: self.buffer_pages * u64::from(self.page_bytes),
            mode: BufferMode::Inline,
            ..BufferOptions::default()
        }
    }
}

/// Drives of this many pages with any policy, overlap and size of flash pages.
pub fn any_drive(pages: u64) -> impl Strategy<Value = Setup> {
    let page_bytes = prop_oneof![3 => Just(4096_u32), 1 => Just(1024), 1 => Just(16384)];
    let overlaps = prop_oneof![Just("off"), Just("dies"), Just("planes")];
    let policies = prop_oneof![1 => Just("none"), 2 => (0..POLICIES.len()).prop_map(|at| POLICIES[at].name)];
    (policies, overlaps, 8_u64..24, page_bytes).prop_map(move |(policy, overlap, buffer_pages, page_bytes)| Setup {
        pages,
        policy,
        buffer_pages,
        overlap,
        page_bytes,
        ..Setup::default()
    })
}

pub fn tag(command: u64) -> Tag {
    Tag { transport: 0, queue: 0, command }
}

/// A drive, its clock, and what it answered.
pub struct Bench {
    pub drive: EmulatedDrive,
    clock: Arc<AtomicU64>,
    pub answers: Vec<Answer>,
    commands: u64,
}

impl Bench {
    pub fn new(setup: &Setup) -> Self {
        Self::over(setup, None)
    }

    pub fn backed(setup: &Setup, path: &Path) -> Self {
        Self::over(setup, Some(Backing::open(path, Some(setup.size_bytes()), 0, false).expect("a backing file")))
    }

    pub fn over(setup: &Setup, backing: Option<Backing>) -> Self {
        Self::with(setup, &setup.geometry(), backing)
    }

    pub fn with(setup: &Setup, geometry: &Geometry, backing: Option<Backing>) -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let model = Model::new(setup.model, setup.size_bytes(), geometry, &setup.buffer(), u64::MAX).expect("a model");
        let read_only = backing.as_ref().is_some_and(Backing::read_only);
        let facts = DriveInfo { size_bytes: setup.size_bytes(), read_only, ..DriveInfo::default() };
        let store = Store::new(setup.size_bytes(), backing).expect("a store");
        let of_clock = Clock::Set(Arc::clone(&clock));
        Self {
            drive: EmulatedDrive::new(facts, store, model, of_clock).expect("a drive"),
            clock,
            answers: Vec::new(),
            commands: 0,
        }
    }

    pub fn now_ps(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Submits a command; its number.
    pub fn submit(&mut self, op: Op, offset_bytes: u64, length_bytes: u64, fua: bool, data: &[u8]) -> u64 {
        let tag = tag(self.commands);
        self.commands += 1;
        let command = Command { tag, op, offset_bytes, length_bytes, fua };
        self.drive.submit(command, data);
        tag.command
    }

    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) -> u64 {
        self.submit(Op::Write, offset_bytes, data.len() as u64, false, data)
    }

    pub fn ask(&mut self, op: Op, offset_bytes: u64, length_bytes: u64) -> u64 {
        self.submit(op, offset_bytes, length_bytes, false, &[])
    }

    pub fn flush(&mut self) -> u64 {
        self.submit(Op::Flush, 0, 0, false, &[])
    }

    /// Time goes on, event by event; returns the answers since.
    pub fn pass(&mut self, ps: u64) -> Vec<Answer> {
        let until = self.now_ps().saturating_add(ps);
        let before = self.answers.len();
        loop {
            self.answer();
            match self.drive.next_ps().filter(|&next| next <= until) {
                Some(next) => self.clock.fetch_max(next, Ordering::Relaxed),
                None => break,
            };
        }
        self.clock.fetch_max(until, Ordering::Relaxed);
        self.answer();
        self.answers[before..].to_vec()
    }

    fn answer(&mut self) {
        let mut due = Vec::new();
        self.drive.take_answers(&mut due);
        self.drive.record_answers(&due);
        self.answers.append(&mut due);
    }

    /// Lets no time pass, or a random time of up to 5 ms.
    pub fn pass_at_random(&mut self, chance: &mut SplitMix64) {
        let most_ps = [0, 1_000_000, 300_000_000, 5_000_000_000][chance.below_wide(4) as usize];
        self.pass(chance.below_wide(most_ps + 1));
    }

    /// Waits until all is answered, the backing file's thread included.
    pub fn settle(&mut self) -> Vec<Answer> {
        let before = self.answers.len();
        let begin = std::time::Instant::now();
        while self.drive.in_flight() > 0 {
            self.pass(1_000_000_000_000);
            assert!(begin.elapsed().as_secs() < 300); // a command is never answered
            std::thread::yield_now();
        }
        self.answers[before..].to_vec()
    }

    /// The status of a command, whose data have this value where it writes, when all is done.
    pub fn status(&mut self, op: Op, offset_bytes: u64, length_bytes: u64, value: u8) -> Status {
        let data = vec![value; if op == Op::Write { length_bytes as usize } else { 0 }];
        self.submit(op, offset_bytes, length_bytes, false, &data);
        self.settle();
        self.answers.last().expect("an answer").status
    }

    /// The statuses of all that was not answered yet.
    pub fn statuses(&mut self) -> Vec<Status> {
        self.settle().iter().map(|one| one.status).collect()
    }

    pub fn settles_well(&mut self) -> bool {
        self.statuses().iter().all(|&status| status == Status::Done)
    }

    pub fn content(&self) -> Vec<u8> {
        self.drive.content(0, self.drive.facts().size_bytes).to_vec()
    }
}

/// Each value, and how many bytes in a row have it.
pub fn runs(bytes: &[u8]) -> Vec<(u8, usize)> {
    bytes.chunk_by(|one, next| one == next).map(|run| (run[0], run.len())).collect()
}

/// Whether all bytes are this.
pub fn is_all(bytes: &[u8], value: u8) -> bool {
    bytes.iter().all(|&byte| byte == value)
}

/// A block, and how many values it ever had.
type Marks = Vec<(usize, usize)>;

/// What each block may hold after a power loss or a kill: what is durable for certain, and all that was written since.
#[derive(Default)]
pub struct History {
    block_bytes: u64,
    /// Whether a write that was answered waits for a flush.
    buffered: bool,
    pub allowed: Vec<Vec<u8>>,
    /// Of each block how many values were dropped from the front of `allowed`.
    dropped: Vec<usize>,
    /// For each command in flight the blocks that its answer settles, and the positions of their values since the last cut.
    settles: BTreeMap<u64, Marks>,
    /// For each write in flight that its answer does not settle the same.
    waits: BTreeMap<u64, Marks>,
    /// Writes that were answered, and settle with a flush.
    answered: Marks,
}

impl History {
    /// That of a drive of zeroes.
    pub fn new(size_bytes: u64, block_bytes: u64, buffered: bool) -> Self {
        let blocks = (size_bytes / block_bytes) as usize;
        Self { block_bytes, buffered, allowed: vec![vec![0]; blocks], dropped: vec![0; blocks], ..Self::default() }
    }

    pub fn write(&mut self, id: u64, offset_bytes: u64, length_bytes: u64, value: u8, fua: bool) {
        let (start, end) = (offset_bytes / self.block_bytes, (offset_bytes + length_bytes) / self.block_bytes);
        let marks = (start as usize..end as usize).map(|block| {
            self.allowed[block].push(value);
            (block, self.dropped[block] + self.allowed[block].len())
        });
        let marks = marks.collect();
        let of = if fua || !self.buffered { &mut self.settles } else { &mut self.waits };
        of.insert(id, marks);
    }

    pub fn flush(&mut self, id: u64) {
        self.settles.insert(id, self.answered.clone());
    }

    /// A command is done.
    pub fn answered(&mut self, id: u64) {
        for (block, position) in self.settles.remove(&id).unwrap_or_default() {
            let count = position.saturating_sub(self.dropped[block]);
            let values = &mut self.allowed[block];
            let settled = count.saturating_sub(1).min(values.len() - 1);
            values.drain(..settled);
            self.dropped[block] += settled;
        }
        self.answered.extend(self.waits.remove(&id).unwrap_or_default());
    }

    /// The content after a cut must be one that is allowed; from then on it is the only one.
    pub fn cut(&mut self, content: &[u8]) {
        let blocks = self.allowed.iter_mut().zip(content.chunks(self.block_bytes as usize));
        for (number, (values, block)) in blocks.enumerate() {
            let value = block[0];
            assert!(is_all(block, value), "block {number} is torn");
            assert!(values.contains(&value), "{number}: {value} of {values:?}");
            *values = vec![value];
        }
        self.dropped.fill(0);
        self.settles.clear();
        self.waits.clear();
        self.answered.clear();
    }
}
