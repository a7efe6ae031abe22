//! Pages on their way to flash: received, waiting for a program unit, being programmed.
//!
//! With a cache, a page has a slot from its arrival until it is programmed, and written pages wait for
//! slots in order. Without one, there are as many slots as pages, and each belongs to its request.
//! Versions of a page leave in the order of their arrival.

use std::collections::{BTreeMap, VecDeque};

use crate::policy::Page;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Stage {
    /// Waits for a program unit.
    Staged,
    Placed,
    /// Programmed before an older version.
    Programmed,
    /// Discarded while it was staged.
    Dropped,
}

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Slot {
    page: Page,
    /// The request that completes when it is programmed.
    request: u32,
    arrival: u64,
    stage: Stage,
    /// The version before it, and the one behind it.
    older: u32,
    newer: u32,
}

/// The effect of a page that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Admission {
    /// It replaces a version that is still staged.
    Hit,
    Stored,
    Waits,
}

/// A flush: what arrived before it and is not programmed.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Flush {
    request: u32,
    arrivals: u64,
    slots_left: u64,
}

/// A version of a page that is in flash now.
pub(in crate::engine) struct Programmed {
    pub page: Page,
    /// The request that waited for it; `None` for a page of the cache.
    pub request: Option<u32>,
}

#[derive(Default, Clone, serde::Serialize, serde::Deserialize)]
pub(in crate::engine) struct WriteCache {
    /// Pages; 0: there is no cache.
    capacity: usize,
    used: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: BTreeMap<Page, u32>,
    staged: VecDeque<u32>,
    staged_pages: usize,
    waiting: VecDeque<(u32, Page)>,
    flushes: VecDeque<Flush>,
    /// Slots in use, and slots used so far.
    live: u64,
    arrivals: u64,
    /// Staged pages that arrived before this number do not wait for a whole unit.
    urgent: u64,
}

impl WriteCache {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Pages that wait for a program unit.
    pub fn staged_pages(&self) -> usize {
        self.staged_pages
    }

    /// Whether a read of the page needs no flash.
    #[inline]
    pub fn contains(&self, page: Page) -> bool {
        self.live > 0 && self.newest.contains_key(&page)
    }

    /// A page of a request arrives at the cache.
    pub fn write(&mut self, request: u32, page: Page) -> Admission {
        if let Some(&slot) = self.newest.get(&page) {
            if self.slots[slot as usize].stage == Stage::Staged {
                return Admission::Hit;
            }
        }
        if self.used == self.capacity {
            self.waiting.push_back((request, page));
            return Admission::Waits;
        }
        self.used += 1;
        self.store(page, NONE);
        Admission::Stored
    }

    /// The next page that waited and is in the cache now, with its request.
    pub fn admit(&mut self) -> Option<(u32, Page)> {
        let &(request, page) = self.waiting.front()?;
        if self.used == self.capacity {
            let slot = *self.newest.get(&page)?;
            if self.slots[slot as usize].stage != Stage::Staged {
                return None;
            }
        }
        self.waiting.pop_front();
        self.write(request, page);
        Some((request, page))
    }

    /// A page of a request that completes when it is programmed: it takes no room of the cache. It waits for a whole
    /// unit until the last page of its request is here.
    pub fn write_through(&mut self, request: u32, page: Page, is_last: bool) {
        self.store(page, request);
        if self.capacity > 0 && is_last {
            self.urgent = self.arrivals;
        }
    }

