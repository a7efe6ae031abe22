//! The mapping cache: entries of the mapping that the drive's memory has, where it has not all.
//!
//! The rest is in translation pages of one flash page each, in a region of their own: translation page `t` is on
//! element `t % elements`. A read whose entries are not all in the cache waits until their translation pages were read;
//! requests that miss in the same one meanwhile wait for the same read. An entry that changes is put into the cache.
//! The least recently used entry leaves a full cache; if it has changed, all changed entries of its translation page
//! are written with it: the page is read, then programmed. (A. Gupta, Y. Kim, B. Urgaonkar, "DFTL: a flash translation
//! layer employing demand-based selective caching of page-level address mappings", ASPLOS 2009.)

use super::ControllerEngine;
use crate::Error;
use crate::drive::{Controller, SECTOR_BYTES, Spec};
use crate::engine::core::World;
use crate::engine::load::requests::DriveRequest;
use crate::policy::Page;
use crate::policy::list::Lists;
use crate::state::{Stored, put, take};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// The list of all entries, in the order of their use.
const LRU: u32 = 0;

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Entry {
    page: Page,
    /// Whether it differs from the one in its translation page.
    is_dirty: bool,
}

/// A translation page that is being read, because entries are missing.
#[derive(Default, Clone, serde::Serialize, serde::Deserialize)]
struct Fetch {
    pages: Vec<Page>,
    /// Requests that wait for it.
    waiting: Vec<u32>,
}

#[derive(Clone)]
pub(super) struct MappingCache {
    /// Entries that it has at most.
    capacity: usize,
    /// Entries of a translation page.
    page_entries: u32,
    entries: Vec<Entry>,
    order: Lists,
    /// Page -> its entry + 1; 0: it is not there.
    known: Vec<u32>,
    /// Translation page -> its entries that have changed.
    dirty: BTreeMap<u32, Vec<u32>>,
    fetches: BTreeMap<u32, Fetch>,
}

impl MappingCache {
    /// An empty cache; `None` for a drive whose memory has the whole mapping.
    pub fn new(spec: &Spec, controller: &Controller) -> Option<Self> {
        let capacity = controller.cached_entries(spec) as usize;
        let page_entries = controller.translation_page_entries(spec);
        (capacity > 0).then(|| Self {
            capacity,
            page_entries,
            entries: Vec::new(),
            order: Lists::new(capacity, 1),
            known: vec![0; spec.pages() as usize],
            dirty: BTreeMap::new(),
            fetches: BTreeMap::new(),
        })
    }

    fn find(&self, page: Page) -> Option<u32> {
        self.known[page as usize].checked_sub(1)
    }

    /// Whether the entry of a page is there; it is the most recently used one then.
    fn look_up(&mut self, page: Page) -> bool {
        let Some(slot) = self.find(page) else {
            return false;
        };
        self.order.renew(LRU, slot);
        true
    }

    /// A request waits for the entry of a page. Returns its translation page if that is to be read now.
    /// Adds 1 to `waits` if the request did not wait for that translation page before.
    fn miss(&mut self, page: Page, request: u32, waits: &mut u32) -> Option<u32> {
        let number = page / self.page_entries;
        let is_new = !self.fetches.contains_key(&number);
        let fetch = self.fetches.entry(number).or_default();
        fetch.pages.push(page);
        if fetch.waiting.last() != Some(&request) {
            fetch.waiting.push(request);
            *waits += 1;
        }
        is_new.then_some(number)
    }

    /// The entry of a page comes in, or changes. Returns the translation page that is to be written
    /// because an entry had to leave for it.
    fn store(&mut self, page: Page, changes: bool) -> Option<u32> {
        let mut written = None;
        let slot = if let Some(slot) = self.find(page) {
            self.order.renew(LRU, slot);
            slot
        } else {
            let slot = if self.entries.len() < self.capacity {
                self.entries.push(Entry { page, is_dirty: false });
                (self.entries.len() - 1) as u32
            } else {
                let slot = self.order.back(LRU)?;
                written = self.evict(slot);
                slot
            };
            self.entries[slot as usize].page = page;
            self.known[page as usize] = slot + 1;
            self.order.push_front(LRU, slot);
            slot
        };
        if changes && !self.entries[slot as usize].is_dirty {
            self.entries[slot as usize].is_dirty = true;
            let number = page / self.page_entries;
            self.dirty.entry(number).or_default().push(slot);
        }
        written
    }

