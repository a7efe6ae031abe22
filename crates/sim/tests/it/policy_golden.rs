//! Exact hits and evictions of every write buffer on fixed sequences. A change here is a change of
//! a policy's rule: say so in `docs/policies.md`. The counts are in `policy_golden.tsv`.

use ioassay_sim::policy::{Access, Action, DriveState, Layout, POLICIES, Settings, belady::OfflineOptimum};

const LAYOUT: Layout = Layout { elements: 48, pages_per_block: 64, pages: 1 << 16 };
const CAPACITY: usize = 512;
const WRITES: usize = 50_000;

/// Knuth's MMIX congruence, upper bits.
fn random() -> impl FnMut(u64) -> u64 {
    let (factor, summand) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
    let mut state = 20_261_121_u64;
    move |below| {
        state = state.wrapping_mul(factor).wrapping_add(summand);
        ((state >> 33) * below) >> 31
    }
}

/// Uniform; two thirds to a thousandth of the drive; hot pages between runs of cold ones.
fn sequences() -> [(&'static str, Vec<u32>); 3] {
    let mut next = random();
    let uniform = (0..WRITES).map(|_| next(1 << 16) as u32).collect();
    let skewed = (0..WRITES).map(|_| {
        let below = if next(3) < 2 { 700 } else { 1 << 16 };
        (next(below) * 37) as u32 % LAYOUT.pages
    });
    let skewed = skewed.collect();
    let scans = (0..WRITES as u32).map(|at| match at % 4 {
        0 => (next(300) * 211) as u32 % LAYOUT.pages,
        _ => at.wrapping_mul(3) / 4 % LAYOUT.pages,
    });
    [("uniform", uniform), ("skewed", skewed), ("scans", scans.collect())]
}

/// Hits, pages written, pages read for padding.
fn run(name: &str, padding: bool, pages: &[u32]) -> [u64; 3] {
    let entry = POLICIES.iter().find(|entry| entry.name == name).unwrap();
    let settings = Settings { padding, ..Settings::new(LAYOUT, CAPACITY) };
    let mut policy = entry.build(&settings).unwrap();
    let mut evicted = Vec::new();
    let mut hits = 0;
    for (now, &page) in (0_u64..).zip(pages) {
        // An arrival every 10 µs: 31 of 48 elements busy.
        let drive_state = DriveState { now_ps: now * 10_000_000, free_at_ps: &[] };
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

#[test]
fn counts_are_what_they_were() {
    let mut seen = vec!["sequence	policy	hits	written	read".to_owned()];
    for (what, pages) in sequences() {
        let mut saw = |policy, [hits, written, read]: [u64; 3]| {
            seen.push(format!("{what}	{policy}	{hits}	{written}	{read}"));
        };
        for entry in POLICIES {
            saw(entry.name, run(entry.name, false, &pages));
        }
        saw("bplru, padded", run("bplru", true, &pages));
        let mut optimum = OfflineOptimum::new(CAPACITY, LAYOUT.pages);
        for &page in &pages {
            optimum.write(page);
        }
        saw("optimum", [optimum.hits(), 0, 0]);
    }
    let golden: Vec<&str> = include_str!("policy_golden.tsv").lines().collect();
    assert_eq!(seen, golden);
}
