//! How many page writes a second each write buffer takes, beside what the memory allows.
//!
//! Prints, asserts nothing. The limit is what any buffer must do at least: update one place of a
//! table of its size at random, for each write.
//!
//! With a file of page numbers, a line each, and sizes of buffers in pages, it prints for each policy
//! that has no options, and each size, the misses and the rate instead: `benches/cachesim.py` reads it.

use std::hint::black_box;
use std::time::Instant;

use ioassay_block::SplitMix64;
use ioassay_sim::policy::{DriveState, Entry, Layout, POLICIES, Page, Settings};

const WRITES: usize = 1 << 22;
const CAPACITY: usize = 2048;
const ROUNDS: usize = 3;
const LAYOUT: Layout = Layout { elements: 48, pages_per_block: 64, pages: 48 * 877_464 };

fn uniform() -> Vec<Page> {
    let mut chance = SplitMix64(1);
    (0..WRITES).map(|_| chance.below(LAYOUT.pages)).collect()
}

/// Rank `r` about as often as `1 / r`: a uniform number in the exponent; ranks are strewn over the drive.
fn zipf_like() -> Vec<Page> {
    let mut chance = SplitMix64(1);
    let decades = f64::from(LAYOUT.pages).ln();
    let mut page = || {
        let rank = ((chance.next() >> 32) as f64 / 4_294_967_296.0 * decades).exp() as u32;
        rank.wrapping_mul(0x9e37_79b1) % LAYOUT.pages
    };
    (0..WRITES).map(|_| page()).collect()
}

/// Best of a few rounds, in millions a second; `round` returns its seconds.
fn rate(writes: usize, round: impl FnMut(usize) -> f64) -> f64 {
    let seconds = (0..ROUNDS).map(round);
    writes as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e6
}

fn limit(pages: &[Page], kib: usize) -> f64 {
    let mut table = vec![0_u32; kib * 256];
    let mask = table.len() - 1;
    rate(pages.len(), |_| {
        let start = Instant::now();
        for &page in black_box(pages) {
            let place = (page.wrapping_mul(0x9e37_79b1) >> 8) as usize & mask;
            table[place] = table[place].wrapping_add(page);
        }
        black_box(&table);
        start.elapsed().as_secs_f64()
    })
}

/// Misses, and millions of writes a second.
fn replay(entry: &Entry, capacity: usize, pages: &[Page]) -> (usize, f64) {
    let drive_state = DriveState { now_ps: 0, free_at_ps: &[] };
    let mut evicted = Vec::new();
    let mut misses = 0;
    let rate = rate(pages.len(), |_| {
        let settings = Settings::new(LAYOUT, capacity);
        let mut policy = entry.build(&settings).expect("it can be built");
        let start = Instant::now();
        misses = 0;
        for batch in black_box(pages).chunks(256) {
            for &page in batch {
                policy.write(page, &drive_state, &mut evicted);
            }
            misses += evicted.len();
            evicted.clear();
        }
        let seconds = start.elapsed().as_secs_f64();
        misses += policy.len();
        seconds
    });
    (misses, rate)
}

/// Misses and rates on the pages of a file.
fn replay_file(file: &str, sizes: &[String]) {
    let text = std::fs::read_to_string(file).expect("the file of page numbers can be read");
    let number = |text: &str| text.parse::<Page>().expect("it is a number of pages");
    let pages: Vec<Page> = text.lines().map(number).collect();
    for size in sizes {
        let capacity = number(size) as usize;
        for entry in POLICIES.iter().filter(|entry| entry.options.is_empty()) {
            let (misses, rate) = replay(entry, capacity, &pages);
            println!("{} {capacity} {misses} {rate:.2}", entry.name);
        }
    }
}

fn main() {
    // Cargo adds an option of its own.
    let given: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let [file, sizes @ ..] = &given[..] {
        return replay_file(file, sizes);
    }
    for (what, pages) in [("uniform", uniform()), ("zipf-like", zipf_like())] {
        println!("{what}, {CAPACITY} pages of {}", LAYOUT.pages);
        let large = limit(&pages, 64);
        println!("  random updates of  8 KiB {:8.1} M/s", limit(&pages, 8));
        println!("  random updates of 64 KiB {large:8.1} M/s: the limit");
        for entry in POLICIES {
            let (misses, rate) = replay(entry, CAPACITY, &pages);
            let share = rate / large * 100.0;
            let hits = 100.0 - misses as f64 / pages.len() as f64 * 100.0;
            let name = entry.name;
            println!("  {name:<10} {rate:8.1} M writes/s   {share:5.1} % of the limit   hits {hits:6.2} %");
        }
    }
}
