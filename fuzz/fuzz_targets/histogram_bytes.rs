//! Any bytes as a pickled histogram: an error, or a histogram whose every answer is safe to ask.

#![no_main]

use ioassay_stats::Histogram;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The mark is given, so that the fuzzer need not guess it.
    let Ok(mut histogram) = Histogram::from_bytes(&[b"ioh1", bytes].concat()) else {
        return;
    };
    let _ = (histogram.value_at_quantile(0.9), histogram.quantile_interval(0.9, 0.9));
    let _ = (histogram.moments().stddev(), histogram.buckets().count());
    histogram.merge(&histogram.clone());
    histogram.record_n(1 << 60, 1 << 60);
    assert_eq!(Histogram::from_bytes(&histogram.to_bytes()).map(|again| again.count()), Ok(histogram.count()));
});
