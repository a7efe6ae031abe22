//! `clock`: second chance (F. J. Corbató, "A Paging Experiment with the Multics System", 1968).
//! `sieve`: a hand passes from old to new pages and evicts the first that was not written again
//! (Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is Simpler than LRU: an Efficient
//! Turn-Key Eviction Algorithm for Web Caches", NSDI 2024).
//!
//! Pages stand in the order in which they came, without a mark. A hit only marks its page: one that was written again
//! gets its chance. When room is needed, the first page from the hand on that is not marked leaves, and the hand takes
//! the mark from a page that it passes.
//!
//! In CLOCK such a page becomes the newest. This is the hand of the clock, written as a queue, so that a discarded page
//! leaves no hole in the ring. In SIEVE it keeps its place. So the hand stays among pages that proved cold, new pages
//! come in far from it only until it has passed the others, and what survives gathers at the old end.

use super::{Eviction, Page, Policy, Settings, list::Lists, pages::Order, pages::Pages, slots::Slots};

/// Pages in the order in which they came; hits move nothing. With `STAYS`, a page that the hand passes keeps its place.
#[derive(serde::Serialize, serde::Deserialize)]
struct Marked<const STAYS: bool> {
    order: Lists,
    marks: Box<[bool]>,
    /// The next slot that `sieve` looks at; without one, the oldest.
    hand: Option<u32>,
}

pub(super) fn clock(settings: &Settings) -> Box<dyn Policy + Send> {
    make::<false>(settings)
}

pub(super) fn sieve(settings: &Settings) -> Box<dyn Policy + Send> {
    make::<true>(settings)
}

fn make<const STAYS: bool>(settings: &Settings) -> Box<dyn Policy + Send> {
    let capacity = settings.capacity_pages;
    let marks = vec![false; capacity].into_boxed_slice();
    Pages::boxed(settings, Marked::<STAYS> { order: Lists::new(capacity, 1), marks, hand: None })
}

impl<const STAYS: bool> Marked<STAYS> {
    /// The hand goes round over the pages that are accepted: the others keep their places and marks.
    /// It stops: every step takes a mark away.
    #[inline]
    fn second_chance(&mut self, slots: &Slots, accepts: impl Fn(Page) -> bool, most: usize) -> Option<u32> {
        loop {
            let slot = self.order.oldest_first(0).take(most).find(|&slot| accepts(slots.key(slot)))?;
            if !std::mem::take(&mut self.marks[slot as usize]) {
                return Some(slot);
            }
            self.order.renew(0, slot);
        }
    }

    /// The first page without a mark, of those that are accepted from the hand on; if all have one, the first
    /// of them. The hand takes the marks of the pages that it passes. It stops at the first page that is not
    /// accepted, and changes nothing behind it.
    fn sift(&mut self, slots: &Slots, accepts: impl Fn(Page) -> bool, most: usize) -> Option<u32> {
        let mut at = self.hand.or_else(|| self.order.back(0));
        let (mut stop, mut first, mut unmarked) = (None, None, None);
        for _ in 0..most.min(slots.len()) {
            let Some(slot) = at else { break };
            let marked = &mut self.marks[slot as usize];
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
}

impl<const STAYS: bool> Order for Marked<STAYS> {
    #[inline]
    fn insert(&mut self, slot: u32, _page: Page) {
        self.marks[slot as usize] = false;
        self.order.push_front(0, slot);
    }

    #[inline]
    fn hit(&mut self, slot: u32, _page: Page) {
        self.marks[slot as usize] = true;
    }

    /// A hand that is at the slot goes on to the next newer one.
    #[inline]
    fn remove(&mut self, slot: u32) {
        if STAYS && self.hand == Some(slot) {
            self.hand = self.order.newer(slot);
        }
        self.order.unlink(slot);
    }

    #[inline]
    fn victim(&mut self, slots: &Slots, accepts: impl Fn(Page) -> bool, most: usize) -> Option<u32> {
        if STAYS { self.sift(slots, accepts, most) } else { self.second_chance(slots, accepts, most) }
    }

    /// From the oldest page on, whatever is marked.
    fn drain(&mut self, slots: &mut Slots, evicted: &mut Vec<Eviction>) {
        while let Some(slot) = self.order.back(0) {
            self.evict_slot(slot, slots, evicted);
        }
    }
}
