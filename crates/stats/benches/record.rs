//! Why the histogram is our own: recording beside the `hdrhistogram` crate of the same precision.

use std::hint::black_box;
use std::time::Instant;

use ioassay_stats::Histogram;

const VALUES: usize = 100_000;
const ROUNDS: usize = 200;

/// Latencies from 40 to 170 µs, by a fixed linear congruence.
fn latencies_ns() -> Vec<u64> {
    let mut state = 1_u64;
    (0..VALUES)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            40_000 + (state >> 47)
        })
        .collect()
}

fn main() {
    let values = latencies_ns();
    report("ioassay, with exact moments", || {
        let mut histogram = Histogram::new();
        for batch in black_box(&values).chunks(512) {
            histogram.record_all(batch);
        }
        black_box(histogram);
    });
    report("hdrhistogram, without moments", || {
        let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("3 digits are allowed");
        for &value in black_box(&values) {
            histogram.saturating_record(value);
        }
        black_box(histogram);
    });
}

/// The best of many rounds.
fn report(name: &str, mut round: impl FnMut()) {
    let seconds = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        round();
        begun.elapsed().as_secs_f64()
    });
    let rate = VALUES as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e6;
    println!("{rate:7.1} M values/s  {name}");
}
