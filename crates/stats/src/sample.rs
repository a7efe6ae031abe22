//! Percentiles of raw samples, and their confidence intervals.

use crate::{Error, FractionalRank, order_ranks};

/// The quantile `q` (0 to 1) of `samples`, in any order: type 7, see [`FractionalRank`].
pub fn percentile(samples: &[f64], q: f64) -> Result<f64, Error> {
    Ok(percentiles(samples, &[q])?[0])
}

/// Several quantiles of the same samples, sorted once; in the order asked for.
pub fn percentiles(samples: &[f64], qs: &[f64]) -> Result<Vec<f64>, Error> {
    let sorted = ascending(samples)?;
    let at = |rank: u64| sorted[(rank as usize).min(sorted.len() - 1)];
    qs.iter()
        .map(|&q| {
            let rank = FractionalRank::of(q, sorted.len() as u64)?;
            Ok(rank.between(at(rank.low), at(rank.low + 1)))
        })
        .collect()
}

/// Order-statistic interval of the quantile `q` behind independent `samples`: lower and upper
/// bound, in the samples' unit. A side that so few samples cannot bound is infinite.
pub fn percentile_interval(samples: &[f64], q: f64, confidence: f64) -> Result<(f64, f64), Error> {
    let sorted = ascending(samples)?;
    let ranks = order_ranks(sorted.len() as u64, q, confidence)?;
    let at = |rank: u64| sorted[rank as usize - 1];
    Ok((ranks.low.map_or(f64::NEG_INFINITY, at), ranks.high.map_or(f64::INFINITY, at)))
}

fn ascending(samples: &[f64]) -> Result<Vec<f64>, Error> {
    if let Some(index) = samples.iter().position(|sample| sample.is_nan()) {
        return Err(Error::NotANumber { index });
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Ok(sorted)
}
