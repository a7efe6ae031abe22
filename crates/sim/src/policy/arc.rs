//! `arc`: adaptive replacement (N. Megiddo, D. S. Modha, "ARC: A Self-Tuning, Low Overhead
//! Replacement Cache", FAST 2003, figure 4).
//!
//! Pages written once and pages written again stand in a list each, in order of last write, and the numbers of those
//! that left are remembered in two more. A page that returns while it is remembered left too early: its kind gets more
//! slots, the more of them the rarer its kind is among what is remembered.
//!
//! Memory: numbers of as many pages as are held; 160 to 290 bytes a page in all.

use super::{Access, DestageTargets, DriveState, Error, Eviction, Page, Policy, Settings, segments::Segments};

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

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("arc", 1, "it keeps pages")?;
    let capacity = settings.capacity_pages;
    Ok(Box::new(Arc { segments: Segments::new(2 * capacity, 4), capacity, recent_target: 0.0 }))
}

impl Arc {
    /// Takes a page out of the oldest of a list, and keeps its number.
    fn evict(&mut self, slot: u32, list: u8, evicted: &mut Vec<Eviction>) {
        let ghost = [RECENT_GHOST, FREQUENT_GHOST][usize::from(list)];
        evicted.push(Eviction::of(self.segments.page(slot)));
        self.segments.renew(slot, ghost);
    }

    /// The list that gives the next victim, and the other one. `returns`: the page that needs
    /// space is one of `FREQUENT_GHOST`.
    fn turn(&self, returns: bool) -> [u8; 2] {
        let recent = self.segments.len(RECENT) as f64;
        if recent > self.recent_target || (returns && recent >= self.recent_target) {
            [RECENT, FREQUENT]
        } else {
            [FREQUENT, RECENT]
        }
    }

    /// REPLACE of the paper, where a slot is needed.
    fn replace(&mut self, returns: bool, evicted: &mut Vec<Eviction>) {
        if self.len() < self.capacity {
            return;
        }
        let mut turn = self.turn(returns).into_iter();
        let oldest = |list| self.segments.oldest(list).map(|slot| (slot, list));
        if let Some((slot, list)) = turn.find_map(oldest) {
            self.evict(slot, list, evicted);
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
        self.replace(false, evicted);
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
                self.replace(ghost == FREQUENT_GHOST, evicted);
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
        let found = self.segments.find(page);
        found.is_some_and(|(_, list)| list <= FREQUENT)
    }

    fn discard(&mut self, page: Page) -> bool {
        let found = self.segments.find(page);
        let held = found.filter(|&(_, list)| list <= FREQUENT);
        if let Some((slot, _)) = held {
            self.segments.remove(slot);
        }
        held.is_some()
    }

    fn len(&self) -> usize {
        self.segments.len(RECENT) + self.segments.len(FREQUENT)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        let mut turn = self.turn(false).into_iter();
        let oldest = |list| {
            let slot = self.segments.oldest_ready(list, targets);
            slot.map(|slot| (slot, list))
        };
        let victim = turn.find_map(oldest);
        if let Some((slot, list)) = victim {
            self.evict(slot, list, evicted);
        }
        victim.is_some()
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while !self.is_empty() {
            for list in self.turn(false) {
                if let Some(slot) = self.segments.oldest(list) {
                    self.evict(slot, list, evicted);
                    break;
                }
            }
        }
    }
}
