//! The latency buckets of the programs (`bpf/histogram.h`): the layout of `ioassay-stats`, with 32 buckets to a power
//! of two instead of 1024, so that a bucket's middle is within 1.6 % of all that fell into it.

use crate::seen::Histogram;

const SUB_BITS: u32 = 5;
const SUB_COUNT: u64 = 1 << SUB_BITS;
pub(crate) const BUCKETS: usize = 1280;

/// Smallest and largest value of the bucket at `index`; the last one holds all that is larger, too.
fn bounds_of(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < 2 * SUB_COUNT {
        return (index, index);
    }
    let shift = (index >> SUB_BITS) - 1;
    let low = ((index & (SUB_COUNT - 1)) + SUB_COUNT) << shift;
    (low, low + ((1 << shift) - 1))
}

/// The filled buckets of an array of counts.
pub(crate) fn filled(counts: &[u64]) -> Histogram {
    let filled = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
    let (values_ns, counts) = filled
        .map(|(index, &count)| {
            let (low, high) = bounds_of(index);
            (low + (high - low) / 2, count)
        })
        .unzip();
    Histogram { values_ns, counts }
}
