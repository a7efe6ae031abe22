//! One LRU list of pages per element: the basis of `epo` and `epo-all`.

use std::num::NonZeroU32;

use super::{Eviction, Page, Settings, list::Lists, slots::Slots};
use crate::divide::Divisor;

/// A buffer's pages, in one LRU list per element.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct PerElementLru {
    pub(super) slots: Slots,
    lists: Lists,
    elements: Divisor,
}

impl PerElementLru {
    pub(super) fn new(settings: &Settings) -> Self {
        let elements = NonZeroU32::new(settings.layout.elements).unwrap_or(NonZeroU32::MIN);
        Self {
            slots: Slots::new(settings.capacity_pages),
            lists: Lists::new(settings.capacity_pages, elements.get() as usize),
            elements: Divisor::new(elements),
        }
    }

    pub(super) fn elements(&self) -> u32 {
        self.elements.get()
    }

    /// Makes a buffered page its element's most recent; returns false if it is not buffered.
    #[inline]
    pub(super) fn touch(&mut self, page: Page) -> bool {
        let found = self.slots.find(page);
        if let Some(slot) = found {
            self.lists.renew(self.elements.rem(page), slot);
        }
        found.is_some()
    }

    /// Inserts a page that is not buffered.
    #[inline]
    pub(super) fn insert(&mut self, page: Page) {
        if let Some(slot) = self.slots.insert(page) {
            self.lists.push_front(self.elements.rem(page), slot);
        }
    }

    /// Evicts the oldest page of an element, if it has one.
    #[inline]
    pub(super) fn evict(&mut self, element: u32, evicted: &mut Vec<Eviction>) -> bool {
        let back = self.lists.back(element);
        if let Some(slot) = back {
            self.lists.unlink(slot);
            evicted.push(Eviction::of(self.slots.remove(slot)));
        }
        back.is_some()
    }

    pub(super) fn discard(&mut self, page: Page) -> bool {
        let found = self.slots.find(page);
        if let Some(slot) = found {
            self.lists.unlink(slot);
            self.slots.remove(slot);
        }
        found.is_some()
    }
}
