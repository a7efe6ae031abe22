//! What first in, first out and least recently used share: one line of pages.

use super::{
    Access, DestageTargets, DriveState, Eviction, Page, Policy, destage::SEARCH_PAGES, list::Lists, slots::Slots,
};

/// Pages in one line: new ones join in front, the last one leaves. With `RENEWS`, a page that is
/// written again goes to the front.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Queue<const RENEWS: bool> {
    slots: Slots,
    order: Lists,
}

impl<const RENEWS: bool> Queue<RENEWS> {
    pub fn new(capacity: usize) -> Self {
        Self { slots: Slots::new(capacity), order: Lists::new(capacity, 1) }
    }

    #[inline]
    fn evict(&mut self, slot: Option<u32>, evicted: &mut Vec<Eviction>) -> bool {
        let Some(slot) = slot else {
            return false;
        };
        self.order.unlink(slot);
        evicted.push(Eviction::of(self.slots.remove(slot)));
        true
    }
}

impl<const RENEWS: bool> Policy for Queue<RENEWS> {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        if let Some(slot) = self.slots.find(page) {
            if RENEWS {
                self.order.renew(0, slot);
            }
            return Access::Hit;
        }
        if self.slots.is_full() {
            self.evict(self.order.back(0), evicted);
        }
        if let Some(slot) = self.slots.insert(page) {
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
            self.order.unlink(slot);
            self.slots.remove(slot);
        }
        found.is_some()
    }

    fn len(&self) -> usize {
        self.slots.len()
    }

    fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        let accepts = |&slot: &u32| targets.accepts(self.slots.key(slot));
        let victim = self.order.oldest_first(0).take(SEARCH_PAGES).find(accepts);
        self.evict(victim, evicted)
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while self.evict(self.order.back(0), evicted) {}
    }
}
