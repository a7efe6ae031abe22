//! `clock`: second chance (F. J. Corbató, "A Paging Experiment with the Multics System", 1968).
//!
//! Pages stand in the order in which they came. A hit only marks its page. When room is needed,
//! the oldest page leaves if it is not marked; a marked one loses its mark and becomes the newest.
//! That is the clock's hand going round, written as a queue: so a page that was discarded leaves
//! no hole in the ring. A page comes unmarked: only one that was written again gets its chance.

use super::{Access, Error, Eviction, Outlook, Page, Policy, Settings, list::Lists, slots::Places};

struct Clock {
    places: Places,
    order: Lists,
    marked: Box<[bool]>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("clock", 1, "it keeps pages")?;
    let capacity = settings.capacity_pages;
    Ok(Box::new(Clock {
        places: Places::new(capacity),
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
                evicted.push(Eviction::of(self.places.leave(slot)));
                return;
            }
            self.order.renew(0, slot);
        }
    }
}

impl Policy for Clock {
    fn write(&mut self, page: Page, _outlook: &Outlook<'_>, evicted: &mut Vec<Eviction>) -> Access {
        if let Some(slot) = self.places.find(page) {
            self.marked[slot as usize] = true;
            return Access::Hit;
        }
        if self.places.is_full() {
            self.evict(evicted);
        }
        if let Some(slot) = self.places.enter(page) {
            self.marked[slot as usize] = false;
            self.order.push_front(0, slot);
        }
        Access::Miss
    }

    fn holds(&self, page: Page) -> bool {
        self.places.find(page).is_some()
    }

    fn discard(&mut self, page: Page) -> bool {
        let found = self.places.find(page);
        if let Some(slot) = found {
            self.order.unlink(slot);
            self.places.leave(slot);
        }
        found.is_some()
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn capacity(&self) -> usize {
        self.places.capacity()
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while let Some(slot) = self.order.back(0) {
            self.order.unlink(slot);
            evicted.push(Eviction::of(self.places.leave(slot)));
        }
    }
}
