//! What a command costs the drive, without any transport: the clock is set to when something is due,
//! so that nothing waits for the model's time. A transport adds its own.
//!
//! `cargo bench -p ioassay-device --bench served [-- THOUSANDS [ROUNDS]]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ioassay_block::SplitMix64;
use ioassay_device::clock::Clock;
use ioassay_device::command::Answer;
use ioassay_device::command::{Drive, DriveInfo};
use ioassay_device::emulated_drive::EmulatedDrive;
use ioassay_device::geometry::Geometry;
use ioassay_device::model::Model;
use ioassay_device::store::{Backing, Store};
use ioassay_device::{Command, Op, Tag};
use ioassay_sim::BufferOptions;

const SIZE_BYTES: u64 = 1 << 30;
const PAGE: u64 = 4096;
const DEPTH: usize = 32;

/// Its name, model, policy of the write buffer, operation, and whether a file keeps the content.
type Case = (&'static str, &'static str, &'static str, Op, bool);

const CASES: [Case; 8] = [
    ("no model, read", "none", "none", Op::Read, false),
    ("no model, write", "none", "none", Op::Write, false),
    ("no model, write, backed", "none", "none", Op::Write, true),
    ("reference, read", "reference", "none", Op::Read, false),
    ("reference, write", "reference", "none", Op::Write, false),
    ("reference with lru, write", "reference", "lru", Op::Write, false),
    ("reference with idle-cold, write", "reference", "idle-cold", Op::Write, false),
    ("reference with lru, write, backed", "reference", "lru", Op::Write, true),
];

fn drive((_, model, policy, _, backed): Case, clock: &Arc<AtomicU64>, folder: &tempfile::TempDir) -> EmulatedDrive {
    let buffer = BufferOptions { policy: policy.into(), ..BufferOptions::default() };
    let model = Model::new(model, SIZE_BYTES, &Geometry::default(), &buffer, u64::MAX);
    let path = folder.path().join("backing");
    let backing = backed.then(|| Backing::open(&path, Some(SIZE_BYTES), 0, false).expect("a file"));
    let facts = DriveInfo { size_bytes: SIZE_BYTES, ..DriveInfo::default() };
    let mut store = Store::new(SIZE_BYTES, backing).expect("memory");
    store.present.grant().expect("memory");
    let clock = Clock::Set(Arc::clone(clock));
    EmulatedDrive::new(facts, store, model.expect("a model"), clock).expect("a drive")
}

/// Nanoseconds of a processor for a command.
fn cost_ns(case: Case, commands: u64) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(AtomicU64::new(0));
    let mut drive = drive(case, &clock, &folder);
    let data = vec![7; PAGE as usize];
    let data = if case.3 == Op::Write { &data[..] } else { &[] };
    let mut chance = SplitMix64(1);
    let mut due: Vec<Answer> = Vec::new();
    let mut answered = 0;
    let begin_ns = thread_ns();
    while answered < commands {
        while drive.in_flight() < DEPTH {
            let page = chance.below_wide(SIZE_BYTES / PAGE);
            let tag = Tag { transport: 0, queue: 0, command: 0 };
            let command = Command { tag, op: case.3, offset_bytes: page * PAGE, length_bytes: PAGE, fua: false };
            drive.submit(command, data);
        }
        if let Some(next_ps) = drive.next_ps() {
            clock.fetch_max(next_ps, Ordering::Relaxed);
        }
        drive.take_answers(&mut due);
        drive.record_answers(&due);
        answered += due.len() as u64;
        due.clear();
    }
    (thread_ns() - begin_ns) as f64 / answered as f64
}

/// What this thread has used of a processor, so that others do not count.
fn thread_ns() -> i128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let commands = numbers.next().unwrap_or(500) * 1000;
    let rounds = numbers.next().unwrap_or(3);
    println!("{commands} commands of 4 KiB at depth {DEPTH}: processor time, least of {rounds}");
    for case in CASES {
        let least = (0..rounds).map(|_| cost_ns(case, commands)).fold(f64::MAX, f64::min);
        println!("{:<32} {least:8.0} ns a command", case.0);
    }
}
