//! fio's own latency bins: which nanoseconds a bin stands for.
//!
//! Facts of fio's stat.h and stat.c (`FIO_IO_U_PLAT_BITS` 6, `plat_idx_to_val`): groups of 64 bins; the bins of the
//! first two groups are 1 wide, those of each further group twice as wide as the group's before. fio 3 has 29 groups of
//! nanoseconds, fio 2 had 19 of microseconds. `log_hist_coarseness=c` joins 2^c neighbours.

const BINS_PER_GROUP: usize = 64;
const BITS: u32 = 6;

/// The largest index whose bin still fits `u64`: 59 groups.
pub const LAST_BIN: usize = 59 * BINS_PER_GROUP - 1;

/// How a histogram line's columns map to latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinLayout {
    /// Number of bins in a line.
    pub bins: usize,
    /// How many of fio's finest bins each one joins, as a power of two.
    pub coarseness: u32,
    /// The unit of the bins: 1 for nanoseconds (fio 3), 1000 for microseconds (fio 2).
    pub unit_ns: u64,
}

impl BinLayout {
    /// The layout with that many bins: 1856 (fio 3), 1216 (fio 2, microseconds) or 2048 (builds of
    /// fio patched to reach 137 s), halved up to six times by coarseness. No two share a number.
    pub fn of_bins(bins: usize) -> Option<Self> {
        [(29, 1), (19, 1000), (32, 1)].into_iter().find_map(|(groups, unit_ns)| {
            let coarseness = (0..=BITS).find(|c| (groups * BINS_PER_GROUP) >> c == bins)?;
            Some(Self { bins, coarseness, unit_ns })
        })
    }

    /// The latency that stands for bin `index` of a line: the middle of what it joins.
    pub fn middle_ns(&self, index: usize) -> u64 {
        let first = index << self.coarseness;
        let last = first + (1 << self.coarseness) - 1;
        let low = low_edge(first);
        (low + (low_edge(last + 1) - low) / 2) * self.unit_ns
    }
}

/// The latency that stands for bin `index` of fio's finest histogram, in its own unit (nanoseconds for fio 3): what
/// `fio --output-format=json+` prints as the bin's name. Nothing past the bins whose latencies fit 64 bits.
pub fn bin_middle(index: usize) -> Option<u64> {
    (index <= LAST_BIN).then(|| {
        let width = 1_u64 << group_shift(index);
        low_edge(index) + width / 2
    })
}

/// The bin of fio's finest histogram that a latency falls into; at most [`LAST_BIN`].
#[inline]
pub fn bin_index(value: u64) -> usize {
    let shift = (value | 1).ilog2().saturating_sub(BITS);
    if shift == 0 {
        return value as usize;
    }
    // The value without its lower bits lies between 64 and 127.
    ((shift as usize) << BITS) + (value >> shift) as usize
}

fn group_shift(index: usize) -> u32 {
    ((index >> BITS) as u32).saturating_sub(1)
}

fn low_edge(index: usize) -> u64 {
    let shift = group_shift(index);
    if shift == 0 {
        return index as u64;
    }
    ((index % BINS_PER_GROUP + BINS_PER_GROUP) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_are_those_of_fio() {
        // Names of bins in the JSON+ of fio 3.33.
        for (index, middle) in [(0, 0), (127, 127), (128, 129), (191, 255), (192, 258), (500, 0)] {
            if index != 500 {
                assert_eq!(bin_middle(index), Some(middle), "bin {index}");
            }
        }
        assert_eq!(bin_middle(LAST_BIN + 1), None);
        assert!(bin_middle(LAST_BIN).is_some());
    }

    #[test]
    fn a_latency_falls_into_the_bin_between_whose_edges_it_lies() {
        for index in 0..LAST_BIN {
            let edges = (low_edge(index), low_edge(index + 1) - 1);
            assert_eq!((bin_index(edges.0), bin_index(edges.1)), (index, index));
        }
        assert_eq!(bin_index(u64::MAX), LAST_BIN);
    }

    #[test]
    fn the_number_of_bins_tells_the_layout() {
        let layout = |bins| BinLayout::of_bins(bins).map(|l| (l.coarseness, l.unit_ns));
        assert_eq!(layout(1856), Some((0, 1)));
        assert_eq!(layout(29), Some((6, 1)));
        assert_eq!(layout(1216), Some((0, 1000)));
        assert_eq!(layout(19), Some((6, 1000)));
        assert_eq!(layout(1000), None);
    }
}