    /// An entry leaves; with it, all changed entries of its translation page are written.
    fn evict(&mut self, slot: u32) -> Option<u32> {
        self.order.unlink(slot);
        let Entry { page, is_dirty } = self.entries[slot as usize];
        self.known[page as usize] = 0;
        if !is_dirty {
            return None;
        }
        let number = page / self.page_entries;
        for changed in self.dirty.remove(&number).unwrap_or_default() {
            self.entries[changed as usize].is_dirty = false;
        }
        Some(number)
    }
}

impl Stored for MappingCache {
    /// The entries follow each other from the least recently used one on.
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        let slots = self.order.oldest_first(LRU);
        let entries: Vec<Entry> = slots.map(|slot| self.entries[slot as usize]).collect();
        put(output, &(entries, &self.fetches))
    }

    /// Fills an empty cache with the same options.
    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        let entries: Vec<Entry>;
        (entries, self.fetches) = take(input)?;
        for entry in entries {
            self.store(entry.page, entry.is_dirty);
        }
        Ok(())
    }
}

/// What the mapping log has to record: one entry for each write that does not continue the one before.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct MappingLog {
    /// The page behind the last write.
    next: Page,
    /// That are not programmed.
    bytes: u64,
    /// Program units so far.
    units: u32,
}

impl<W: World> ControllerEngine<W> {
    /// A read begins when the mapping cache has its entries; pages of the write cache need none.
    pub(super) fn look_up(&mut self, id: u32, request: &DriveRequest) {
        let Some(mapping) = &mut self.mapping else {
            return self.read(id, request);
        };
        let (mut waits, mut fetches) = (0, Vec::new());
        for page in request.first..request.first + request.pages {
            if self.cache.contains(page) {
                continue;
            }
            if mapping.look_up(page) {
                self.core.tally.mapping_hits += 1;
            } else {
                self.core.tally.mapping_misses += 1;
                fetches.extend(mapping.miss(page, id, &mut waits));
            }
        }
        if waits == 0 {
            return self.read(id, request);
        }
        self.core.requests.get(id).parts = waits;
        for number in fetches {
            self.core.tally.translation_reads += 1;
            let operation = self.flash.translation_read(number);
            self.enqueue_first(self.flash.element_of_translation(number), operation);
        }
    }

    /// A translation page was read: its missing entries are there, and reads that waited go on.
    pub(super) fn translation_read(&mut self, number: u32) {
        let Some(mapping) = &mut self.mapping else {
            return;
        };
        let Fetch { pages, waiting } = mapping.fetches.remove(&number).unwrap_or_default();
        for page in pages {
            self.store_entry(page, false);
        }
        for id in waiting {
            let in_flight = self.core.requests.get(id);
            in_flight.parts -= 1;
            if in_flight.parts == 0 {
                let request = in_flight.request;
                self.read(id, &request);
            }
        }
    }

    /// The mapping of a page has changed.
    pub(super) fn change_entry(&mut self, page: Page) {
        self.store_entry(page, true);
    }

    fn store_entry(&mut self, page: Page, changes: bool) {
        let mapping = self.mapping.as_mut();
        let Some(number) = mapping.and_then(|mapping| mapping.store(page, changes)) else {
            return;
        };
        self.core.tally.translation_reads += 1;
        let operation = self.flash.translation_update(number);
        self.enqueue(self.flash.element_of_translation(number), operation);
    }

    /// A write begins. If it does not continue the one before, the mapping log has more to record, which takes a
    /// program operation for each unit of it.
    pub(super) fn log_mapping(&mut self, request: &DriveRequest) {
        let log_bytes = self.flash.controller.mapping_log_bytes;
        let next = std::mem::replace(&mut self.log.next, request.first + request.pages);
        // Its first page may be the last one of the write before, in part.
        if log_bytes == 0 || (next.saturating_sub(1)..=next).contains(&request.first) {
            return;
        }
        self.log.bytes += log_bytes;
        let unit_bytes = self.unit_pages as u64 * u64::from(self.core.page_sectors * SECTOR_BYTES);
        while self.log.bytes >= unit_bytes {
            self.log.bytes -= unit_bytes;
            self.core.tally.translation_writes += 1;
            let operation = self.flash.log_write(self.log.units);
            self.enqueue(self.flash.element_of_translation(self.log.units), operation);
            self.log.units = self.log.units.wrapping_add(1);
        }
    }

    /// A translation page that is to be changed was read: it is programmed.
    pub(super) fn translation_changed(&mut self, number: u32) {
        self.core.tally.translation_writes += 1;
        let operation = self.flash.translation_write(number);
        self.enqueue(self.flash.element_of_translation(number), operation);
    }
}
