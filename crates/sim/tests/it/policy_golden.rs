//! Exact hits and evictions of every write buffer on fixed sequences. A change here is a change of
//! a policy's rule: say so in `docs/policies.md`.

use ioassay_sim::policy::{
    Access, Action, DriveState, Layout, POLICIES, Settings, belady::OfflineOptimum,
};

const LAYOUT: Layout = Layout {
    elements: 48,
    pages_per_block: 64,
    pages: 1 << 16,
};
const CAPACITY: usize = 512;
const WRITES: usize = 50_000;

/// Knuth's MMIX congruence, upper bits.
fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 20_261_121_u64;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) * below) >> 31
    }
}

/// Uniform; two thirds to a thousandth of the drive; hot pages between runs of cold ones.
fn sequences() -> [(&'static str, Vec<u32>); 3] {
    let mut next = random();
    let uniform = (0..WRITES).map(|_| next(1 << 16) as u32).collect();
    let skewed = (0..WRITES)
        .map(|_| {
            let below = if next(3) < 2 { 700 } else { 1 << 16 };
            (next(below) * 37) as u32 % LAYOUT.pages
        })
        .collect();
    let scans = (0..WRITES as u32)
        .map(|at| match at % 4 {
            0 => (next(300) * 211) as u32 % LAYOUT.pages,
            _ => at.wrapping_mul(3) / 4 % LAYOUT.pages,
        })
        .collect();
    [("uniform", uniform), ("skewed", skewed), ("scans", scans)]
}

/// Hits, pages written, pages read for padding.
fn run(name: &str, padding: bool, pages: &[u32]) -> [u64; 3] {
    let entry = POLICIES.iter().find(|entry| entry.name == name).unwrap();
    let settings = Settings {
        padding,
        ..Settings::new(LAYOUT, CAPACITY)
    };
    let mut policy = entry.build(&settings).unwrap();
    let mut evicted = Vec::new();
    let mut hits = 0;
    for (now, &page) in (0_u64..).zip(pages) {
        // An arrival every 10 µs: 31 of 48 elements busy.
        let drive_state = DriveState {
            now_ps: now * 10_000_000,
            free_at_ps: &[],
        };
        hits += u64::from(policy.write(page, &drive_state, &mut evicted) == Access::Hit);
    }
    policy.drain(&mut evicted);
    let (mut written, mut read) = (0, 0);
    for eviction in &evicted {
        match eviction.action {
            Action::PadRead => read += u64::from(eviction.pages),
            Action::Write | Action::PadWrite => written += u64::from(eviction.pages),
        }
    }
    [hits, written, read]
}

const GOLDEN: &[(&str, &str, [u64; 3])] = &[
    ("uniform", "none", [0, 50_000, 0]),
    ("uniform", "fifo", [398, 49_602, 0]),
    ("uniform", "lru", [398, 49_602, 0]),
    ("uniform", "clock", [397, 49_603, 0]),
    ("uniform", "sieve", [396, 49_604, 0]),
    ("uniform", "s3-fifo", [394, 49_606, 0]),
    ("uniform", "arc", [399, 49_601, 0]),
    ("uniform", "bplru", [368, 49_632, 0]),
    ("uniform", "fab", [385, 49_615, 0]),
    ("uniform", "epo", [418, 49_582, 0]),
    ("uniform", "epo-all", [396, 49_604, 0]),
    ("uniform", "idle-cold", [380, 49_620, 0]),
    ("uniform", "bplru, padded", [368, 2_137_280, 2_087_648]),
    ("uniform", "optimum", [5_571, 0, 0]),
    ("skewed", "none", [0, 50_000, 0]),
    ("skewed", "fifo", [13_463, 36_537, 0]),
    ("skewed", "lru", [14_869, 35_131, 0]),
    ("skewed", "clock", [15_861, 34_139, 0]),
    ("skewed", "sieve", [23_139, 26_861, 0]),
    ("skewed", "s3-fifo", [22_301, 27_699, 0]),
    ("skewed", "arc", [23_548, 26_452, 0]),
    ("skewed", "bplru", [14_763, 35_237, 0]),
    ("skewed", "fab", [11_880, 38_120, 0]),
    ("skewed", "epo", [14_584, 35_416, 0]),
    ("skewed", "epo-all", [13_963, 36_037, 0]),
    ("skewed", "idle-cold", [17_820, 32_180, 0]),
    ("skewed", "bplru, padded", [14_763, 1_530_944, 1_495_707]),
    ("skewed", "optimum", [30_620, 0, 0]),
    ("scans", "none", [0, 50_000, 0]),
    ("scans", "fifo", [4_046, 45_954, 0]),
    ("scans", "lru", [4_632, 45_368, 0]),
    ("scans", "clock", [5_110, 44_890, 0]),
    ("scans", "sieve", [11_585, 38_415, 0]),
    ("scans", "s3-fifo", [11_665, 38_335, 0]),
    ("scans", "arc", [11_807, 38_193, 0]),
    ("scans", "bplru", [4_210, 45_790, 0]),
    ("scans", "fab", [12_205, 37_795, 0]),
    ("scans", "epo", [4_661, 45_339, 0]),
    ("scans", "epo-all", [4_477, 45_523, 0]),
    ("scans", "idle-cold", [8_858, 41_142, 0]),
    ("scans", "bplru, padded", [4_210, 568_064, 522_274]),
    ("scans", "optimum", [12_378, 0, 0]),
];

#[test]
fn counts_are_what_they_were() {
    let mut seen = Vec::new();
    for (what, pages) in sequences() {
        for entry in POLICIES {
            seen.push((what, entry.name, run(entry.name, false, &pages)));
        }
        seen.push((what, "bplru, padded", run("bplru", true, &pages)));
        let mut optimum = OfflineOptimum::new(CAPACITY, LAYOUT.pages);
        for &page in &pages {
            optimum.write(page);
        }
        seen.push((what, "optimum", [optimum.hits(), 0, 0]));
    }
    assert_eq!(seen, GOLDEN);
}
