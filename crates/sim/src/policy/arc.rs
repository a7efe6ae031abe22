//! `arc`: adaptive replacement (N. Megiddo, D. S. Modha, "ARC: A Self-Tuning, Low Overhead
//! Replacement Cache", FAST 2003, figure 4).
//!
//! Pages written once and pages written again stand in a list each, in order of last write, and the numbers of those
//! that left are remembered in two more. A page that returns while it is remembered left too early: its kind gets more
//! slots, the more of them the rarer its kind is among what is remembered.
//!
//! Memory: numbers of as many pages as are held; 160 to 290 bytes a page in all.

use super::{Access, DestageTargets, DriveState, Eviction, Page, Policy, Settings, segments::Segments};

/// Written once; written again while held or remembered: T1 and T2 of the paper.
const RECENT: u8 = 0;
const FREQUENT: u8 = 1;
/// Numbers of pages that left these: B1 and B2.
const RECENT_GHOST: u8 = 2;
const FREQUENT_GHOST: u8 = 3;

#[derive(serde::Serialize, serde::Deserialize)]
struct Arc {
    segments: Segments,
    capacity: usize,
    /// Slots that pages written once should have: p of the paper.
    recent_target: f64,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let capacity = settings.capacity_pages;
    Box::new(Arc { segments: Segments::new(2 * capacity, 4), capacity, recent_target: 0.0 })
}

impl Arc {
    /// Evicts the page that `oldest` names in the list whose turn it is, or else in the other one, and keeps its
    /// number: REPLACE of the paper. `returns`: the page that needs space is one of `FREQUENT_GHOST`.
    #[inline]
    fn evict_oldest(
        &mut self,
        returns: bool,
        oldest: impl Fn(&Segments, u8) -> Option<u32>,
        evicted: &mut Vec<Eviction>,
    ) -> bool {
        let recent = self.segments.len(RECENT) as f64;
        let is_recent = recent > self.recent_target || (returns && recent >= self.recent_target);
        let order = if is_recent { [RECENT, FREQUENT] } else { [FREQUENT, RECENT] };
        let victim = order.into_iter().find_map(|list| Some((oldest(&self.segments, list)?, list)));
        if let Some((slot, list)) = victim {
            evicted.push(Eviction::of(self.segments.page(slot)));
            self.segments.renew(slot, [RECENT_GHOST, FREQUENT_GHOST][usize::from(list)]);
        }
        victim.is_some()
    }

    /// Evicts a page where a slot is needed.
    fn evict_if_full(&mut self, returns: bool, evicted: &mut Vec<Eviction>) {
        if self.len() == self.capacity {
            self.evict_oldest(returns, Segments::oldest, evicted);
        }
    }

    /// Moves the target by what one return is worth: at least a slot.
    fn adapt(&mut self, ghost: u8) {
        let length = |ghost| self.segments.len(ghost) as f64;
        let ratio = length(FREQUENT_GHOST) / length(RECENT_GHOST);
        let target = if ghost == RECENT_GHOST {
            self.recent_target + ratio.max(1.0)
        } else {
            self.recent_target - ratio.recip().max(1.0)
        };
        self.recent_target = target.clamp(0.0, self.capacity as f64);
    }

    /// Makes room for a page that is neither held nor remembered: case IV of the paper.
    fn make_room(&mut self, evicted: &mut Vec<Eviction>) {
        let recent = self.segments.len(RECENT);
        let remembered = self.segments.len(RECENT_GHOST);
        if recent == self.capacity {
            // All that is held was written once: nothing of it would be remembered.
            if let Some(slot) = self.segments.oldest(RECENT) {
                evicted.push(Eviction::of(self.segments.page(slot)));
                self.segments.remove(slot);
            }
            return;
        }
        let all = self.len() + remembered + self.segments.len(FREQUENT_GHOST);
        if recent + remembered == self.capacity {
            self.forget(RECENT_GHOST);
        } else if all == 2 * self.capacity {
            self.forget(FREQUENT_GHOST);
        }
        self.evict_if_full(false, evicted);
    }

    fn forget(&mut self, ghost: u8) {
        if let Some(slot) = self.segments.oldest(ghost) {
            self.segments.remove(slot);
        }
    }
}

impl Policy for Arc {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        match self.segments.find(page) {
            Some((slot, ghost @ (RECENT_GHOST | FREQUENT_GHOST))) => {
                self.adapt(ghost);
                self.evict_if_full(ghost == FREQUENT_GHOST, evicted);
                self.segments.renew(slot, FREQUENT);
                Access::Miss
            }
            Some((slot, _)) => {
                self.segments.renew(slot, FREQUENT);
                Access::Hit
            }
            None => {
                self.make_room(evicted);
                self.segments.insert(page, RECENT);
                Access::Miss
            }
        }
    }

    fn holds(&self, page: Page) -> bool {
        self.segments.find_held(page).is_some()
    }

    fn discard(&mut self, page: Page) -> bool {
        self.segments.discard(page)
    }

    fn len(&self) -> usize {
        self.segments.held()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        self.evict_oldest(false, |segments, list| segments.oldest_ready(list, targets), evicted)
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while self.evict_oldest(false, Segments::oldest, evicted) {}
    }
}
