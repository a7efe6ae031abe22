//! The latency buckets of the programs (`bpf/histogram.h`): the layout of `ioassay-stats`, with 32 buckets to a power
//! of two instead of 1024, so that a bucket's middle is within 1.6 % of all that fell into it.

use ioassay_stats::bucket_bounds;

use crate::observation::Histogram;

const SUB_BITS: u32 = 5;
pub(crate) const BUCKETS: usize = 1280;

/// Of the parts of a time (`bpf/explain.h`).
pub(crate) const COARSE_SUB_BITS: u32 = 4;

/// The filled buckets of an array of counts.
pub(crate) fn filled(counts: &[u64]) -> Histogram {
    filled_by(SUB_BITS, counts)
}

/// The same of buckets of another width. The last one holds all that is larger, too.
pub(crate) fn filled_by(sub_bits: u32, counts: &[u64]) -> Histogram {
    let filled = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
    let (values_ns, counts) = filled
        .map(|(index, &count)| {
            let (low, high) = bucket_bounds(sub_bits, index);
            (low + (high - low) / 2, count)
        })
        .unzip();
    Histogram { values_ns, counts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioassay_stats::Histogram as Exact;

    fn bounds_of(index: usize) -> (u64, u64) {
        bucket_bounds(SUB_BITS, index)
    }

    const SUB_COUNT: u64 = 1 << SUB_BITS;

    /// `bucket_of` of `bpf/histogram.h`, as it stands there.
    fn bucket_of(value: u64) -> usize {
        let shift = (value | SUB_COUNT).ilog2() - SUB_BITS;
        let index = (u64::from(shift) << SUB_BITS) + (value >> shift);
        (index as usize).min(BUCKETS - 1)
    }

    #[test]
    fn the_numbers_are_those_of_the_programs() {
        let header = include_str!("../bpf/histogram.h");
        assert!(header.contains(&format!("#define SUB_BITS {SUB_BITS}\n")));
        let shapes = include_str!("../bpf/shapes.h");
        assert!(shapes.contains(&format!("#define BUCKETS {BUCKETS}\n")));
    }

    #[test]
    fn buckets_leave_no_gap_and_hold_their_values() {
        for index in 0..BUCKETS - 1 {
            let (low, high) = bounds_of(index);
            assert_eq!(bounds_of(index + 1).0, high + 1);
            assert_eq!((bucket_of(low), bucket_of(high)), (index, index));
        }
    }

    /// A bucket here is a union of buckets there, so distributions of both merge.
    #[test]
    fn buckets_are_unions_of_those_of_the_statistics() {
        for index in 0..BUCKETS - 1 {
            let (low, high) = bounds_of(index);
            let exact = |value: u64| Exact::from_buckets(&[low, value, high], &[1, 1, 1]).unwrap();
            // The bucket of a bound is never shared with the neighbour: its middle stays inside.
            for bucket in exact(low + (high - low) / 3).buckets() {
                assert!(low <= bucket.value && bucket.value <= high);
            }
        }
    }

    #[test]
    fn a_middle_is_within_a_sixtieth_of_what_fell_into_its_bucket() {
        for value in (0..44).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit) / 3, (2 << bit) - 1]) {
            let mut counts = [0; BUCKETS];
            counts[bucket_of(value)] = 1;
            let found = filled(&counts);
            assert_eq!(found.counts, [1]);
            assert!(found.values_ns[0].abs_diff(value) as f64 <= value as f64 / 60.0);
        }
    }
}
