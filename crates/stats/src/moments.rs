//! Running moments of a stream of `f64` (Welford 1962; merging by Chan and others 1979).

/// Count, mean, variance, minimum and maximum, updated value by value and mergeable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared deviations from the mean so far.
    squared_deviations: f64,
    min: f64,
    max: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squared_deviations: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Moments {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one value in. A NaN makes mean and variance NaN, as in any sum.
    pub fn record(&mut self, value: f64) {
        self.count += 1;
        let from_old_mean = value - self.mean;
        self.mean += from_old_mean / self.count as f64;
        self.squared_deviations += from_old_mean * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Takes in everything that `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (left, right) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.count += other.count;
        self.mean += apart * right / (left + right);
        self.squared_deviations += other.squared_deviations + apart * apart * left * right / (left + right);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values were taken in.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The arithmetic mean, or nothing of no values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The sample variance (divided by n - 1), or nothing of fewer than two values.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squared_deviations / (self.count - 1) as f64)
    }

    /// The sample standard deviation, or nothing of fewer than two values.
    pub fn stddev(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The smallest value, or nothing of no values.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, or nothing of no values.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Self::new();
        for value in values {
            moments.record(value);
        }
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(left: Option<f64>, right: Option<f64>, scale: f64) -> bool {
        match (left, right) {
            (Some(left), Some(right)) => (left - right).abs() <= 1e-9 * scale,
            (left, right) => left == right,
        }
    }

    #[test]
    fn the_textbook_example_holds() {
        let moments: Moments = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().collect();
        assert!(close(moments.mean(), Some(5.0), 1.0));
        assert!(close(moments.variance(), Some(32.0 / 7.0), 1.0));
        assert_eq!((moments.min(), moments.max()), (Some(2.0), Some(9.0)));
    }

    proptest! {
        #[test]
        fn merging_equals_recording_all(
            left in prop::collection::vec(-1e6..1e6, 0..80),
            right in prop::collection::vec(-1e6..1e6, 0..80),
        ) {
            let mut merged: Moments = left.iter().copied().collect();
            merged.merge(&right.iter().copied().collect());
            let all: Moments = left.iter().chain(&right).copied().collect();
            prop_assert_eq!(merged.count(), all.count());
            prop_assert!(close(merged.mean(), all.mean(), 1e6));
            prop_assert!(close(merged.variance(), all.variance(), 1e12));
            prop_assert_eq!((merged.min(), merged.max()), (all.min(), all.max()));
        }
    }
}
