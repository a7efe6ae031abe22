//! `sieve`: a hand passes from old to new pages and evicts the first that was not written again
//! (Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is Simpler than LRU: an Efficient
//! Turn-Key Eviction Algorithm for Web Caches", NSDI 2024).
//!
//! As in CLOCK, a hit only marks its page, and the hand takes the mark from a page that it passes. Unlike there, that
//! page keeps its place. So the hand stays among pages that proved cold, new pages come in far from it only until it
//! has passed the others, and what survives gathers at the old end.

use super::{
    Access, DestageTargets, DriveState, Error, Eviction, Page, Policy, Settings, destage::SEARCH_PAGES, list::Lists,
    slots::Slots,
};

#[derive(serde::Serialize, serde::Deserialize)]
struct Sieve {
    slots: Slots,
    /// In the order in which pages came; hits move nothing.
    order: Lists,
    marked: Box<[bool]>,
    /// The next slot to look at; without one, the oldest.
    hand: Option<u32>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("sieve", 1, "it keeps pages")?;
    let capacity = settings.capacity_pages;
    Ok(Box::new(Sieve {
        slots: Slots::new(capacity),
        order: Lists::new(capacity, 1),
        marked: vec![false; capacity].into_boxed_slice(),
        hand: None,
    }))
}

impl Sieve {
    /// The slot that the hand comes to after `slot`; behind the newest one, the oldest.
    #[inline]
    fn after(&self, slot: u32) -> Option<u32> {
        self.order.newer(slot).or_else(|| self.order.back(0))
    }

    /// Takes a slot out; a hand that is there goes on to the next newer one.
    fn remove(&mut self, slot: u32) -> Page {
        if self.hand == Some(slot) {
            self.hand = self.order.newer(slot);
        }
        self.order.unlink(slot);
        self.slots.remove(slot)
    }

    /// Evicts the first page without a mark, of those that are accepted among the first `most` from
    /// the hand on; if all have one, the first of them. The hand takes the marks of the pages that
    /// it passes, and stops at one that is not accepted.
    fn evict(&mut self, most: usize, accepts: impl Fn(Page) -> bool, evicted: &mut Vec<Eviction>) -> bool {
        let mut at = self.hand.or_else(|| self.order.back(0));
        let (mut stop, mut first, mut unmarked) = (None, None, None);
        for _ in 0..most.min(self.slots.len()) {
            let Some(slot) = at else { break };
            let marked = &mut self.marked[slot as usize];
            if !accepts(self.slots.key(slot)) {
                stop = stop.or(at);
            } else if *marked {
                *marked = stop.is_some();
                first = first.or(at);
            } else {
                unmarked = at;
                break;
            }
            at = self.after(slot);
        }
        let Some(victim) = unmarked.or(first) else {
            return false;
        };
        self.hand = stop.or(Some(victim));
        let page = self.remove(victim);
        evicted.push(Eviction::of(page));
        true
    }
}

impl Policy for Sieve {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        if let Some(slot) = self.slots.find(page) {
            self.marked[slot as usize] = true;
            return Access::Hit;
        }
        if self.slots.is_full() {
            self.evict(usize::MAX, |_| true, evicted);
        }
        if let Some(slot) = self.slots.insert(page) {
            self.marked[slot as usize] = false;
            self.order.push_front(0, slot);
        }
        Access::Miss
    }

    fn holds(&self, page: Page) -> bool {
        self.slots.find(page).is_some()
    }

    fn discard(&mut self, page: Page) -> bool {
        let found = self.slots.find(page);
        if let Some(slot) = found {
            self.remove(slot);
        }
        found.is_some()
    }

    fn len(&self) -> usize {
        self.slots.len()
    }

    fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// The hand waits for the first page of an element that is not ready, and changes nothing behind it.
    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        self.evict(SEARCH_PAGES, |page| targets.accepts(page), evicted)
    }

    /// From the oldest page on, whatever is marked.
    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while let Some(slot) = self.order.back(0) {
            let page = self.remove(slot);
            evicted.push(Eviction::of(page));
        }
    }
}
