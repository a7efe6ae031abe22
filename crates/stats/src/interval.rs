//! Confidence interval of a quantile from order statistics, whatever the distribution.
//!
//! Of n independent samples the number below the true quantile q is binomial (n, q). So the interval from the order
//! statistic of rank l to that of rank u covers the quantile with probability P(l <= B < u) (David and Nagaraja, "Order
//! Statistics", 3rd edition, section 7.1; Hahn and Meeker, "Statistical Intervals", section 5.2). Each tail gets half
//! of the risk at most. Where n samples cannot bound a side at that confidence, the side has no rank: an honest
//! interval is then unbounded there.
//!
//! Samples of one run that follow each other are often correlated; the interval is then too short.
//! The caller decides what the independent unit is.

use crate::{Error, quantile::check_quantile};

/// Up to this variance of the binomial the probabilities are summed exactly, one by one; above, the normal
/// approximation with skewness correction is off by less than one rank in a thousand standard deviations.
const EXACT_VARIANCE: f64 = 1e6;

/// Terms smaller than this beside the largest change no rank at any confidence in use.
const NEGLIGIBLE: f64 = 1e-30;

/// Ranks (counted from 1) of the two order statistics that bound a quantile. A side that n samples
/// cannot bound has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderRanks {
    /// Rank of the lower bound.
    pub low: Option<u64>,
    /// Rank of the upper bound.
    pub high: Option<u64>,
}

/// Ranks that bound the quantile `q` of the population behind `count` independent samples with at
/// least the given confidence.
pub fn order_ranks(count: u64, q: f64, confidence: f64) -> Result<OrderRanks, Error> {
    check_quantile(q)?;
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(Error::Confidence(confidence));
    }
    if count == 0 {
        return Err(Error::Empty("quantile interval"));
    }
    let tail = (1.0 - confidence) / 2.0;
    let (below, reached) = if count as f64 * q * (1.0 - q) <= EXACT_VARIANCE {
        exact_tails(count, q, tail)
    } else {
        normal_tails(count, q, tail)
    };
    // X(l) is too high with probability P(B < l), X(u) too low with probability P(B >= u).
    Ok(OrderRanks { low: (below > 0).then_some(below), high: (reached < count).then(|| reached + 1) })
}

/// For B binomial (n, q): the largest l with P(B < l) <= tail, and the smallest k with P(B > k) <= tail.
fn exact_tails(count: u64, q: f64, tail: f64) -> (u64, u64) {
    let (first, weights) = binomial_weights(count, q);
    let allowed = tail * weights.iter().sum::<f64>();
    let steps_within = |weights: &mut dyn Iterator<Item = &f64>| {
        let mut passed = 0.0;
        weights
            .take_while(|&&weight| {
                passed += weight;
                passed <= allowed
            })
            .count() as u64
    };
    let from_below = steps_within(&mut weights.iter());
    let from_above = steps_within(&mut weights.iter().rev());
    let last = first + weights.len() as u64 - 1;
    (first + from_below, last.saturating_sub(from_above))
}

/// Probabilities of the binomial relative to the largest, from the first that is not negligible; returned with the
/// number it belongs to. Walking from the mode by the ratio of neighbours needs neither factorials nor logarithms.
fn binomial_weights(count: u64, q: f64) -> (u64, Vec<f64>) {
    let mode = (((count as f64 + 1.0) * q).floor() as u64).min(count);
    let odds = q / (1.0 - q);
    let down = std::iter::successors(Some((mode, 1.0)), |&(k, weight)| {
        (k > 0).then(|| (k - 1, weight * k as f64 / ((count - k + 1) as f64 * odds)))
    });
    let up = std::iter::successors(Some((mode, 1.0)), |&(k, weight)| {
        (k < count).then(|| (k + 1, weight * (count - k) as f64 * odds / (k + 1) as f64))
    });
    let mut weights: Vec<f64> =
        down.skip(1).map(|(_, weight)| weight).take_while(|&weight| weight > NEGLIGIBLE).collect();
    let first = mode - weights.len() as u64;
    weights.reverse();
    weights.extend(up.map(|(_, weight)| weight).take_while(|&weight| weight > NEGLIGIBLE));
    (first, weights)
}

/// The ranks of [`exact_tails`] from the normal distribution with the first Cornish-Fisher term for skewness
/// (Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.49).
fn normal_tails(count: u64, q: f64, tail: f64) -> (u64, u64) {
    let mean = count as f64 * q;
    let deviation = (mean * (1.0 - q)).sqrt();
    let z = normal_deviate(tail);
    let skew = (1.0 - 2.0 * q) * (z * z - 1.0) / 6.0;
    let low = (mean - z * deviation + skew + 0.5).floor().max(0.0);
    let high = (mean + z * deviation + skew - 0.5).ceil().max(0.0);
    (low as u64, (high as u64).min(count))
}

/// The z that a standard normal value exceeds with probability `tail` (at most one half), to
/// 4.5e-4 (Abramowitz and Stegun 26.2.23).
fn normal_deviate(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - numerator / denominator
}
