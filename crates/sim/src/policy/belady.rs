//! What no write buffer can exceed: the most write hits that a sequence allows.
//!
//! L. A. Belady's MIN ("A study of replacement algorithms for a virtual-storage computer", IBM
//! Systems Journal 5(2), 1966) with bypass: it knows what comes, and need not keep the page that
//! was just written. A write hits if its page was kept since the write before it; so each pair of
//! successive writes of a page is an interval, and the most hits are the most intervals of which
//! never more than the buffer's pages overlap. Going through them in order of their beginnings and
//! dropping, whenever there is one too many, the one that ends last is optimal (M. C. Carlisle and
//! E. L. Lloyd, "On the k-coloring of intervals", Discrete Applied Mathematics 59, 1995).
//!
//! It is a bound on hits, not on response times: a policy with fewer may be faster.

use std::collections::BinaryHeap;

use super::Page;

/// The most hits that a buffer of `capacity` pages can have on writes of `pages`, in that order.
///
/// Takes O(N log N) time and up to 17 bytes of memory for each of the N writes.
///
/// # Panics
/// With 2^32 writes or more.
#[must_use]
pub fn best_hits(pages: &[Page], capacity: usize) -> u64 {
    let next = next_writes(pages);
    let mut kept = vec![false; pages.len()];
    let mut ends = BinaryHeap::new();
    let (mut open, mut hits) = (0, 0);
    for (now, &end) in next.iter().enumerate() {
        if kept[now] {
            open -= 1;
            hits += 1;
        }
        if end == NEVER {
            continue;
        }
        kept[end as usize] = true;
        open += 1;
        ends.push(end);
        if open > capacity {
            // Ends that have passed lie below those that are to come.
            if let Some(last) = ends.pop() {
                kept[last as usize] = false;
                open -= 1;
            }
        }
    }
    hits
}

/// That the page is not written again.
const NEVER: u32 = u32::MAX;

/// For each write the next one of the same page.
fn next_writes(pages: &[Page]) -> Vec<u32> {
    assert!(
        pages.len() < NEVER as usize,
        "{} writes are too many for the bound",
        pages.len()
    );
    let mut order: Vec<u64> = (0..)
        .zip(pages)
        .map(|(at, &page)| (u64::from(page) << 32) | at)
        .collect();
    order.sort_unstable();
    let mut next = vec![NEVER; pages.len()];
    for pair in order.windows(2) {
        if pair[0] >> 32 == pair[1] >> 32 {
            next[pair[0] as u32 as usize] = pair[1] as u32;
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::best_hits;
    use proptest::prelude::*;

    /// By trying: after every write any pages of those held and the written one may be kept.
    fn by_trying(pages: &[u32], capacity: usize) -> u64 {
        let mut states = std::collections::BTreeMap::from([(0_u32, 0_u64)]);
        for &page in pages {
            let mut after = std::collections::BTreeMap::new();
            for (held, hits) in states {
                let hits = hits + u64::from((held >> page) & 1);
                let most = held | (1 << page);
                for kept in (0..=most)
                    .filter(|kept| kept & !most == 0 && kept.count_ones() as usize <= capacity)
                {
                    let best: &mut u64 = after.entry(kept).or_default();
                    *best = hits.max(*best);
                }
            }
            states = after;
        }
        states.into_values().max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn it_is_the_best_of_all_that_can_be_done(pages in proptest::collection::vec(0_u32..6, 0..14), capacity in 0_usize..4) {
            prop_assert_eq!(best_hits(&pages, capacity), by_trying(&pages, capacity));
        }
    }
}
