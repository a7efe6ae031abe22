//! The definition of a quantile, used for raw samples and histograms alike.
//!
//! Type 7 of Hyndman and Fan ("Sample Quantiles in Statistical Packages", The American Statistician 50, 1996): with n
//! samples in ascending order, numbered from 0, the quantile q lies at position (n - 1) q, and between two samples on
//! the straight line that joins them. It is the default of numpy, pandas, polars, `DuckDB` (`quantile_cont`), R and
//! Excel, so our numbers can be checked with anybody's tools.

use crate::Error;

/// A position between two order statistics: `low` and the next one, `fraction` of the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FractionalRank {
    /// Rank of the order statistic at or below the position, counted from 0.
    pub low: u64,
    /// How far towards the next order statistic, from 0 up to but excluding 1.
    pub fraction: f64,
}

impl FractionalRank {
    /// Where the quantile `q` of `count` samples lies.
    pub fn of(q: f64, count: u64) -> Result<Self, Error> {
        check_quantile(q)?;
        if count == 0 {
            return Err(Error::Empty("quantile"));
        }
        let position = (count - 1) as f64 * q;
        // Above 2^53 the product is rounded and may pass the last sample.
        let low = (position.floor() as u64).min(count - 1);
        let fraction = if low == count - 1 { 0.0 } else { position - position.floor() };
        Ok(Self { low, fraction })
    }

    /// The value at this position, given the order statistics at `low` and after it.
    pub fn between(self, low: f64, next: f64) -> f64 {
        if self.fraction == 0.0 { low } else { low + (next - low) * self.fraction }
    }
}

pub(crate) fn check_quantile(q: f64) -> Result<(), Error> {
    if (0.0..=1.0).contains(&q) { Ok(()) } else { Err(Error::Quantile(q)) }
}
