//! Which bucket a value falls into, and which values a bucket holds.
//!
//! The layout is that of HDR Histogram of Gil Tene (hdrhistogram.org)
//! with three significant decimal digits: every value below 2048 has a bucket of its own; above,
//! each power of two is cut into 1024 buckets of equal width. It covers all of `u64`.

/// Each power of two is cut into 2^10 buckets.
const SUB_BITS: u32 = 10;
const SUB_COUNT: u64 = 1 << SUB_BITS;

/// Upper bound of a bucket's width divided by the values in it: 2^-10, below 0.1 %.
pub const RELATIVE_BUCKET_WIDTH: f64 = 1.0 / SUB_COUNT as f64;

/// Index of the bucket that holds `value`. Indexes grow with values and start at 0.
#[inline]
pub(crate) fn index_of(value: u64) -> usize {
    let top_bit = (value | SUB_COUNT).ilog2();
    let shift = top_bit - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
}

/// Smallest and largest value of the bucket at `index`.
pub(crate) fn bounds_of(index: usize) -> (u64, u64) {
    bucket_bounds(SUB_BITS, index)
}

/// Smallest and largest value of the bucket at `index` of a layout in which each power of two is
/// cut into `2^sub_bits` buckets: 10 bits here, fewer where memory is scarce.
#[inline]
pub fn bucket_bounds(sub_bits: u32, index: usize) -> (u64, u64) {
    let (index, sub_count) = (index as u64, 1_u64 << sub_bits);
    if index < 2 * sub_count {
        return (index, index);
    }
    let shift = (index >> sub_bits) - 1;
    let low = ((index & (sub_count - 1)) + sub_count) << shift;
    (low, low + ((1 << shift) - 1))
}

/// The value that stands for the bucket at `index`: its middle, rounded down.
pub(crate) fn middle_of(index: usize) -> u64 {
    let (low, high) = bounds_of(index);
    low + (high - low) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbouring_buckets_leave_no_gap() {
        for index in 0..index_of(u64::MAX) {
            assert_eq!(bounds_of(index).1 + 1, bounds_of(index + 1).0);
        }
        assert_eq!(bounds_of(index_of(u64::MAX)).1, u64::MAX);
    }

    proptest! {
        #[test]
        fn a_value_lies_within_its_own_bucket(shift in 0_u32..64, seed: u64) {
            let value = seed >> shift;
            let (low, high) = bounds_of(index_of(value));
            prop_assert!(low <= value && value <= high);
            prop_assert!((high - low) as f64 <= low as f64 * RELATIVE_BUCKET_WIDTH);
        }

        #[test]
        fn the_middle_stays_in_its_bucket(shift in 0_u32..64, seed: u64) {
            let index = index_of(seed >> shift);
            prop_assert_eq!(index_of(middle_of(index)), index);
        }
    }
}
