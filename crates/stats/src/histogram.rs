//! Counts of values in log-linear buckets.
//!
//! The array is our own rather than the `hdrhistogram` crate's, whose layout it shares: that one keeps no exact moments
//! and is built for values that may not fit, so it takes about twice the time a record (`benches/record.rs`).
//! The array covers all of `u64` and grows only as far as the largest value seen, so recording
//! has no failure and no clamping to report.

use std::fmt;

use crate::{Error, ExactMoments, FractionalRank, layout, order_ranks};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The value that stands for the bucket: its middle, but never beyond minimum or maximum.
    pub value: u64,
    /// How many values fell into it.
    pub count: u64,
}

/// Distribution of `u64` values (latencies in nanoseconds, mostly): bucketed to within 0.05 % of
/// each value, with exact count, minimum, maximum, mean and deviation.
#[derive(Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Histogram {
    counts: Vec<u64>,
    moments: ExactMoments,
}

impl Histogram {
    pub fn new() -> Self {
        Self::default()
    }

    /// The histogram of given values and how often each occurred, such as a tool's own bins.
    pub fn from_buckets(values: &[u64], counts: &[u64]) -> Result<Self, Error> {
        if values.len() != counts.len() {
            return Err(Error::BucketColumns { values: values.len(), counts: counts.len() });
        }
        let mut histogram = Self::new();
        for (&value, &count) in values.iter().zip(counts) {
            histogram.record_n(value, count);
        }
        Ok(histogram)
    }

    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Records `n` equal values. What passes a total of 2^64 - 1 is counted by [`ExactMoments::uncounted`].
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        let taken = self.moments.record_n(value, n);
        self.add(value, taken);
    }

    /// Records many values, faster than one by one; returns the moments of just these.
    pub fn record_all(&mut self, values: &[u64]) -> ExactMoments {
        let moments = ExactMoments::of(values);
        if self.moments.merge(&moments) {
            for &value in values {
                self.add(value, 1);
            }
        }
        moments
    }

    #[inline]
    fn add(&mut self, value: u64, n: u64) {
        let index = layout::index_of(value);
        if index >= self.counts.len() {
            self.grow(index);
        }
        self.counts[index] += n;
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.counts.resize(index + 1, 0);
    }

    /// Adds everything that `other` holds, as if it had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        if !self.moments.merge(&other.moments) {
            return;
        }
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// Exact count, minimum, maximum, sum, mean and deviation of the values recorded.
    pub fn moments(&self) -> &ExactMoments {
        &self.moments
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.moments.count()
    }

    /// The non-empty buckets, in ascending order of value.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.filled().map(|(index, count)| Bucket { value: self.representative(index), count })
    }

    /// The quantile `q` (0 to 1): type 7 (see [`FractionalRank`]) over the buckets' values, so
    /// within 0.05 % of what [`percentile`](crate::percentile) says of the raw values.
    pub fn value_at_quantile(&self, q: f64) -> Result<f64, Error> {
        self.multiple_at_quantile(q, 1)
    }

    /// The same of values that are all multiples of `unit`: exact where a bucket holds only one multiple.
    pub fn multiple_at_quantile(&self, q: f64, unit: u64) -> Result<f64, Error> {
        let rank = FractionalRank::of(q, self.count())?;
        let (low, next) = self.indexes_at(rank.low);
        Ok(rank.between(self.multiple(low, unit) as f64, self.multiple(next, unit) as f64))
    }

    /// Order-statistic interval of the quantile `q` behind independent values: lower and upper
    /// bound, widened to the bucket's edges. A side that so few values cannot bound is infinite.
    pub fn quantile_interval(&self, q: f64, confidence: f64) -> Result<(f64, f64), Error> {
        let ranks = order_ranks(self.count(), q, confidence)?;
        let edges = |rank: u64| self.edges(self.indexes_at(rank - 1).0);
        let low = ranks.low.map_or(f64::NEG_INFINITY, |rank| edges(rank).0 as f64);
        let high = ranks.high.map_or(f64::INFINITY, |rank| edges(rank).1 as f64);
        Ok((low, high))
    }

    /// A histogram of filled buckets (index and count, ascending) with the moments of the values;
    /// nothing if they cannot belong together.
    pub(crate) fn from_filled(filled: impl Iterator<Item = (usize, u64)>, moments: ExactMoments) -> Option<Self> {
        let ends = (moments.min().map(layout::index_of), moments.max().map(layout::index_of));
        let mut counts = Vec::new();
        let mut total = 0_u64;
        let mut first = None;
        for (index, count) in filled {
            let ascending = index >= counts.len() && Some(index) <= ends.1;
            if !ascending || count == 0 {
                return None;
            }
            first.get_or_insert(index);
            total = total.checked_add(count)?;
            counts.resize(index, 0);
            counts.push(count);
        }
        let found = (first, counts.len().checked_sub(1));
        let possible = found == ends && total == moments.count() && moments.is_possible();
        possible.then_some(Self { counts, moments })
    }

    pub(crate) fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// Indexes of the buckets that hold the order statistic of `rank` (from 0) and the next one.
    /// The last rank has no next; it is then given twice.
    fn indexes_at(&self, rank: u64) -> (usize, usize) {
        let mut seen = 0;
        let mut filled = self.filled();
        let mut at = 0;
        for (index, count) in filled.by_ref() {
            seen += count;
            at = index;
            if seen > rank {
                break;
            }
        }
        let next = if seen > rank + 1 { at } else { filled.next().map_or(at, |(index, _)| index) };
        (at, next)
    }

    /// Bounds of a bucket, cut to the values really seen.
    fn edges(&self, index: usize) -> (u64, u64) {
        let (low, high) = layout::bounds_of(index);
        let min = self.moments.min().unwrap_or(low);
        let max = self.moments.max().unwrap_or(high);
        (low.max(min), high.min(max))
    }

    fn representative(&self, index: usize) -> u64 {
        let (low, high) = self.edges(index);
        layout::middle_of(index).clamp(low, high)
    }

    /// The multiple of `unit` that stands for a bucket, the next one up to its middle if it holds several.
    fn multiple(&self, index: usize, unit: u64) -> u64 {
        let (low, high) = self.edges(index);
        let middle = self.representative(index);
        let below = middle - middle.checked_rem(unit).unwrap_or(0);
        let above = below.saturating_add(unit);
        if below >= low {
            below
        } else if above <= high {
            above
        } else {
            middle
        }
    }
}

/// Without the counts: there may be thousands.
impl fmt::Debug for Histogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Histogram").field("moments", &self.moments).finish_non_exhaustive()
    }
}
