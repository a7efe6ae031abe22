//! How many page writes a second the drive takes, beside what memory allows: random updates of a
//! table of the same size, each with a second one that depends on it, in the same run.
//!
//! Instructions are counted by valgrind, where it is installed: other work on the machine does not change them.
//!
//! `cargo bench -p ioassay-sim --bench drive [-- MILLIONS [ROUNDS]]`; ONLY=NAME for one case.

use std::process::Command;
use std::time::Instant;

use ioassay_block::{BATCH, Error, Kind, Request, Source, SplitMix64};
use ioassay_sim::drive::{Controller, Drive, Spec};
use ioassay_sim::engine::{BufferMode, IssueMode, OneThread, RunOptions, Scheduler, Workers, WriteBuffer, run_with};
use ioassay_sim::policy::{Layout, Settings, make};
use ioassay_sim::{Preconditioning, precondition};
use threads::Threads;

#[path = "../tests/it/threads/mod.rs"]
mod threads;

/// Uniform 4 KiB requests at fixed gaps.
struct Uniform {
    chance: SplitMix64,
    left: u64,
    pages: u32,
    gap_ns: u64,
    at_ns: u64,
    reads: Reads,
}

#[derive(Clone, Copy, PartialEq)]
enum Reads {
    None,
    /// None, of a source that does not say so.
    Unsaid,
    Half,
    All,
}

impl Source for Uniform {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        for _ in 0..self.left.min(BATCH as u64) {
            self.at_ns += self.gap_ns;
            let page = self.chance.below(self.pages);
            batch.push(Request {
                at_ns: self.at_ns,
                offset_bytes: u64::from(page) * 4096,
                length_bytes: 4096,
                device: 0,
                kind: if self.reads == Reads::All || (self.reads == Reads::Half && page % 2 == 0) {
                    Kind::Read
                } else {
                    Kind::Write
                },
            });
        }
        self.left -= batch.len() as u64;
        Ok(())
    }

    fn only_writes(&self) -> bool {
        self.reads == Reads::None
    }

    fn is_repeatable(&self) -> bool {
        self.reads == Reads::Unsaid
    }
}

struct Case {
    name: &'static str,
    policy: &'static str,
    options: RunOptions,
    reads: Reads,
    /// A drive with a controller, in steady state for writes, instead of the reference drive.
    controller: bool,
}

impl Case {
    /// Whether several threads can share it.
    fn is_shared(&self) -> bool {
        self.options.window.is_none()
            && self.options.issue_mode == IssueMode::OpenLoop
            && self.reads == Reads::None
            && self.policy != "idle-cold"
            && !self.controller
    }
}

fn cases() -> Vec<Case> {
    let open = RunOptions { window: None, scheduler: Scheduler::Fcfs, ..RunOptions::default() };
    let with = |issue_mode| RunOptions { issue_mode, ..open.clone() };
    let case = |name, policy, options, reads| Case { name, policy, options, reads, controller: false };
    let controller =
        |name, reads| Case { controller: true, ..case(name, "none", with(IssueMode::ClosedLoop(128)), reads) };
    vec![
        case("no buffer", "none", open.clone(), Reads::None),
        case("lru, 8 MiB", "lru", open.clone(), Reads::None),
        case("epo, 8 MiB", "epo", open.clone(), Reads::None),
        case("bplru, 8 MiB, no padding", "bplru", open.clone(), Reads::None),
        case("idle-cold, 8 MiB", "idle-cold", open.clone(), Reads::None),
        case("half reads", "none", open.clone(), Reads::Half),
        case("window 20, C-LOOK", "none", RunOptions::default(), Reads::None),
        case("the same, seldom full", "none", RunOptions::default(), Reads::Unsaid),
        case("closed loop, 32", "none", with(IssueMode::ClosedLoop(32)), Reads::None),
        controller("controller, reads", Reads::All),
        controller("controller, writes", Reads::None),
    ]
}

/// The reference drive; for a controller, 64 elements with program units of 32 KiB and a write cache.
fn spec(case: &Case) -> Spec {
    if !case.controller {
        return Spec::default();
    }
    let options = [
        ("write_cache", 2_097_152.into()),
        ("program_unit", 32_768.into()),
        ("flash_page", 16_384.into()),
        ("flash_channels", 8.into()),
        ("flash_channel_mb_s", 800.into()),
        ("link_mb_s", 3200.into()),
    ];
    Spec {
        elements: 64,
        dies: 1,
        planes: 2,
        blocks_per_plane: 256,
        pages_per_block: 256,
        reserve: 0.15,
        min_free: 0.02,
        program_ps: 600_000_000,
        endurance: 0,
        controller: Controller::of(options).expect("options that can be"),
        ..Spec::default()
    }
}

fn drive_of(case: &Case) -> Drive {
    let mut drive = Drive::new(&spec(case), u64::MAX).expect("a drive");
    if case.controller && case.reads == Reads::None {
        let how = Preconditioning::default();
        precondition(&mut drive, &how, &mut || true).expect("a steady state");
    }
    drive
}

