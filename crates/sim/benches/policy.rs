//! How many page writes a second each write buffer takes, beside what the memory allows.
//!
//! Prints, asserts nothing. The limit is what any buffer must do at least: update one place of a
//! table of its size at random, for each write.

use std::hint::black_box;
use std::time::Instant;

use ioassay_sim::policy::{DriveState, Layout, POLICIES, Page, Settings};

const WRITES: usize = 1 << 22;
const CAPACITY: usize = 2048;
const ROUNDS: usize = 3;
const LAYOUT: Layout = Layout {
    elements: 48,
    pages_per_block: 64,
    pages: 48 * 877_464,
};

/// Numbers of 32 bits, by a fixed linear congruence.
fn random() -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    }
}

fn uniform() -> Vec<Page> {
    let mut next = random();
    let pages = u64::from(LAYOUT.pages);
    (0..WRITES)
        .map(|_| ((next() * pages) >> 32) as Page)
        .collect()
}

/// Rank `r` about as often as `1 / r`: a uniform number in the exponent; ranks are strewn over the
/// drive.
fn zipf_like() -> Vec<Page> {
    let mut next = random();
    let decades = f64::from(LAYOUT.pages).ln();
    let mut page = || {
        let rank = (next() as f64 / 4_294_967_296.0 * decades).exp() as u32;
        rank.wrapping_mul(0x9e37_79b1) % LAYOUT.pages
    };
    (0..WRITES).map(|_| page()).collect()
}

/// Best of a few rounds, in millions a second.
fn rate(mut round: impl FnMut()) -> f64 {
    let seconds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed().as_secs_f64()
    });
    WRITES as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e6
}

fn limit(pages: &[Page], kib: usize) -> f64 {
    let mut table = vec![0_u32; kib * 256];
    let mask = table.len() - 1;
    rate(|| {
        for &page in black_box(pages) {
            let place = (page.wrapping_mul(0x9e37_79b1) >> 8) as usize & mask;
            table[place] = table[place].wrapping_add(page);
        }
        black_box(&table);
    })
}

fn measure(name: &str, pages: &[Page], limit: f64) {
    let settings = Settings::new(LAYOUT, CAPACITY);
    let entry = POLICIES.iter().find(|entry| entry.name == name);
    let mut policy = entry
        .expect("it is in the list")
        .build(&settings)
        .expect("it can be built");
    let drive_state = DriveState {
        now_ps: 0,
        free_at_ps: &[],
    };
    let mut evicted = Vec::new();
    let mut left = 0;
    let rate = rate(|| {
        left = 0;
        for batch in black_box(pages).chunks(256) {
            for &page in batch {
                policy.write(page, &drive_state, &mut evicted);
            }
            left += evicted.len();
            evicted.clear();
        }
    });
    let hits = 100.0 - left as f64 / pages.len() as f64 * 100.0;
    let share = rate / limit * 100.0;
    println!(
        "  {name:<10} {rate:8.1} M writes/s   {share:5.1} % of the limit   not evicted {hits:6.2} %"
    );
}

fn main() {
    for (what, pages) in [("uniform", uniform()), ("zipf-like", zipf_like())] {
        println!("{what}, {CAPACITY} pages of {}", LAYOUT.pages);
        let large = limit(&pages, 64);
        println!("  random updates of  8 KiB {:8.1} M/s", limit(&pages, 8));
        println!("  random updates of 64 KiB {large:8.1} M/s: the limit");
        for entry in POLICIES {
            measure(entry.name, &pages, large);
        }
    }
}
