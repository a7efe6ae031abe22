//! How many page writes a second the drive takes, beside what memory allows: random updates of a
//! table of the same size, and the same with a dependent second update, in the same run.
//!
//! `cargo bench -p ioassay-sim --bench drive [-- MILLIONS [ROUNDS]]`

use std::time::Instant;

use ioassay_block::{BATCH, Error, Kind, Request, Source};
use ioassay_sim::drive::{Drive, Spec};
use ioassay_sim::engine::{BufferMode, IssueMode, RunOptions, Scheduler, WriteBuffer, run};
use ioassay_sim::policy::{Layout, Settings, make};

/// Splitmix64 (Steele, Lea and Flood 2014): good enough for addresses, and as fast as memory needs.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, by Lemire's multiplication.
    fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// Uniform 4 KiB requests at fixed gaps.
struct Uniform {
    chance: Chance,
    left: u64,
    pages: u32,
    gap_ns: u64,
    at_ns: u64,
    reads: bool,
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
                kind: if self.reads && page % 2 == 0 {
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
        !self.reads
    }
}

struct Case {
    name: &'static str,
    policy: &'static str,
    options: RunOptions,
    reads: bool,
}

fn cases() -> Vec<Case> {
    let open = RunOptions {
        window: None,
        scheduler: Scheduler::Fcfs,
        ..RunOptions::default()
    };
    let with = |issue_mode| RunOptions {
        issue_mode,
        ..open.clone()
    };
    let case = |name, policy, options, reads| Case {
        name,
        policy,
        options,
        reads,
    };
    vec![
        case("no buffer", "none", open.clone(), false),
        case("lru, 8 MiB", "lru", open.clone(), false),
        case("epo, 8 MiB", "epo", open.clone(), false),
        case("bplru, 8 MiB, no padding", "bplru", open.clone(), false),
        case("idle-cold, 8 MiB", "idle-cold", open.clone(), false),
        case("half reads", "none", open.clone(), true),
        case("window 20, C-LOOK", "none", RunOptions::default(), false),
        case(
            "closed loop, 32",
            "none",
            with(IssueMode::ClosedLoop(32)),
            false,
        ),
    ]
}

fn policy(name: &str, spec: &Spec) -> Option<WriteBuffer> {
    if name == "none" {
        return None;
    }
    let layout = Layout {
        elements: spec.elements,
        pages_per_block: spec.pages_per_block,
        pages: spec.pages(),
    };
    let settings = Settings::new(layout, 2048);
    Some(WriteBuffer {
        policy: make(name, &settings).expect("a policy"),
        mode: BufferMode::Reshape,
        pad_reads: true,
        destager: None,
    })
}

/// Millions of requests a second.
fn rate(case: &Case, requests: u64) -> f64 {
    let spec = Spec::default();
    let mut drive = Drive::new(&spec, u64::MAX).expect("a drive");
    let source = |requests| Uniform {
        chance: Chance(1),
        left: requests,
        pages: spec.pages(),
        gap_ns: 20_000,
        at_ns: 0,
        reads: case.reads,
    };
    // Once unmeasured, so that the system has granted the tables' memory.
    for warm_up in [true, false] {
        let begin = Instant::now();
        run(
            &mut drive,
            &mut source(requests),
            policy(case.policy, &spec),
            &case.options,
        )
        .expect("a run");
        if !warm_up {
            return requests as f64 / begin.elapsed().as_secs_f64() / 1e6;
        }
    }
    unreachable!()
}

/// Random updates of a table of 4-byte entries, millions a second; `dependent`: each leads to a
/// second update at a place that it names.
fn limit(entries: usize, updates: u64, dependent: bool) -> f64 {
    let mut table: Vec<u32> = (0..entries as u32)
        .map(|entry| entry.wrapping_mul(2_654_435_761))
        .collect();
    let mut chance = Chance(2);
    let begin = Instant::now();
    for _ in 0..updates {
        let place = chance.below(entries as u32) as usize;
        table[place] = table[place].wrapping_add(0x9e37_79b9);
        if dependent {
            let second = ((u64::from(table[place]) * entries as u64) >> 32) as usize;
            table[second] = table[second].wrapping_add(1);
        }
    }
    std::hint::black_box(&table);
    updates as f64 / begin.elapsed().as_secs_f64() / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
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
    let limits: Vec<f64> = [false, true]
        .map(|dependent| {
            median(
                (0..rounds)
                    .map(|_| limit(entries, requests, dependent))
                    .collect(),
            )
        })
        .to_vec();
    println!("{:<28} {:7.2} M/s", "limit: random update", limits[0]);
    println!(
        "{:<28} {:7.2} M/s",
        "limit: with a dependent one", limits[1]
    );
    for case in cases().iter().filter(|case| case.name.contains(&only)) {
        let rate = median((0..rounds).map(|_| rate(case, requests)).collect());
        println!(
            "{:<28} {rate:7.2} M/s  {:5.1} % of the update limit, {:5.1} % of the dependent one",
            case.name,
            100.0 * rate / limits[0],
            100.0 * rate / limits[1]
        );
    }
}