fn policy(name: &str, spec: &Spec) -> Option<WriteBuffer> {
    if name == "none" {
        return None;
    }
    let layout = Layout { elements: spec.elements, pages_per_block: spec.pages_per_block, pages: spec.pages() };
    let settings = Settings::new(layout, 2048);
    Some(WriteBuffer {
        policy: make(name, &settings).expect("a policy"),
        mode: BufferMode::Reshape,
        pad_reads: true,
        destager: None,
    })
}

/// Millions of requests a second.
fn rate(case: &Case, requests: u64, workers: &dyn Workers) -> f64 {
    let mut drive = drive_of(case);
    // Once unmeasured, so that the system has granted the tables' memory.
    load(case, &mut drive, requests, workers);
    let begin = Instant::now();
    load(case, &mut drive, requests, workers);
    requests as f64 / begin.elapsed().as_secs_f64() / 1e6
}

fn load(case: &Case, drive: &mut Drive, requests: u64, workers: &dyn Workers) {
    let spec = drive.spec().clone();
    let mut source = Uniform {
        chance: SplitMix64(1),
        left: requests,
        pages: spec.pages(),
        gap_ns: if case.reads == Reads::Unsaid { 50_000 } else { 20_000 },
        at_ns: 0,
        reads: case.reads,
    };
    let buffer = policy(case.policy, &spec);
    run_with(drive, &mut source, buffer, &case.options, workers).expect("a run");
}

/// Instructions a request, by valgrind; the reason why there is no number.
fn instructions(case: &Case) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let count = |requests: u64| -> Result<u64, String> {
        let output = Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
            .arg(&program)
            .env("COUNTED", case.name)
            .env("REQUESTS", requests.to_string())
            .output()
            .map_err(|error| format!("valgrind: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let (_, number) = text.lines().find_map(|line| line.split_once("refs:")).unwrap_or_default();
        number.trim().replace(',', "").parse().map_err(|_| format!("valgrind said {text}"))
    };
    // The difference leaves out the start, and the making of the drive.
    let (few, many) = (100_000, 300_000);
    Ok((count(many)? as f64 - count(few)? as f64) / (many - few) as f64)
}

/// Random updates of a table of 4-byte entries, each of which leads to a second update at a place that it names;
/// millions a second.
fn limit(entries: usize, updates: u64) -> f64 {
    let mut table: Vec<u32> = (0..entries as u32).map(|entry| entry.wrapping_mul(2_654_435_761)).collect();
    let mut chance = SplitMix64(2);
    let begin = Instant::now();
    for _ in 0..updates {
        let place = chance.below(entries as u32) as usize;
        table[place] = table[place].wrapping_add(0x9e37_79b9);
        let second = ((u64::from(table[place]) * entries as u64) >> 32) as usize;
        table[second] = table[second].wrapping_add(1);
    }
    std::hint::black_box(&table);
    updates as f64 / begin.elapsed().as_secs_f64() / 1e6
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if let Ok(name) = std::env::var("COUNTED") {
        let requests = std::env::var("REQUESTS").expect("a number").parse();
        let cases = cases();
        let case = cases.iter().find(|case| case.name == name).expect("a case");
        let mut drive = drive_of(case);
        return load(case, &mut drive, requests.expect("a number"), &OneThread);
    }
    compare();
}

fn compare() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let requests = numbers.next().unwrap_or(2) * 1_000_000;
    let rounds = numbers.next().unwrap_or(5);
    let only = std::env::var("ONLY").unwrap_or_default();
    let spec = Spec::default();
    println!(
        "{} elements, {:.1} million pages, {:.1} bytes of memory a page; {} million requests, median of {rounds}",
        spec.elements,
        f64::from(spec.pages()) / 1e6,
        spec.memory_bytes() as f64 / f64::from(spec.pages()),
        requests / 1_000_000
    );
    let entries = spec.pages() as usize;
    let cases = cases();
    let wanted = || cases.iter().filter(|case| case.name.contains(&only));
    println!("shares of the limit measured beside each round: random updates, each with a dependent one");
    for case in wanted() {
        let (mut rates, mut shares) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let rate = rate(case, requests, &OneThread);
            rates.push(rate);
            shares.push(rate / limit(entries, requests));
        }
        println!(
            "{:<28} {:7.2} M/s  {:.2} ({:.2} to {:.2}) of the limit",
            case.name,
            median(&mut rates),
            median(&mut shares),
            shares[0],
            shares[shares.len() - 1],
        );
    }
    for case in wanted().filter(|case| case.is_shared()) {
        let ratio = || rate(case, requests, &Threads(2)) / rate(case, requests, &OneThread);
        println!(
            "{:<28} {:7.2} times as fast by two threads",
            case.name,
            median(&mut (0..rounds).map(|_| ratio()).collect::<Vec<_>>())
        );
    }
    for case in wanted() {
        match instructions(case) {
            Ok(count) => println!("{:<28} {count:7.0} instructions a request", case.name),
            Err(reason) => return println!("no instructions counted: {reason}"),
        }
    }
}
