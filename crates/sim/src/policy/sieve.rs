//! `sieve`: a hand passes from old to new pages and evicts the first that was not written again
//! (Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is Simpler than LRU: an Efficient
//! Turn-Key Eviction Algorithm for Web Caches", NSDI 2024).
//!
//! As in CLOCK, a hit only marks its page, and the hand takes the mark from a page that it passes. Unlike there, that
//! page keeps its place. So the hand stays among pages that proved cold, new pages come in far from it only until it
//! has passed the others, and what survives gathers at the old end.

use super::{Eviction, Page, Policy, Settings, list::Lists, pages::Order, pages::Pages, slots::Slots};

#[derive(serde::Serialize, serde::Deserialize)]
struct Sieve {
    /// In the order in which pages came; hits move nothing.
    order: Lists,
    marked: Box<[bool]>,
    /// The next slot to look at; without one, the oldest.
    hand: Option<u32>,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let capacity = settings.capacity_pages;
    let marked = vec![false; capacity].into_boxed_slice();
    Pages::boxed(settings, Sieve { order: Lists::new(capacity, 1), marked, hand: None })
}

impl Order for Sieve {
    #[inline]
    fn insert(&mut self, slot: u32, _page: Page) {
        self.marked[slot as usize] = false;
        self.order.push_front(0, slot);
    }

    #[inline]
    fn hit(&mut self, slot: u32, _page: Page) {
        self.marked[slot as usize] = true;
    }

    /// A hand that is at the slot goes on to the next newer one.
    fn remove(&mut self, slot: u32) {
        if self.hand == Some(slot) {
            self.hand = self.order.newer(slot);
        }
        self.order.unlink(slot);
    }

    /// The first page without a mark, of those that are accepted from the hand on; if all have one, the first
    /// of them. The hand takes the marks of the pages that it passes. It stops at the first page that is not
    /// accepted, and changes nothing behind it.
    fn victim(&mut self, slots: &Slots, accepts: impl Fn(Page) -> bool, most: usize) -> Option<u32> {
        let mut at = self.hand.or_else(|| self.order.back(0));
        let (mut stop, mut first, mut unmarked) = (None, None, None);
        for _ in 0..most.min(slots.len()) {
            let Some(slot) = at else { break };
            let marked = &mut self.marked[slot as usize];
            if !accepts(slots.key(slot)) {
                stop = stop.or(at);
            } else if *marked {
                *marked = stop.is_some();
                first = first.or(at);
            } else {
                unmarked = at;
                break;
            }
            // Behind the newest page the hand comes to the oldest.
            at = self.order.newer(slot).or_else(|| self.order.back(0));
        }
        let victim = unmarked.or(first)?;
        self.hand = stop.or(Some(victim));
        Some(victim)
    }

    /// From the oldest page on, whatever is marked.
    fn drain(&mut self, slots: &mut Slots, evicted: &mut Vec<Eviction>) {
        while let Some(slot) = self.order.back(0) {
            self.evict_slot(slot, slots, evicted);
        }
    }
}
