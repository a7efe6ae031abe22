//! `epo-all`: element-parallel order, one page of every element at once.
//!
//! As `epo`, but when room is needed every element that has a page gives its oldest, in the order
//! of the elements: a stripe as wide as the drive, after which the buffer has room for as many
//! pages. Inferred, as `epo` is: the other reading of the same abstract.

use super::{
    Access, DestageTargets, DriveState, Error, Eviction, Page, Policy, Settings, per_element_lru::PerElementLru,
};

#[derive(serde::Serialize, serde::Deserialize)]
struct EpoAll {
    held: PerElementLru,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    let wanted = settings.layout.elements as usize;
    settings.need("epo-all", wanted, "one for each element")?;
    Ok(Box::new(EpoAll { held: PerElementLru::new(settings) }))
}

impl EpoAll {
    /// Evicts a page of every element that is `ready` and has one; `false`: there is none.
    fn evict(&mut self, ready: impl Fn(u32) -> bool, evicted: &mut Vec<Eviction>) -> bool {
        let mut any = false;
        for element in (0..self.held.elements()).filter(|&element| ready(element)) {
            any |= self.held.evict(element, evicted);
        }
        any
    }
}

impl Policy for EpoAll {
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

    /// Each element gives a page however few there are: a small buffer loses a larger share of them.
    fn can_be_sampled(&self) -> bool {
        false
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        self.evict(|element| targets.ready[element as usize], evicted)
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while self.evict(|_| true, evicted) {}
    }
}
