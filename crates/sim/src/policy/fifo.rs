//! `fifo`: the page that came first leaves first, however often it was written since.

use super::{
    Access, Error, Eviction, Outlook, Page, Policy, Settings, list::Lists, places::Places,
};

struct Fifo {
    places: Places,
    order: Lists,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("fifo", 1, "it keeps pages")?;
    let capacity = settings.capacity_pages;
    Ok(Box::new(Fifo {
        places: Places::new(capacity),
        order: Lists::new(capacity, 1),
    }))
}

impl Fifo {
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

impl Policy for Fifo {
    fn write(&mut self, page: Page, _outlook: &Outlook<'_>, evicted: &mut Vec<Eviction>) -> Access {
        if self.places.find(page).is_some() {
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
