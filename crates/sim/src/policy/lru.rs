//! `lru`: the page whose last write is longest ago leaves.

use super::{
    Access, Error, Eviction, Outlook, Page, Policy, Settings, list::Lists, places::Places,
};

struct Lru {
    places: Places,
    order: Lists,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("lru", 1, "it keeps pages")?;
    let capacity = settings.capacity_pages;
    Ok(Box::new(Lru {
        places: Places::new(capacity),
        order: Lists::new(capacity, 1),
    }))
}

impl Lru {
    #[inline]
    fn evict(&mut self, evicted: &mut Vec<Eviction>) -> bool {
        let Some(slot) = self.order.back(0) else {
            return false;
        };
        self.order.unlink(slot);
        evicted.push(Eviction::of(self.places.leave(slot)));
        true
    }
}

impl Policy for Lru {
    fn write(&mut self, page: Page, _outlook: &Outlook<'_>, evicted: &mut Vec<Eviction>) -> Access {
        if let Some(slot) = self.places.find(page) {
            self.order.renew(0, slot);
            return Access::Hit;
        }
        if self.places.is_full() {
            self.evict(evicted);
        }
        if let Some(slot) = self.places.enter(page) {
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
        while self.evict(evicted) {}
    }
}
