//! The histogram against the exact answer from sorted values.

use ioassay_stats::{Error, Histogram, RELATIVE_BUCKET_WIDTH, percentile, percentile_interval};
use proptest::prelude::*;

/// Values of all magnitudes, many of them equal.
fn values() -> impl Strategy<Value = Vec<u64>> {
    let any_size = (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
    prop::collection::vec(prop_oneof![any_size, Just(250), 90_000_u64..91_000], 1..300)
}

fn of(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    histogram.record_all(values);
    histogram
}

fn floats(values: &[u64]) -> Vec<f64> {
    values.iter().map(|&value| value as f64).collect()
}

/// Half a bucket, and one for the rounding of its middle.
fn slack(exact: f64) -> f64 {
    exact * RELATIVE_BUCKET_WIDTH / 2.0 + 1.0
}

#[test]
fn an_empty_histogram_answers_nothing() {
    let empty = Histogram::new();
    assert_eq!(empty.value_at_quantile(0.5), Err(Error::Empty("quantile")));
    assert!(empty.quantile_interval(0.5, 0.95).is_err());
    assert_eq!((empty.buckets().count(), empty.count()), (0, 0));
}

#[test]
fn one_value_is_every_quantile() {
    let one = of(&[123_456_789]);
    for q in [0.0, 0.3, 1.0] {
        assert_eq!(one.value_at_quantile(q), Ok(123_456_789.0));
    }
}

#[test]
fn quantiles_of_multiples_are_values_that_occur() {
    let sizes = [512, 4096, 8192, 1_044_480, 1 << 40];
    let histogram = of(&sizes);
    assert_eq!(histogram.value_at_quantile(0.25), Ok(4097.0));
    for (rank, &size) in sizes.iter().enumerate() {
        assert_eq!(histogram.multiple_at_quantile(rank as f64 / 4.0, 512), Ok(size as f64));
    }
    assert_eq!(of(&[0, 0]).multiple_at_quantile(0.5, 0), Ok(0.0));
}

#[test]
fn questions_that_cannot_be_are_refused() {
    let one = of(&[1]);
    for q in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let refused = one.value_at_quantile(q);
        assert!(matches!(refused, Err(Error::Quantile(_))), "{q}");
    }
    for confidence in [0.0, 1.0, -1.0, f64::NAN, 95.0] {
        let refused = one.quantile_interval(0.5, confidence);
        assert!(matches!(refused, Err(Error::Confidence(_))));
    }
    assert!(Histogram::from_buckets(&[1, 2], &[1]).is_err());
}

#[test]
fn buckets_beyond_every_count_are_counted_apart() {
    let mut histogram = Histogram::from_buckets(&[5, 7], &[u64::MAX, 4]).unwrap();
    histogram.merge(&of(&[1, 2]));
    assert_eq!(histogram.count(), u64::MAX);
    assert_eq!(histogram.moments().uncounted(), 6);
    assert_eq!(histogram.value_at_quantile(1.0), Ok(5.0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quantiles_agree_with_the_sorted_values(values in values(), q in 0.0..=1.0) {
        let exact = percentile(&floats(&values), q).unwrap();
        let binned = of(&values).value_at_quantile(q).unwrap();
        prop_assert!((binned - exact).abs() <= slack(exact), "{} against {}", binned, exact);
    }

    #[test]
    fn the_ends_are_exact(values in values()) {
        let histogram = of(&values);
        let ends = (histogram.value_at_quantile(0.0), histogram.value_at_quantile(1.0));
        let exact = (values.iter().min().unwrap(), values.iter().max().unwrap());
        prop_assert!((ends.0.unwrap() - *exact.0 as f64).abs() <= slack(*exact.0 as f64));
        prop_assert!((ends.1.unwrap() - *exact.1 as f64).abs() <= slack(*exact.1 as f64));
        prop_assert_eq!((histogram.moments().min(), histogram.moments().max()), (Some(*exact.0), Some(*exact.1)));
    }

    #[test]
    fn intervals_hold_those_of_the_sorted_values(
        values in values(), q in 0.0..=1.0, confidence in 0.5..0.999,
    ) {
        let (low, high) = percentile_interval(&floats(&values), q, confidence).unwrap();
        let (low_edge, high_edge) = of(&values).quantile_interval(q, confidence).unwrap();
        prop_assert!(low_edge <= low && high <= high_edge);
        prop_assert!(low.is_infinite() || low - low_edge <= 2.0 * slack(low));
        prop_assert!(high.is_infinite() || high_edge - high <= 2.0 * slack(high));
    }

    #[test]
    fn merging_equals_recording_all(left in values(), right in values(), n in 1_u64..5) {
        let mut merged = of(&left);
        merged.merge(&of(&right));
        let mut all = Histogram::new();
        for &value in left.iter().chain(&right) {
            all.record(value);
        }
        prop_assert_eq!(merged.buckets().collect::<Vec<_>>(), all.buckets().collect::<Vec<_>>());
        prop_assert_eq!(merged.moments().sum(), all.moments().sum());
        merged.record_n(7, n);
        for _ in 0..n {
            all.record(7);
        }
        prop_assert_eq!(merged.value_at_quantile(0.4), all.value_at_quantile(0.4));
    }

    #[test]
    fn buckets_make_the_same_histogram_again(values in values()) {
        let histogram = of(&values);
        let (middles, counts): (Vec<u64>, Vec<u64>) =
            histogram.buckets().map(|bucket| (bucket.value, bucket.count)).unzip();
        let again = Histogram::from_buckets(&middles, &counts).unwrap();
        prop_assert_eq!(again.buckets().collect::<Vec<_>>(), histogram.buckets().collect::<Vec<_>>());
        let (mean, true_mean) = (again.moments().mean().unwrap(), histogram.moments().mean().unwrap());
        prop_assert!((mean - true_mean).abs() <= slack(true_mean));
    }
}
