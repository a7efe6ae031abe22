//! Exact moments against the two-pass formula and at the ends of their range.

use ioassay_stats::ExactMoments;
use proptest::prelude::*;

#[test]
fn nothing_has_no_moments() {
    let nothing = ExactMoments::new();
    assert_eq!((nothing.count(), nothing.min()), (0, None));
    assert_eq!(nothing.max(), None);
    assert_eq!((nothing.mean(), nothing.variance()), (None, None));
    assert_eq!(ExactMoments::of(&[7]).variance(), None);
}

#[test]
fn a_tiny_deviation_beside_a_huge_mean_is_exact() {
    let far = 1_u64 << 60;
    let moments = ExactMoments::of(&[far, far + 1, far + 2]);
    assert_eq!(moments.variance(), Some(1.0));
}

#[test]
fn squares_past_128_bits_stay_near_the_truth() {
    let mut moments = ExactMoments::new();
    moments.record_n(u64::MAX, 1 << 40);
    moments.record_n(0, 1 << 40);
    let half = u64::MAX as f64 / 2.0;
    assert!((moments.stddev().unwrap() / half - 1.0).abs() < 1e-9);
}

#[test]
fn counts_past_64_bits_are_told_and_not_wrapped() {
    let mut moments = ExactMoments::new();
    assert_eq!(moments.record_n(5, u64::MAX), u64::MAX);
    assert_eq!(moments.record_n(5, 3), 0);
    assert!(!moments.merge(&ExactMoments::of(&[1, 2])));
    assert_eq!((moments.count(), moments.uncounted()), (u64::MAX, 5));
    assert_eq!(moments.variance(), Some(0.0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_two_pass_formula(values in prop::collection::vec(0_u64..1 << 40, 2..200)) {
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| v as f64).sum::<f64>() / n;
        let squares = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>();
        let moments = ExactMoments::of(&values);
        prop_assert!((moments.mean().unwrap() - mean).abs() <= mean * 1e-12);
        prop_assert!((moments.variance().unwrap() - squares / (n - 1.0)).abs() <= squares * 1e-9);
    }

    #[test]
    fn merging_equals_recording_all(left: Vec<u64>, right: Vec<u64>) {
        let mut merged = ExactMoments::of(&left);
        merged.merge(&ExactMoments::of(&right));
        let all = ExactMoments::of(&[left, right].concat());
        prop_assert_eq!(merged.count(), all.count());
        prop_assert_eq!(merged.sum(), all.sum());
        prop_assert_eq!((merged.min(), merged.max()), (all.min(), all.max()));
        let (one, two) = (merged.stddev().unwrap_or(0.0), all.stddev().unwrap_or(0.0));
        prop_assert!((one - two).abs() <= two * 1e-6);
    }
}
