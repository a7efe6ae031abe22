//! The offline optimum: what no write buffer can exceed, the most write hits that a sequence allows.
//!
//! L. A. Belady's MIN ("A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2),
//! 1966) with bypass: it knows what comes, and need not keep the page that was just written. A write hits if its page
//! was kept since the write before it; so each pair of successive writes of a page is an interval, and the most hits
//! are the most intervals of which never more than the buffer's pages overlap. In the order of their ends, each goes to
//! the slot that has been free for the shortest time when it begins, if there is one: that is optimal (U. Faigle and W.
//! M. Nawijn, "Note on scheduling intervals on-line", Discrete Applied Mathematics 58, 1995). So the past decides, and
//! a load needs neither be stored nor read twice.
//!
//! It is a bound on hits, not on response times: a policy with fewer may be faster.

use std::collections::BTreeSet;

use super::Page;

/// Counts the most hits that a buffer can have on the writes so far.
///
/// A write takes O(log capacity) time. Memory: 8 bytes for each page of the drive, and about 12 for
/// each of the buffer's.
#[derive(Debug, Clone)]
pub struct OfflineOptimum {
    capacity: usize,
    /// When each slot came free; slots never used are absent.
    free_since: BTreeSet<u64>,
    /// Number of each page's last write; 0 without one.
    written: Vec<u64>,
    writes: u64,
    hits: u64,
    /// Writes before the last flush.
    flushed: u64,
}

impl OfflineOptimum {
    /// For a buffer of `capacity` pages, and a drive of `pages`.
    pub fn new(capacity: usize, pages: u32) -> Self {
        Self { capacity, free_since: BTreeSet::new(), written: vec![0; pages as usize], writes: 0, hits: 0, flushed: 0 }
    }

    /// One page more than before; returns its number.
    pub fn add_page(&mut self) -> Page {
        self.written.push(0);
        self.written.len() as Page - 1
    }

    pub fn write(&mut self, page: Page) {
        self.writes += 1;
        let begin = std::mem::replace(&mut self.written[page as usize], self.writes);
        if begin > self.flushed && self.occupy(begin) {
            self.hits += 1;
        }
    }

    /// Keeps a page from `begin` until now, if a slot was free all that time.
    fn occupy(&mut self, begin: u64) -> bool {
        if let Some(&slot) = self.free_since.range(..=begin).next_back() {
            self.free_since.remove(&slot);
        } else if self.free_since.len() >= self.capacity {
            return false;
        }
        self.free_since.insert(self.writes)
    }

    /// A page is discarded: its next write is no hit.
    pub fn discard(&mut self, page: Page) {
        self.written[page as usize] = 0;
    }

    /// The buffer is flushed: no page is held.
    pub fn flush(&mut self) {
        self.flushed = self.writes;
    }

    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// The most hits among them.
    pub fn hits(&self) -> u64 {
        self.hits
    }
}

#[cfg(test)]
mod tests {
    use super::OfflineOptimum;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// MIN as Belady wrote it: of the pages held and the written one, that which is written again
    /// last leaves, found by reading on.
    fn by_reading_on(pages: &[u32], capacity: usize) -> u64 {
        let (mut held, mut hits) = (Vec::new(), 0);
        for (now, &page) in pages.iter().enumerate() {
            if held.contains(&page) {
                hits += 1;
            } else {
                held.push(page);
            }
            if held.len() > capacity {
                let again = |&page: &u32| pages[now + 1..].iter().position(|&later| later == page);
                let last = (0..held.len()).max_by_key(|&at| again(&held[at]).unwrap_or(usize::MAX));
                held.remove(last.unwrap());
            }
        }
        hits
    }

    fn hits(pages: &[u32], capacity: usize) -> u64 {
        let mut optimum = OfflineOptimum::new(capacity, 60);
        for &page in pages {
            optimum.write(page);
        }
        optimum.hits()
    }

    proptest! {
        #[test]
        fn it_is_belady(
            pages in prop_oneof![vec(0_u32..6, 0..14), vec(0_u32..60, 0..600)], capacity in prop_oneof![0_usize..4, 0_usize..40],
        ) {
            prop_assert_eq!(hits(&pages, capacity), by_reading_on(&pages, capacity));
        }
    }

    #[test]
    fn what_is_discarded_or_flushed_is_no_hit() {
        let mut optimum = OfflineOptimum::new(2, 4);
        for page in [1, 2, 3] {
            optimum.write(page);
        }
        optimum.discard(1);
        optimum.write(1);
        assert_eq!(optimum.hits(), 0);
        optimum.write(2);
        assert_eq!(optimum.hits(), 1);
        optimum.flush();
        optimum.write(2);
        assert_eq!((optimum.hits(), optimum.writes()), (1, 6));
    }
}
