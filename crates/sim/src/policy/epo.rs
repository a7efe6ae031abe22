//! `epo`: element-parallel order, one page at a time.
//!
//! A page belongs to the list of its element; a write makes it the newest there. When room is
//! needed, the oldest page of the next list leaves, round robin over the elements, so that
//! consecutive evictions go to different elements and are programmed at the same time.
//!
//! Inferred: the published abstract (EPO, MSST 2011) says that write requests are reordered to
//! exploit element-level parallelism, and no more. That there is one list an element, in order of
//! last write, and that elements take turns, is our reading; `epo-all` is the other one.

use super::{
    Access, DestageTargets, DriveState, Error, Eviction, Page, Policy, Settings, per_element_lru::PerElementLru,
};

#[derive(serde::Serialize, serde::Deserialize)]
struct Epo {
    held: PerElementLru,
    turn: u32,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("epo", 1, "it keeps pages")?;
    Ok(Box::new(Epo { held: PerElementLru::new(settings), turn: 0 }))
}

impl Epo {
    /// Evicts one page of an element that is `ready`. Elements without a page, and those that are
    /// not ready, lose their turn. `false`: there is no such page, and the turn is where it was.
    #[inline]
    fn evict(&mut self, ready: impl Fn(u32) -> bool, evicted: &mut Vec<Eviction>) -> bool {
        let elements = self.held.elements();
        for _ in 0..elements {
            let element = self.turn;
            self.turn = if element + 1 == elements { 0 } else { element + 1 };
            if ready(element) && self.held.evict(element, evicted) {
                return true;
            }
        }
        false
    }
}

impl Policy for Epo {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        if self.held.touch(page) {
            return Access::Hit;
        }
        if self.held.slots.is_full() {
            self.evict(|_| true, evicted);
        }
        self.held.insert(page);
        Access::Miss
    }

    fn holds(&self, page: Page) -> bool {
        self.held.slots.find(page).is_some()
    }

    fn discard(&mut self, page: Page) -> bool {
        self.held.discard(page)
    }

    fn len(&self) -> usize {
        self.held.slots.len()
    }

    fn capacity(&self) -> usize {
        self.held.slots.capacity()
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        self.evict(|element| targets.ready[element as usize], evicted)
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while self.evict(|_| true, evicted) {}
    }
}
