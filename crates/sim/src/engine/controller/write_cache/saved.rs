//! Checks of a write cache that was read.

use std::collections::BTreeMap;

use super::{NONE, Stage, WriteCache};
use crate::Error;
use crate::policy::Page;
use crate::state::ensure;

impl WriteCache {
    /// Whether it can be the cache of a drive with `pages` and a cache of this `capacity`.
    pub fn check(&self, capacity: usize, pages: u32) -> Result<(), Error> {
        ensure(self.capacity == capacity && self.arrivals < u64::MAX / 2, "its write cache is that of another drive")?;
        // Each slot is free, staged, or one of a version of its page.
        let mut is_used = vec![true; self.slots.len()];
        for &slot in &self.free {
            let used = is_used.get_mut(slot as usize);
            ensure(used.is_some_and(std::mem::take), "a slot of its write cache is free twice")?;
        }
        let mut is_staged = vec![false; self.slots.len()];
        for &slot in &self.staged {
            let in_use = is_used.get(slot as usize) == Some(&true);
            ensure(
                in_use && !std::mem::replace(&mut is_staged[slot as usize], true),
                "a slot of its write cache is staged twice",
            )?;
        }
        let mut versions: BTreeMap<(Page, u64), u32> = BTreeMap::new();
        for (number, slot) in (0..).zip(&self.slots) {
            if !is_used[number as usize] {
                continue;
            }
            let staged = matches!(slot.stage, Stage::Staged | Stage::Dropped);
            ensure(
                staged == is_staged[number as usize] && slot.page < pages && slot.arrival < self.arrivals,
                "a slot of its write cache is impossible",
            )?;
            if slot.stage != Stage::Dropped {
                let other = versions.insert((slot.page, slot.arrival), number);
                ensure(other.is_none(), "two slots of its write cache are one")?;
            }
        }
        self.check_versions(&versions)?;
        self.check_counts(&versions)?;
        let known = |&(_, page): &(u32, Page)| page < pages;
        ensure(self.waiting.iter().all(known), "a page that waits is nowhere on the drive")
    }

    /// Versions of a page are linked in the order of their arrival.
    fn check_versions(&self, versions: &BTreeMap<(Page, u64), u32>) -> Result<(), Error> {
        let what = "the versions of a page are not in order";
        let mut newest = BTreeMap::new();
        for (&(page, _), &number) in versions {
            let slot = &self.slots[number as usize];
            let older = newest.insert(page, number).unwrap_or(NONE);
            let follows = older == NONE || self.slots[older as usize].newer == number;
            ensure(slot.older == older && follows, what)?;
            ensure(slot.stage != Stage::Programmed || older != NONE, what)?;
        }
        let ends = |&number: &u32| self.slots[number as usize].newer == NONE;
        ensure(newest == self.newest && newest.values().all(ends), what)
    }

    fn check_counts(&self, versions: &BTreeMap<(Page, u64), u32>) -> Result<(), Error> {
        let live = || versions.values().map(|&number| self.slots[number as usize]);
        let staged = live().filter(|slot| slot.stage == Stage::Staged).count();
        let used = live().filter(|slot| slot.request == NONE).count();
        ensure(
            staged == self.staged_pages
                && used == self.used
                && used <= self.capacity
                && live().count() as u64 == self.live,
            "the counts of its write cache are not those of its slots",
        )?;
        for flush in &self.flushes {
            let before = |slot: &super::Slot| slot.arrival < flush.arrivals;
            let left = live().filter(before).count() as u64;
            ensure(left == flush.slots_left && left > 0 && flush.arrivals <= self.urgent, "a flush waits for nothing")?;
        }
        ensure(self.urgent <= self.arrivals, "a flush is to come")
    }

    /// The slots in use, page by page.
    fn versions(&self) -> impl Iterator<Item = u32> {
        self.newest.values().flat_map(|&newest| {
            std::iter::successors(Some(newest), |&slot| {
                Some(self.slots[slot as usize].older).filter(|&older| older != NONE)
            })
        })
    }

    /// The slots that belong to program units.
    pub fn placed(&self) -> impl Iterator<Item = u32> {
        let is_placed = |slot: &u32| self.slots[*slot as usize].stage == Stage::Placed;
        self.versions().filter(is_placed)
    }

    /// Requests whose pages wait for room, or until they are programmed, once for each page.
    pub fn writes_that_wait(&self) -> impl Iterator<Item = u32> {
        let of_slots = self.versions().map(|slot| self.slots[slot as usize].request);
        let waiting = self.waiting.iter().map(|&(request, _)| request);
        waiting.chain(of_slots.filter(|&request| request != NONE))
    }

    /// Requests whose flush is not complete.
    pub fn flushes_that_wait(&self) -> impl Iterator<Item = u32> {
        self.flushes.iter().map(|flush| flush.request)
    }
}
