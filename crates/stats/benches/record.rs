//! Why the histogram is our own: recording beside the `hdrhistogram` crate of the same precision.

#![allow(
    missing_docs,
    reason = "criterion's macros write functions without any"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioassay_stats::Histogram;

const VALUES: usize = 100_000;

/// Latencies from 40 to 170 µs, by a fixed linear congruence.
fn latencies_ns() -> Vec<u64> {
    let mut state = 1_u64;
    (0..VALUES)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            40_000 + (state >> 47)
        })
        .collect()
}

fn recording(criterion: &mut Criterion) {
    let values = latencies_ns();
    let mut group = criterion.benchmark_group("record");
    group.throughput(Throughput::Elements(VALUES as u64));
    group.bench_function("ioassay, with exact moments", |bencher| {
        bencher.iter(|| {
            let mut histogram = Histogram::new();
            for batch in black_box(&values).chunks(512) {
                histogram.record_all(batch);
            }
            histogram
        });
    });
    group.bench_function("hdrhistogram, without moments", |bencher| {
        bencher.iter(|| {
            let mut histogram =
                hdrhistogram::Histogram::<u64>::new(3).expect("3 digits are allowed");
            for &value in black_box(&values) {
                histogram.saturating_record(value);
            }
            histogram
        });
    });
    group.finish();
}

criterion_group!(benches, recording);
criterion_main!(benches);
