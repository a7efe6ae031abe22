//! The volatile content of the drive, which a power loss takes: pages on their way to flash, exactly as
//! the drive's model holds them.
//!
//! The present content is in the store, and is what reads return. For each page that was written and is not in flash,
//! the write cache has its durable content and the versions on their way there: one that crosses the channel, one in
//! the buffer, several that are being programmed. All versions but the newest are copies, made when the page is written
//! again; the newest is in the store only. A version that becomes durable replaces all older ones.
//!
//! A page is one of the model's. Trims are durable at once, as they are in the model.

use std::collections::hash_map::{Entry, OccupiedEntry};
use std::ops::Range;

use rustc_hash::FxHashMap;

/// Copies kept for reuse, so that none has to be allocated.
const SPARE_COPIES: usize = 256;

/// What wrote the durable version is not known any more.
const NO_REQUEST: u64 = u64::MAX;

/// Where a page's content is.
#[derive(Debug, PartialEq, Eq)]
enum PageContent {
    Present,
    Copy(Box<[u8]>),
    /// Nowhere, because it is never needed again.
    Dead,
}

impl PageContent {
    fn copy(&self) -> Option<&[u8]> {
        match self {
            Self::Copy(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// How far a version has come on its way to flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Durable,
    Transferring,
    Buffered,
    /// Being programmed, out of the buffer or past it.
    Programming {
        /// Whether the buffer evicted it.
        from_buffer: bool,
    },
}

#[derive(Debug)]
struct Version {
    request: u64,
    stage: Stage,
    content: PageContent,
}

/// The versions of a page that is not entirely in flash, from the oldest to the newest: the durable one first.
type Versions = Vec<Version>;

/// Copies of pages that are kept for reuse.
#[derive(Debug, Default)]
struct Copies(Vec<Box<[u8]>>);

impl Copies {
    fn copy(&mut self, present: &[u8]) -> PageContent {
        PageContent::Copy(match self.0.pop() {
            Some(mut spare) if spare.len() == present.len() => {
                spare.copy_from_slice(present);
                spare
            }
            _ => present.into(),
        })
    }

    /// Replaces a content, whose copy is not needed any more.
    fn replace(&mut self, content: &mut PageContent, new: PageContent) {
        if let PageContent::Copy(bytes) = std::mem::replace(content, new) {
            if self.0.len() < SPARE_COPIES {
                self.0.push(bytes);
            }
        }
    }

    /// Removes the version in the buffer, which is not to become durable.
    fn remove_buffered(&mut self, versions: &mut Versions) {
        if let Some(place) = versions.iter().position(|version| version.stage == Stage::Buffered) {
            self.replace(&mut versions.remove(place).content, PageContent::Dead);
        }
    }
}

/// All pages that are not entirely in flash.
#[derive(Debug, Default)]
pub struct WriteCache {
    pages: FxHashMap<u32, Versions>,
    copies: Copies,
}

impl WriteCache {
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// A request is about to write a page, whose present content is `present`.
    pub fn write(&mut self, page: u32, request: u64, present: &[u8]) {
        let copy = self.copies.copy(present);
        let versions = self.pages.entry(page).or_default();
        match versions.iter_mut().rev().find(|version| version.content == PageContent::Present) {
            Some(newest) => newest.content = copy,
            None => versions.insert(0, Version { request: NO_REQUEST, stage: Stage::Durable, content: copy }),
        }
        versions.push(Version { request, stage: Stage::Transferring, content: PageContent::Present });
    }

    /// Pages are discarded: their zeroes are durable, and versions on their way are dead.
    pub fn trim(&mut self, pages: Range<u32>) {
        let copies = &mut self.copies;
        let mut trim = |versions: &mut Versions| {
            copies.replace(&mut versions[0].content, PageContent::Present);
            versions[1..].iter_mut().for_each(|version| copies.replace(&mut version.content, PageContent::Dead));
        };
        if pages.len() <= self.pages.len() {
            pages.for_each(|page| self.pages.get_mut(&page).map_or((), &mut trim));
        } else {
            self.pages.iter_mut().filter(|(page, _)| pages.contains(page)).for_each(|(_, versions)| trim(versions));
        }
    }

    /// The page that a request wrote is in the buffer.
    pub fn on_buffered(&mut self, page: u32, request: u64) {
        if let Some(versions) = self.pages.get_mut(&page) {
            self.copies.remove_buffered(versions);
            if let Some(version) = versions.iter_mut().find(|version| version.request == request) {
                version.stage = Stage::Buffered;
            }
        }
    }

    /// The buffer dropped a page.
    pub fn on_dropped(&mut self, page: u32) {
        if let Entry::Occupied(mut versions) = self.pages.entry(page) {
            self.copies.remove_buffered(versions.get_mut());
            remove_if_durable(versions);
        }
    }

    /// The programming of a page begins: of what a request wrote, or of the buffer's version.
    pub fn on_program_issued(&mut self, page: u32, request: Option<u64>) {
        let mut versions = self.pages.get_mut(&page).into_iter().flatten();
        let issued = versions.find(|version| match request {
            Some(request) => version.request == request,
            None => version.stage == Stage::Buffered,
        });
        if let Some(version) = issued {
            version.stage = Stage::Programming { from_buffer: request.is_none() };
        }
    }

    /// A page is programmed: its content is durable, unless a newer version is durable already. Calls `keep` with the
    /// content, or with `None` for the present one, which is in the store.
    pub fn on_programmed(&mut self, page: u32, request: Option<u64>, keep: impl FnOnce(Option<&[u8]>)) {
        let Entry::Occupied(mut entry) = self.pages.entry(page) else {
            return;
        };
        let versions = entry.get_mut();
        let place = versions.iter().position(|version| match request {
            Some(request) => version.request == request,
            None => version.stage == Stage::Programming { from_buffer: true },
        });
        if let Some((place, content)) = place.map(|place| (place, versions.remove(place).content)) {
            if content != PageContent::Dead {
                self.copies.replace(&mut versions[0].content, content);
                for older in &mut versions[1..place] {
                    self.copies.replace(&mut older.content, PageContent::Dead);
                }
                keep(versions[0].content.copy());
            }
        }
        remove_if_durable(entry);
    }

    /// The durable content of a page, where it differs from the present content.
    pub fn durable(&self, page: u32) -> Option<&[u8]> {
        self.pages.get(&page)?[0].content.copy()
    }

    /// Power loss: clears the cache, and gives each page whose content changes to `restore`, with its
    /// durable content. Returns the number of these pages.
    pub fn lose_power(&mut self, mut restore: impl FnMut(u32, &[u8])) -> usize {
        let lost = self.pages.iter().filter_map(|(page, versions)| Some((*page, versions[0].content.copy()?)));
        let lost = lost.map(|(page, durable)| restore(page, durable)).count();
        self.pages.clear();
        lost
    }

    /// Makes all present content durable, as at a clean end. Returns the pages that were not.
    pub fn make_durable(&mut self) -> impl Iterator<Item = u32> {
        let volatile = self.pages.drain().filter(|(_, versions)| versions[0].content != PageContent::Present);
        volatile.map(|(page, _)| page)
    }
}

fn remove_if_durable(versions: OccupiedEntry<'_, u32, Versions>) {
    if matches!(versions.get().as_slice(), [Version { content: PageContent::Present, .. }]) {
        versions.remove();
    }
}
