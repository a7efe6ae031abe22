//! Count, mean, deviation, minimum and maximum of whole numbers, free of rounding.
//!
//! Sums of `u64` values and of their squares are kept as `u128`, so nothing is lost however long the stream and however
//! small the deviation beside the mean. Faster than Welford's update too: no division per value.

use crate::encoding::little_endian;

/// Five numbers of 16 bytes.
pub(crate) const ENCODED_BYTES: usize = 80;

/// Exact running moments of `u64` values; two of them merge into the moments of all values.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ExactMoments {
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    sum_of_squares: u128,
    /// Squares that no longer fit: above 2^128 the exact sum is moved here and begins anew.
    spilled_squares: f64,
    uncounted: u64,
}

impl Default for ExactMoments {
    fn default() -> Self {
        Self { count: 0, min: u64::MAX, max: 0, sum: 0, sum_of_squares: 0, spilled_squares: 0.0, uncounted: 0 }
    }
}

impl ExactMoments {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn of(values: &[u64]) -> Self {
        let mut moments = Self::new();
        for &value in values {
            moments.min = moments.min.min(value);
            moments.max = moments.max.max(value);
            moments.sum += u128::from(value);
            let square = u128::from(value) * u128::from(value);
            moments.sum_of_squares = moments.sum_of_squares.wrapping_add(square);
        }
        moments.count = values.len() as u64;
        let largest_square = u128::from(moments.max) * u128::from(moments.max);
        if largest_square.checked_mul(u128::from(moments.count)).is_some() {
            return moments;
        }
        // The squares may have passed 2^128: again, one by one.
        let mut moments = Self::new();
        for &value in values {
            moments.record(value);
        }
        moments
    }

    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Takes in `n` equal values. What passes a count of 2^64 - 1 is only counted by
    /// [`uncounted`](Self::uncounted). Returns how many were taken in.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) -> u64 {
        let taken = self.room_for(n);
        if taken == 0 {
            return 0;
        }
        self.count += taken;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        // At most (2^64 - 1) values of at most 2^64 - 1: the sum always fits.
        self.sum += u128::from(value) * u128::from(taken);
        let square = u128::from(value) * u128::from(value);
        match square.checked_mul(u128::from(taken)) {
            Some(squares) => self.add_squares(squares),
            None => self.spill(square as f64 * taken as f64),
        }
        taken
    }

    /// Takes in everything that `other` has seen, or, where the count would pass 2^64 - 1, nothing
    /// but its number as [`uncounted`](Self::uncounted). Returns whether it was taken.
    pub fn merge(&mut self, other: &Self) -> bool {
        self.uncounted = self.uncounted.saturating_add(other.uncounted);
        let Some(count) = self.count.checked_add(other.count) else {
            self.uncounted = self.uncounted.saturating_add(other.count);
            return false;
        };
        self.count = count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.add_squares(other.sum_of_squares);
        self.spill(other.spilled_squares);
        true
    }

    #[inline]
    fn room_for(&mut self, n: u64) -> u64 {
        let taken = n.min(u64::MAX - self.count);
        self.uncounted = self.uncounted.saturating_add(n - taken);
        taken
    }

    #[inline]
    fn add_squares(&mut self, squares: u128) {
        match self.sum_of_squares.checked_add(squares) {
            Some(total) => self.sum_of_squares = total,
            None => self.spill(squares as f64),
        }
    }

    #[cold]
    fn spill(&mut self, squares: f64) {
        self.spilled_squares += squares;
    }

    /// How many values were taken in.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many values found no room: the count holds 2^64 - 1 at most. Zero in any real run.
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// The smallest value, or nothing of no values.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, or nothing of no values.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The arithmetic mean, or nothing of no values.
    pub fn mean(&self) -> Option<f64> {
        // Quotient and remainder apart: the sum itself may need more than the 53 bits of an f64.
        let count = u128::from(self.count);
        (count > 0).then(|| (self.sum / count) as f64 + (self.sum % count) as f64 / self.count as f64)
    }

    /// The sample variance (divided by n - 1), or nothing of fewer than two values.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squared_deviations() / (self.count - 1) as f64)
    }

    /// The sample standard deviation, or nothing of fewer than two values.
    pub fn stddev(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    pub(crate) fn to_bytes(self) -> [u8; ENCODED_BYTES] {
        let mut bytes = [0; ENCODED_BYTES];
        let numbers = [
            (u128::from(self.count) << 64) | u128::from(self.uncounted),
            (u128::from(self.min) << 64) | u128::from(self.max),
            self.sum,
            self.sum_of_squares,
            u128::from(self.spilled_squares.to_bits()),
        ];
        for (place, number) in bytes.chunks_exact_mut(16).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; ENCODED_BYTES]) -> Self {
        let number = |at: usize| little_endian(&bytes[16 * at..16 * (at + 1)]);
        Self {
            count: (number(0) >> 64) as u64,
            uncounted: number(0) as u64,
            min: (number(1) >> 64) as u64,
            max: number(1) as u64,
            sum: number(2),
            sum_of_squares: number(3),
            spilled_squares: f64::from_bits(number(4) as u64),
        }
    }

    /// Whether the moments, which may come from anywhere, do not contradict each other.
    pub(crate) fn is_possible(&self) -> bool {
        let count = u128::from(self.count);
        if count == 0 {
            return *self == Self { uncounted: self.uncounted, ..Self::default() };
        }
        let mean = self.sum / count;
        u128::from(self.min) <= mean && mean <= u128::from(self.max) && self.spilled_squares >= 0.0
    }

    /// Sum of squared deviations from the mean, at least 0. With sum = n q + r, the deviations from
    /// the whole number q are summed exactly and only the small rest r²/n is a fraction. Squares
    /// that were spilled make it a difference of rounded numbers.
    fn squared_deviations(&self) -> f64 {
        let (q, r) = (self.sum / u128::from(self.count), self.sum % u128::from(self.count));
        if let Some(around_q) = self.squares_around(q, r) {
            return (around_q as f64 - r as f64 * (r as f64 / self.count as f64)).max(0.0);
        }
        let squares = self.spilled_squares + self.sum_of_squares as f64;
        (squares - self.sum as f64 * (self.sum as f64 / self.count as f64)).max(0.0)
    }

    /// Sum of (value - q)², which is the sum of squares less n q² + 2 q r. That cannot overflow, since it is at most
    /// sum² / n and so at most the sum of squares (Cauchy), unless squares were spilled.
    fn squares_around(&self, q: u128, r: u128) -> Option<u128> {
        if self.spilled_squares > 0.0 {
            return None;
        }
        let below = u128::from(self.count).checked_mul(q)?.checked_mul(q)?;
        self.sum_of_squares.checked_sub(below)?.checked_sub(q.checked_mul(r)?.checked_mul(2)?)
    }
}
