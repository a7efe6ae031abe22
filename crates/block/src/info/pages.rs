//! How many different pages, and how hot the hottest are, in bounded memory.

/// Slots of the table: 16 bytes each, 64 MiB at most.
const MOST_SLOTS: usize = 1 << 22;
const FIRST_SLOTS: usize = 1 << 10;
/// Pages of one request that are looked at: 64 MiB of 4 KiB pages. No request of a real trace is
/// as long, and those with a wrong unit must not take for ever.
pub const MOST_PAGES: u64 = 1 << 14;

/// Counts accesses to pages: to all of them while they fit, then to a sample that is chosen by a hash of their number.
///
/// The sample halves whenever it fills the table (adaptive sampling: Flajolet, "On adaptive sampling", Computing 43,
/// 1990). A page is in it or not for the whole trace, so the counts of its pages are exact; only what is said of all
/// pages is an estimate, with a relative standard error of about `1.2 / sqrt(1.5 million)`, 0.1 %.
pub struct Pages {
    /// Keys and counts, searched from the hash on; a count of 0 is an empty slot.
    slots: Vec<(u64, u64)>,
    filled: usize,
    /// Pages whose hash has this many zeros at its end are looked at.
    zeros: u32,
}

impl Pages {
    pub fn new() -> Self {
        Self { slots: vec![(0, 0); FIRST_SLOTS], filled: 0, zeros: 0 }
    }

    /// One access to a page of a device.
    #[inline]
    pub fn touch(&mut self, device: u32, page: u64) {
        // Pages are below 2^64 / page size, so that the device's bits meet none in practice.
        let key = page ^ u64::from(device).rotate_right(20);
        let hash = mixed(key);
        if hash.trailing_zeros() < self.zeros {
            return;
        }
        self.add(key, hash, 1);
        if self.filled * 4 > self.slots.len() * 3 {
            self.make_room();
        }
    }

    #[inline]
    fn add(&mut self, key: u64, hash: u64, count: u64) {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.1 == 0 {
                *slot = (key, count);
                self.filled += 1;
                return;
            }
            if slot.0 == key {
                slot.1 += count;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn make_room(&mut self) {
        let mut size = self.slots.len() * 2;
        if size > MOST_SLOTS {
            size = MOST_SLOTS;
            self.zeros += 1;
        }
        let old = std::mem::replace(&mut self.slots, vec![(0, 0); size]);
        self.filled = 0;
        for (key, count) in old.into_iter().filter(|&(_, count)| count > 0) {
            let hash = mixed(key);
            if hash.trailing_zeros() >= self.zeros {
                self.add(key, hash, count);
            }
        }
    }

    /// Whether all pages were counted, rather than a sample of them.
    pub fn exact(&self) -> bool {
        self.zeros == 0
    }

    /// How many different pages there are.
    pub fn distinct(&self) -> u64 {
        (self.filled as u64) << self.zeros
    }

    /// Share of the accesses that went to the hottest `share` of the pages that were touched; at
    /// least one page. Nothing of no accesses.
    pub fn hottest(&self, share: f64) -> Option<f64> {
        let mut counts: Vec<u64> = (self.slots.iter()).map(|slot| slot.1).filter(|&count| count > 0).collect();
        let all: u64 = counts.iter().sum();
        let hot = ((counts.len() as f64 * share).ceil() as usize).clamp(1, counts.len().max(1));
        if hot < counts.len() {
            counts.select_nth_unstable_by(hot - 1, |left, right| right.cmp(left));
            counts.truncate(hot);
        }
        (all > 0).then(|| counts.iter().sum::<u64>() as f64 / all as f64)
    }
}

/// The finalizer of `MurmurHash3` (Appleby): every bit of the key reaches every bit of the hash.
fn mixed(mut key: u64) -> u64 {
    key = (key ^ (key >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    key = (key ^ (key >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    key ^ (key >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pages_are_counted_exactly() {
        let mut pages = Pages::new();
        for round in 0..3_u64 {
            for page in 0..100_000 {
                pages.touch(0, page);
                if round == 0 && page < 10 {
                    (0..1000).for_each(|_| pages.touch(0, page));
                }
            }
        }
        pages.touch(1, 5);
        assert_eq!((pages.exact(), pages.distinct()), (true, 100_001));
        let hottest = pages.hottest(10.0 / 100_001.0).unwrap_or_default();
        assert!((hottest - 10_030.0 / 310_001.0).abs() < 1e-9, "{hottest}");
    }

    #[test]
    fn many_pages_are_estimated_from_a_sample() {
        let mut pages = Pages::new();
        let n = 10_000_000_u64;
        (0..n).for_each(|page| pages.touch(0, page * 7));
        let error = pages.distinct() as f64 / n as f64 - 1.0;
        assert!(!pages.exact() && error.abs() < 0.004, "{error}");
    }
}
