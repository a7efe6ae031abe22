//! `clock`: second chance (F. J. Corbató, "A Paging Experiment with the Multics System", 1968).
//!
//! Pages stand in the order in which they came. A hit only marks its page. When room is needed,
//! the oldest page leaves if it is not marked; a marked one loses its mark and becomes the newest.
//! This is the hand of the clock, written as a queue, so that a discarded page leaves no hole in the
//! ring. A page comes unmarked: only one that was written again gets its chance.

use super::{Eviction, Page, Policy, Settings, list::Lists, pages::Order, pages::Pages, slots::Slots};

#[derive(serde::Serialize, serde::Deserialize)]
struct Clock {
    order: Lists,
    marked: Box<[bool]>,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let capacity = settings.capacity_pages;
    let marked = vec![false; capacity].into_boxed_slice();
    Pages::boxed(settings, Clock { order: Lists::new(capacity, 1), marked })
}

impl Order for Clock {
    #[inline]
    fn insert(&mut self, slot: u32, _page: Page) {
        self.marked[slot as usize] = false;
        self.order.push_front(0, slot);
    }

    #[inline]
    fn hit(&mut self, slot: u32, _page: Page) {
        self.marked[slot as usize] = true;
    }

    #[inline]
    fn remove(&mut self, slot: u32) {
        self.order.unlink(slot);
    }

    /// The hand goes round over the pages that are accepted: the others keep their places and marks.
    /// It stops: every step takes a mark away.
    #[inline]
    fn victim(&mut self, slots: &Slots, accepts: impl Fn(Page) -> bool, most: usize) -> Option<u32> {
        loop {
            let slot = self.order.oldest_first(0).take(most).find(|&slot| accepts(slots.key(slot)))?;
            if !std::mem::take(&mut self.marked[slot as usize]) {
                return Some(slot);
            }
            self.order.renew(0, slot);
        }
    }

    /// From the oldest page on, whatever is marked.
    fn drain(&mut self, slots: &mut Slots, evicted: &mut Vec<Eviction>) {
        while let Some(slot) = self.order.back(0) {
            self.evict_slot(slot, slots, evicted);
        }
    }
}
