//! Percentiles and order-statistic intervals against published values and simulation.

use ioassay_stats::{Error, OrderRanks, order_ranks, percentile, percentile_interval, percentiles};
use proptest::prelude::*;

#[test]
fn percentiles_are_those_of_numpy_and_excel() {
    // numpy.percentile([15, 20, 35, 40, 50], [5, 30, 40, 50, 100]), and PERCENTILE.INC.
    let samples = [50.0, 15.0, 35.0, 40.0, 20.0];
    let expected = [16.0, 23.0, 29.0, 35.0, 50.0];
    let found = percentiles(&samples, &[0.05, 0.3, 0.4, 0.5, 1.0]).unwrap();
    for (found, expected) in found.iter().zip(expected) {
        let off = (found - expected).abs();
        assert!(off < 1e-12, "{found} against {expected}");
    }
}

#[test]
fn samples_that_cannot_be_ordered_are_refused() {
    assert_eq!(percentile(&[], 0.5), Err(Error::Empty("quantile")));
    let no_number = Err(Error::NotANumber { index: 1 });
    assert_eq!(percentile(&[1.0, f64::NAN], 0.5), no_number);
    assert_eq!(percentile(&[1.0], 1.5), Err(Error::Quantile(1.5)));
    assert_eq!(percentile(&[f64::INFINITY, 1.0], 1.0), Ok(f64::INFINITY));
}

fn ranks(count: u64, q: f64, confidence: f64) -> (Option<u64>, Option<u64>) {
    let OrderRanks { low, high } = order_ranks(count, q, confidence).unwrap();
    (low, high)
}

#[test]
fn ranks_of_the_median_are_the_published_ones() {
    // Conover, "Practical Nonparametric Statistics", table A3 by the sign test: 95 % or just more.
    for (count, low, high) in [(6, 1, 6), (10, 2, 9), (15, 4, 12), (20, 6, 15), (25, 8, 18)] {
        assert_eq!(ranks(count, 0.5, 0.95), (Some(low), Some(high)));
    }
    assert_eq!(ranks(5, 0.5, 0.95), (None, None));
}

#[test]
fn a_high_quantile_of_few_samples_has_no_upper_bound() {
    // All n samples lie below the quantile q with probability q^n: 0.99^367 is above 2.5 %, and 0.99^368 below.
    assert_eq!(ranks(367, 0.99, 0.95).1, None);
    assert_eq!(ranks(368, 0.99, 0.95).1, Some(368));
    let samples: Vec<f64> = (0..100).map(f64::from).collect();
    let (low, high) = percentile_interval(&samples, 0.99, 0.95).unwrap();
    assert!(low.is_finite() && high == f64::INFINITY);
}

#[test]
fn the_ends_of_the_distribution_are_bounded_on_one_side_only() {
    assert_eq!(ranks(9, 0.0, 0.9), (None, Some(1)));
    assert_eq!(ranks(9, 1.0, 0.9), (Some(9), None));
}

#[test]
fn the_approximation_continues_the_exact_ranks() {
    // scipy.stats.binom(n, q).ppf of 0.025 and 0.975 for n where the variance passes a million.
    for (count, q) in [(4_000_000, 0.5), (5_000_000, 0.5), (12_000_000, 0.9), (200_000_000, 0.995)] {
        let (low, high) = ranks(count, q, 0.95);
        let (mean, deviation) = (count as f64 * q, (count as f64 * q * (1.0 - q)).sqrt());
        for (rank, side) in [(low, -1.959_964), (high, 1.959_964)] {
            let off = rank.unwrap() as f64 - (mean + side * deviation);
            assert!(off.abs() < 3.0, "{count} {rank:?}");
        }
    }
}

#[test]
fn intervals_of_simulated_samples_cover_the_truth() {
    // Uniform samples by a linear congruence (Knuth's MMIX constants), seed 1: the quantile is q.
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005);
        state = state.wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for (count, q) in [(40, 0.5), (60, 0.9), (500, 0.99)] {
        let covers = |_: &i32| {
            let samples: Vec<f64> = (0..count).map(|_| uniform()).collect();
            let (low, high) = percentile_interval(&samples, q, 0.95).unwrap();
            low <= q && q <= high
        };
        let covered = (0..2000).filter(covers).count();
        // Discrete ranks cover a little more than 95 %; 2000 runs are good to 1 %.
        assert!((1880..=1990).contains(&covered), "{count}, {q}: {covered}");
    }
}

/// P(B <= k) of the binomial (n, q), by summing logarithms.
fn binomial_cdf(k: u64, n: u64, q: f64) -> f64 {
    let mut log_term = n as f64 * (1.0 - q).ln();
    let mut sum = 0.0;
    for i in 0..=k {
        sum += log_term.exp();
        log_term += ((n - i) as f64 / (i + 1) as f64 * q / (1.0 - q)).ln();
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranks_cover_as_much_as_asked_and_no_rank_more(
        count in 1_u64..300, q in 0.02..0.98, confidence in 0.5..0.999,
    ) {
        let tail = (1.0 - confidence) / 2.0 * (1.0 + 1e-9);
        let OrderRanks { low, high } = order_ranks(count, q, confidence).unwrap();
        let below = |rank: u64| if rank == 0 { 0.0 } else { binomial_cdf(rank - 1, count, q) };
        let low = low.unwrap_or(0);
        prop_assert!(below(low) <= tail, "low {}", low);
        prop_assert!(below(low + 1) > tail * 0.999_999, "low {} could be higher", low);
        if let Some(high) = high {
            prop_assert!(1.0 - below(high) <= tail + 1e-12, "high {}", high);
            prop_assert!(high == 1 || 1.0 - below(high - 1) > tail * 0.999_999 - 1e-12);
        } else {
            prop_assert!(1.0 - below(count) > tail * 0.999_999 - 1e-12);
        }
    }
}