    fn store(&mut self, page: Page, request: u32) {
        let id = self.free.pop().unwrap_or(self.slots.len() as u32);
        let older = self.newest.insert(page, id).unwrap_or(NONE);
        let slot = Slot { page, request, arrival: self.arrivals, stage: Stage::Staged, older, newer: NONE };
        if older != NONE {
            self.slots[older as usize].newer = id;
        }
        if id as usize == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[id as usize] = slot;
        }
        self.staged.push_back(id);
        self.staged_pages += 1;
        self.live += 1;
        self.arrivals += 1;
    }

    /// Drops the staged version of a page; false without one. Requests whose flush that completes are
    /// appended to `flushed`.
    pub fn discard(&mut self, page: Page, flushed: &mut Vec<u32>) -> bool {
        let Some(&id) = self.newest.get(&page) else {
            return false;
        };
        let slot = self.slots[id as usize];
        if slot.stage != Stage::Staged || slot.request != NONE {
            return false;
        }
        self.slots[id as usize].stage = Stage::Dropped;
        self.staged_pages -= 1;
        self.used -= 1;
        if slot.older == NONE {
            self.newest.remove(&page);
        } else {
            self.newest.insert(page, slot.older);
            self.slots[slot.older as usize].newer = NONE;
        }
        self.settle(slot.arrival, flushed);
        true
    }

    /// Whether a program unit of so many pages can be made.
    pub fn has_unit(&mut self, unit_pages: usize) -> bool {
        if self.staged_pages >= unit_pages {
            return true;
        }
        if self.staged_pages == 0 {
            return false;
        }
        while let Some(&id) = self.staged.front() {
            let slot = &self.slots[id as usize];
            if slot.stage == Stage::Staged {
                return self.capacity == 0 || slot.arrival < self.urgent;
            }
            self.staged.pop_front();
            self.free.push(id);
        }
        false
    }

    /// Takes the oldest staged pages, as many as a unit has, and appends their slots and pages.
    pub fn take_unit(&mut self, unit_pages: usize, unit: &mut Vec<u32>, pages: &mut Vec<Page>) {
        while unit.len() < unit_pages {
            let Some(id) = self.staged.pop_front() else {
                return;
            };
            let slot = &mut self.slots[id as usize];
            if slot.stage == Stage::Dropped {
                self.free.push(id);
                continue;
            }
            slot.stage = Stage::Placed;
            self.staged_pages -= 1;
            unit.push(id);
            pages.push(slot.page);
        }
    }

    /// Whether a request waits for the slot.
    pub fn is_of_request(&self, slot: u32) -> bool {
        self.slots[slot as usize].request != NONE
    }

    /// The page of a slot.
    pub fn page_of(&self, slot: u32) -> Page {
        self.slots[slot as usize].page
    }

    /// A slot is programmed. Appends what is in flash now, and the requests of flushes that are complete.
    pub fn programmed(&mut self, slot: u32, done: &mut Vec<Programmed>, flushed: &mut Vec<u32>) {
        self.slots[slot as usize].stage = Stage::Programmed;
        let mut next = slot;
        while next != NONE {
            let slot = self.slots[next as usize];
            if slot.older != NONE || slot.stage != Stage::Programmed {
                return;
            }
            if slot.newer == NONE {
                self.newest.remove(&slot.page);
            } else {
                self.slots[slot.newer as usize].older = NONE;
            }
            let request = (slot.request != NONE).then_some(slot.request);
            self.used -= usize::from(request.is_none());
            self.free.push(next);
            done.push(Programmed { page: slot.page, request });
            self.settle(slot.arrival, flushed);
            next = slot.newer;
        }
    }

    /// A flush of a request begins; false when there is nothing to wait for.
    pub fn flush(&mut self, request: u32) -> bool {
        if self.live == 0 {
            return false;
        }
        self.urgent = self.arrivals;
        self.flushes.push_back(Flush { request, arrivals: self.arrivals, slots_left: self.live });
        true
    }

    /// A slot that arrived as number `arrival` is used no more.
    fn settle(&mut self, arrival: u64, flushed: &mut Vec<u32>) {
        self.live -= 1;
        for flush in &mut self.flushes {
            flush.slots_left -= u64::from(arrival < flush.arrivals);
        }
        while self.flushes.front().is_some_and(|flush| flush.slots_left == 0) {
            flushed.extend(self.flushes.pop_front().map(|flush| flush.request));
        }
    }
}
