//! `epo` and `epo-all`: element-parallel order, one page at a time, or one page of every element at once.
//!
//! A page belongs to the list of its element; a write makes it the newest there. When room is needed, `epo` evicts
//! the oldest page of the next list, round robin over the elements, so that consecutive evictions go to different
//! elements and are programmed at the same time. With `epo-all` every element that has a page gives its oldest, in the
//! order of the elements: a stripe as wide as the drive, after which the buffer has room for as many pages.
//!
//! Inferred: the published abstract (EPO, MSST 2011) says that write requests are reordered to exploit element-level
//! parallelism, and no more. That there is one list an element, in order of last write, and that elements take
//! turns, is our reading; `epo-all` is the other one.

use super::{Eviction, Page, Policy, Settings, list::Lists, pages::Order, pages::Pages, slots::Slots};
use crate::divide::Divisor;

/// One LRU list of pages per element.
#[derive(serde::Serialize, serde::Deserialize)]
struct Epo<const ALL: bool> {
    lists: Lists,
    elements: Divisor,
    /// The element whose turn it is.
    turn: u32,
}

pub(super) fn epo(settings: &Settings) -> Box<dyn Policy + Send> {
    make::<false>(settings)
}

pub(super) fn epo_all(settings: &Settings) -> Box<dyn Policy + Send> {
    make::<true>(settings)
}

fn make<const ALL: bool>(settings: &Settings) -> Box<dyn Policy + Send> {
    let elements = settings.layout.elements;
    let lists = Lists::new(settings.capacity_pages, elements as usize);
    Pages::boxed(settings, Epo::<ALL> { lists, elements: Divisor::new(elements), turn: 0 })
}

impl<const ALL: bool> Order for Epo<ALL> {
    /// In `epo-all` each element gives a page, however few it has: a small buffer loses a larger share of its pages.
    const CAN_BE_SAMPLED: bool = !ALL;

    #[inline]
    fn insert(&mut self, slot: u32, page: Page) {
        self.lists.push_front(self.elements.rem(page), slot);
    }

    #[inline]
    fn hit(&mut self, slot: u32, page: Page) {
        self.lists.renew(self.elements.rem(page), slot);
    }

    #[inline]
    fn remove(&mut self, slot: u32) {
        self.lists.unlink(slot);
    }

    /// The oldest page of the next element. Elements without a page that is accepted lose their turn; if there is
    /// none at all, the turn is where it was.
    #[inline]
    fn victim(&mut self, slots: &Slots, accepts: impl Fn(Page) -> bool, _most: usize) -> Option<u32> {
        let elements = self.elements.get();
        (0..elements).find_map(|_| {
            let element = self.turn;
            self.turn = if element + 1 == elements { 0 } else { element + 1 };
            self.lists.back(element).filter(|&slot| accepts(slots.key(slot)))
        })
    }

    #[inline]
    fn evict(
        &mut self,
        slots: &mut Slots,
        accepts: impl Fn(Page) -> bool,
        most: usize,
        evicted: &mut Vec<Eviction>,
    ) -> bool {
        if !ALL {
            return self.victim(slots, accepts, most).map(|slot| self.evict_slot(slot, slots, evicted)).is_some();
        }
        let before = evicted.len();
        for element in 0..self.elements.get() {
            if let Some(slot) = self.lists.back(element).filter(|&slot| accepts(slots.key(slot))) {
                self.evict_slot(slot, slots, evicted);
            }
        }
        evicted.len() > before
    }
}
