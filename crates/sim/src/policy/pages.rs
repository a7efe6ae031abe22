//! A buffer of single pages whose next victim an [`Order`] names: what `fifo`, `lru`, `clock`, `sieve`, `epo` and
//! `epo-all` share.
//!
//! [`Pages`] knows which page is in which slot, and is the policy. An order knows slots only, and never which are free.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Access, DestageTargets, DriveState, Eviction, Page, Policy, Settings, destage::SEARCH_PAGES, slots::Slots,
};

/// In which order the pages of a buffer leave.
pub(super) trait Order: Serialize + DeserializeOwned {
    /// See [`Policy::can_be_sampled`].
    const CAN_BE_SAMPLED: bool = true;

    /// A page has come to a slot.
    fn insert(&mut self, slot: u32, page: Page);

    /// The page in a slot was written again.
    fn hit(&mut self, slot: u32, page: Page);

    /// The page in a slot leaves.
    fn remove(&mut self, slot: u32);

    /// The slot of the next victim that `accepts` takes, among the first `most` pages.
    fn victim(&mut self, slots: &Slots, accepts: impl Fn(Page) -> bool, most: usize) -> Option<u32>;

    /// Evicts the next victim, and what leaves with it. `false`: there is none.
    #[inline]
    fn evict(
        &mut self,
        slots: &mut Slots,
        accepts: impl Fn(Page) -> bool,
        most: usize,
        evicted: &mut Vec<Eviction>,
    ) -> bool {
        let victim = self.victim(slots, accepts, most);
        if let Some(slot) = victim {
            self.evict_slot(slot, slots, evicted);
        }
        victim.is_some()
    }

    /// Evicts the page in a slot.
    #[inline]
    fn evict_slot(&mut self, slot: u32, slots: &mut Slots, evicted: &mut Vec<Eviction>) {
        self.remove(slot);
        evicted.push(Eviction::of(slots.remove(slot)));
    }

    /// Evicts all pages.
    fn drain(&mut self, slots: &mut Slots, evicted: &mut Vec<Eviction>) {
        while self.evict(slots, |_| true, usize::MAX, evicted) {}
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Pages<O> {
    slots: Slots,
    order: O,
}

impl<O: Order + Send + 'static> Pages<O> {
    pub(super) fn boxed(settings: &Settings, order: O) -> Box<dyn Policy + Send> {
        Box::new(Self { slots: Slots::new(settings.capacity_pages), order })
    }
}

impl<O: Order> Policy for Pages<O> {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        if let Some(slot) = self.slots.find(page) {
            self.order.hit(slot, page);
            return Access::Hit;
        }
        if self.slots.is_full() {
            self.order.evict(&mut self.slots, |_| true, usize::MAX, evicted);
        }
        if let Some(slot) = self.slots.insert(page) {
            self.order.insert(slot, page);
        }
        Access::Miss
    }

    fn holds(&self, page: Page) -> bool {
        self.slots.find(page).is_some()
    }

    fn discard(&mut self, page: Page) -> bool {
        let found = self.slots.find(page);
        if let Some(slot) = found {
            self.order.remove(slot);
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

    fn can_be_sampled(&self) -> bool {
        O::CAN_BE_SAMPLED
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        self.order.evict(&mut self.slots, |page| targets.accepts(page), SEARCH_PAGES, evicted)
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        self.order.drain(&mut self.slots, evicted);
    }
}
