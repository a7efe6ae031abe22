//! `clock`: second chance (F. J. Corbató, "A Paging Experiment with the Multics System", 1968).
//!
//! Pages stand in the order in which they came. A hit only marks its page. When room is needed,
//! the oldest page leaves if it is not marked; a marked one loses its mark and becomes the newest.
//! That is the clock's hand going round, written as a queue: so a page that was discarded leaves
//! no hole in the ring. A page comes unmarked: only one that was written again gets its chance.

use super::{
    Access, DestageTargets, DriveState, Error, Eviction, Page, Policy, Settings, destage::SEARCH_PAGES, list::Lists,
    slots::Slots,
};

#[derive(serde::Serialize, serde::Deserialize)]
struct Clock {
    slots: Slots,
    order: Lists,
    marked: Box<[bool]>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("clock", 1, "it keeps pages")?;
    let capacity = settings.capacity_pages;
    Ok(Box::new(Clock {
        slots: Slots::new(capacity),
        order: Lists::new(capacity, 1),
        marked: vec![false; capacity].into_boxed_slice(),
    }))
}

impl Clock {
    /// Ends: every step takes a mark away.
    fn evict(&mut self, evicted: &mut Vec<Eviction>) {
        while let Some(slot) = self.order.back(0) {
            if !std::mem::take(&mut self.marked[slot as usize]) {
                self.order.unlink(slot);
                evicted.push(Eviction::of(self.slots.remove(slot)));
                return;
            }
            self.order.renew(0, slot);
        }
    }
}

impl Policy for Clock {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        if let Some(slot) = self.slots.find(page) {
            self.marked[slot as usize] = true;
            return Access::Hit;
        }
        if self.slots.is_full() {
            self.evict(evicted);
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

    /// The hand goes round over the pages of ready elements: the others keep their places and marks.
    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        let accepts = |&slot: &u32| targets.accepts(self.slots.key(slot));
        loop {
            let first = self.order.oldest_first(0).take(SEARCH_PAGES).find(accepts);
            let Some(slot) = first else {
                return false;
            };
            if !std::mem::take(&mut self.marked[slot as usize]) {
                self.order.unlink(slot);
                evicted.push(Eviction::of(self.slots.remove(slot)));
                return true;
            }
            self.order.renew(0, slot);
        }
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while let Some(slot) = self.order.back(0) {
            self.order.unlink(slot);
            evicted.push(Eviction::of(self.slots.remove(slot)));
        }
    }
}
