//! How often each block size occurred.

use std::collections::BTreeMap;

/// Places of the small table in front of the map. Jobs use a handful of sizes.
const PLACES: usize = 64;

/// Distinct sizes that are told apart; a job with `bsrange` may have millions.
const DISTINCT_LIMIT: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSizes {
    /// Size and count, each size at the place its bits choose; a newcomer moves the old to the map.
    recent: Box<[(u64, u64); PLACES]>,
    /// The size of the last I/Os and how many of them there were, not yet in the table.
    run: (u64, u64),
    counts: BTreeMap<u64, u64>,
    others: u64,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self { recent: Box::new([(0, 0); PLACES]), run: (0, 0), counts: BTreeMap::new(), others: 0 }
    }
}

impl BlockSizes {
    #[inline]
    pub(crate) fn record(&mut self, size_bytes: u64) {
        if size_bytes != self.run.0 {
            self.end_run(size_bytes);
        }
        self.run.1 += 1;
    }

    fn end_run(&mut self, next_size_bytes: u64) {
        let (size_bytes, count) = std::mem::replace(&mut self.run, (next_size_bytes, 0));
        // Fibonacci hashing (Knuth, volume 3, section 6.4): the top 6 bits of the product.
        let place = (size_bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize;
        if self.recent[place].0 != size_bytes {
            self.make_place(place, size_bytes);
        }
        self.recent[place].1 += count;
    }

    #[cold]
    fn make_place(&mut self, place: usize, size_bytes: u64) {
        let (old_size, count) = std::mem::replace(&mut self.recent[place], (size_bytes, 0));
        self.add(old_size, count);
    }

    fn add(&mut self, size_bytes: u64, count: u64) {
        if count == 0 {
            return;
        }
        if self.counts.len() >= DISTINCT_LIMIT && !self.counts.contains_key(&size_bytes) {
            self.others += count;
            return;
        }
        *self.counts.entry(size_bytes).or_default() += count;
    }

    /// Brings all counts into the map.
    pub(crate) fn finish(&mut self) {
        self.end_run(0);
        for place in 0..PLACES {
            self.make_place(place, 0);
        }
    }

    /// Size in bytes and how often it occurred, in ascending order of size.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().map(|(&size, &count)| (size, count))
    }

    /// How many I/Os had a size that was not told apart: only the first thousand sizes are.
    pub fn others(&self) -> u64 {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_share_a_place_are_told_apart() {
        let mut sizes = BlockSizes::default();
        for round in 0..3 {
            for size in 0..500 {
                sizes.record(size * 512 + round);
            }
        }
        sizes.record(0);
        sizes.finish();
        assert_eq!(sizes.counts().map(|(_, count)| count).sum::<u64>() + sizes.others(), 1501);
        assert_eq!(sizes.counts().next(), Some((0, 2)));
    }

    #[test]
    fn millions_of_sizes_take_no_memory() {
        let mut sizes = BlockSizes::default();
        for size in 0..100_000 {
            sizes.record(size);
        }
        sizes.finish();
        assert_eq!(sizes.counts().count(), DISTINCT_LIMIT);
        assert_eq!(sizes.others(), 100_000 - DISTINCT_LIMIT as u64);
    }
}
