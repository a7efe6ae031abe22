//! Pages in lists of their elements, each in the order of the last write: what `epo` and `epo-all`
//! stand on.

use std::num::NonZeroU32;

use super::{Eviction, Page, Settings, list::Lists, slots::Places};
use crate::divide::Divisor;

/// A buffer's pages, one list an element.
#[derive(Debug)]
pub(super) struct ByElement {
    pub(super) places: Places,
    lists: Lists,
    elements: Divisor,
}

impl ByElement {
    pub(super) fn new(settings: &Settings) -> Self {
        let elements = NonZeroU32::new(settings.layout.elements).unwrap_or(NonZeroU32::MIN);
        Self {
            places: Places::new(settings.capacity_pages),
            lists: Lists::new(settings.capacity_pages, elements.get() as usize),
            elements: Divisor::new(elements),
        }
    }

    pub(super) fn elements(&self) -> u32 {
        self.elements.get()
    }

    /// Makes a page that is there its element's newest.
    #[inline]
    pub(super) fn touch(&mut self, page: Page) -> bool {
        let found = self.places.find(page);
        if let Some(slot) = found {
            self.lists.renew(self.elements.rem(page), slot);
        }
        found.is_some()
    }

    /// Takes a page in that is not there.
    #[inline]
    pub(super) fn enter(&mut self, page: Page) {
        if let Some(slot) = self.places.enter(page) {
            self.lists.push_front(self.elements.rem(page), slot);
        }
    }

    /// Evicts the oldest page of an element, if it has one.
    #[inline]
    pub(super) fn evict(&mut self, element: u32, evicted: &mut Vec<Eviction>) -> bool {
        let back = self.lists.back(element);
        if let Some(slot) = back {
            self.lists.unlink(slot);
            evicted.push(Eviction::of(self.places.leave(slot)));
        }
        back.is_some()
    }

    pub(super) fn discard(&mut self, page: Page) -> bool {
        let found = self.places.find(page);
        if let Some(slot) = found {
            self.lists.unlink(slot);
            self.places.leave(slot);
        }
        found.is_some()
    }
}
