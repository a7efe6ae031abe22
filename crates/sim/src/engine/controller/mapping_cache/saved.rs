//! The mapping cache, saved and loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

use super::{Entry, Fetch, LRU, MappingCache};
use crate::Error;
use crate::engine::controller::flash::{Flash, Work};
use crate::policy::list::Lists;
use crate::state::{ensure, put, take};

impl MappingCache {
    /// Writes the entries from the least recently used one on, and the reads in progress.
    pub fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        let slots = self.order.oldest_first(LRU);
        let entries: Vec<Entry> = slots.map(|slot| self.entries[slot as usize]).collect();
        put(output, &entries)?;
        put(output, &self.fetches)
    }

    /// Takes over the entries of a drive with `pages` and the same options.
    pub fn load(&mut self, input: &mut dyn Read, pages: u32) -> Result<(), Error> {
        let entries: Vec<Entry> = take(input)?;
        let fetches: BTreeMap<u32, Fetch> = take(input)?;
        let distinct: BTreeSet<u32> = entries.iter().map(|entry| entry.page).collect();
        ensure(
            entries.len() <= self.capacity
                && distinct.len() == entries.len()
                && distinct.iter().all(|&page| page < pages),
            "its mapping cache is that of another drive",
        )?;
        self.order = Lists::new(self.capacity, 1);
        self.known.fill(0);
        self.dirty.clear();
        self.entries.clear();
        for entry in entries {
            self.store(entry.page, entry.is_dirty);
        }
        for (number, fetch) in &fetches {
            let within = |&page: &u32| page < pages && page / self.page_entries == *number;
            let waiting: BTreeSet<&u32> = fetch.waiting.iter().collect();
            ensure(
                fetch.pages.iter().all(within) && waiting.len() == fetch.waiting.len(),
                "a read of the mapping is of another page",
            )?;
        }
        self.fetches = fetches;
        Ok(())
    }

    /// Whether the elements have the operations that it waits for, each where its page is.
    pub fn check(&self, flash: &Flash, elements: u32) -> Result<(), Error> {
        let mut read: Vec<u32> = Vec::new();
        for element in 0..elements {
            for operation in flash.operations(element) {
                let number = match operation.work {
                    Work::TranslationRead(number) => {
                        read.push(number);
                        number
                    }
                    Work::TranslationUpdate(number) | Work::TranslationWrite(number) => number,
                    _ => continue,
                };
                ensure(
                    number < self.translation_pages && flash.element_of_translation(number) == element,
                    "a translation page is on another element",
                )?;
            }
        }
        read.sort_unstable();
        ensure(read.iter().eq(self.fetches.keys()), "a read of the mapping is not that of its page")
    }

    /// Requests that wait for entries, once for each translation page.
    pub fn reads_that_wait(&self) -> impl Iterator<Item = u32> {
        self.fetches.values().flat_map(|fetch| fetch.waiting.iter().copied())
    }
}
