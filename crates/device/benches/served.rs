//! What a command costs the drive, without any transport: the clock is set to when something is due,
//! so that nothing waits for the model's time. A transport adds its own.
//!
//! `cargo bench -p ioassay-device --bench drive [-- THOUSANDS [ROUNDS]]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

struct Case {
    name: &'static str,
    model: &'static str,
    policy: &'static str,
    op: Op,
    backed: bool,
}

fn drive(case: &Case, clock: &Arc<AtomicU64>, folder: &tempfile::TempDir) -> EmulatedDrive {
    let buffer = BufferOptions { policy: case.policy.into(), ..BufferOptions::default() };
    let model = Model::new(case.model, SIZE_BYTES, &Geometry::default(), &buffer, u64::MAX);
    let path = folder.path().join("backing");
    let backing = case.backed.then(|| Backing::open(&path, Some(SIZE_BYTES), 0, false).expect("a file"));
    let facts = DriveInfo { size_bytes: SIZE_BYTES, ..DriveInfo::default() };
    let mut store = Store::new(SIZE_BYTES, backing).expect("memory");
    store.present.grant().expect("memory");
    let clock = Clock::Set(Arc::clone(clock));
    EmulatedDrive::new(facts, store, model.expect("a model"), clock).expect("a drive")
}

/// Nanoseconds of a processor for a command.
fn cost_ns(case: &Case, commands: u64) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(AtomicU64::new(0));
    let mut drive = drive(case, &clock, &folder);
    let data = vec![7; PAGE as usize];
    let data = if case.op == Op::Write { &data[..] } else { &[] };
    let mut chance = 1_u64;
    let mut due: Vec<Answer> = Vec::new();
    let mut answered = 0;
    let begin_ns = thread_ns();
    while answered < commands {
        while drive.in_flight() < DEPTH {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = (chance >> 33) % (SIZE_BYTES / PAGE);
            let tag = Tag { transport: 0, queue: 0, command: 0 };
            let command = Command { tag, op: case.op, offset_bytes: page * PAGE, length_bytes: PAGE, fua: false };
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
    let case = |name, model, policy, op, backed| Case { name, model, policy, op, backed };
    let cases = [
        case("no model, read", "none", "none", Op::Read, false),
        case("no model, write", "none", "none", Op::Write, false),
        case("no model, write, backed", "none", "none", Op::Write, true),
        case("reference, read", "reference", "none", Op::Read, false),
        case("reference, write", "reference", "none", Op::Write, false),
        case("reference with lru, write", "reference", "lru", Op::Write, false),
        case("reference with idle-cold, write", "reference", "idle-cold", Op::Write, false),
        case("reference with lru, write, backed", "reference", "lru", Op::Write, true),
    ];
    println!("{commands} commands of 4 KiB at depth {DEPTH}: processor time, least of {rounds}");
    for case in &cases {
        let least = (0..rounds).map(|_| cost_ns(case, commands)).fold(f64::MAX, f64::min);
        println!("{:<32} {least:8.0} ns a command", case.name);
    }
}
