//! The volatile content of the drive, which a power loss takes: pages on their way to flash, exactly as
//! the drive's model holds them.
//!
//! The present content is in the store, and is what reads return. For each page that was written and is not in flash,
//! the write cache has its durable content and the versions on their way there: one that crosses the channel, one in
//! the buffer, several that are being programmed. All versions but the newest are copies, made when the page is written
//! again; the newest is in the store only. A version that becomes durable replaces all older ones.
//!
//! A page is one of the model's. Trims are durable at once, as they are in the model.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;

/// Copies kept for reuse, so that none has to be allocated.
const SPARE_COPIES: usize = 256;

/// Where a page's content is.
#[derive(Debug, PartialEq, Eq)]
enum PageContent {
    Present,
    Copy(Box<[u8]>),
    /// Nowhere, because it is never needed again.
    Dead,
}

/// How far a version has come on its way to flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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

/// A page that is not entirely in flash.
#[derive(Debug)]
struct Entry {
    durable: PageContent,
    /// From the oldest to the newest.
    versions: VecDeque<Version>,
}

impl Entry {
    /// The content that is in the store.
    fn present(&mut self) -> &mut PageContent {
        match self.versions.back_mut() {
            Some(version) if version.content == PageContent::Present => &mut version.content,
            _ => &mut self.durable,
        }
    }

    fn trim(&mut self, copies: &mut Copies) {
        copies.replace(&mut self.durable, PageContent::Present);
        for version in &mut self.versions {
            copies.replace(&mut version.content, PageContent::Dead);
        }
    }

    fn place(&self, wanted: impl Fn(&Version) -> bool) -> Option<usize> {
        self.versions.iter().position(wanted)
    }
}

/// The content that became durable when a page was programmed.
#[derive(Debug, PartialEq, Eq)]
pub enum Durable<'a> {
    /// The present content, which is in the store.
    Present,
    Bytes(&'a [u8]),
    /// Nothing: a newer version is durable already.
    Nothing,
}

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
}

/// All pages that are not entirely in flash.
#[derive(Debug, Default)]
pub struct WriteCache {
    pages: FxHashMap<u32, Entry>,
    copies: Copies,
}

impl WriteCache {
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// A request is about to write a page, whose present content is `present`.
    pub fn write(&mut self, page: u32, request: u64, present: &[u8]) {
        let copy = self.copies.copy(present);
        let entry = self
            .pages
            .entry(page)
            .or_insert_with(|| Entry { durable: PageContent::Present, versions: VecDeque::new() });
        *entry.present() = copy;
        entry.versions.push_back(Version { request, stage: Stage::Transferring, content: PageContent::Present });
    }

    /// Pages are discarded: their zeroes are durable, and versions on their way are dead.
    pub fn trim(&mut self, pages: Range<u32>) {
        if pages.len() <= self.pages.len() {
            for page in pages {
                if let Some(entry) = self.pages.get_mut(&page) {
                    entry.trim(&mut self.copies);
                }
            }
        } else {
            for (_, entry) in self.pages.iter_mut().filter(|(page, _)| pages.contains(page)) {
                entry.trim(&mut self.copies);
            }
        }
    }

    /// The page that a request wrote is in the buffer.
    pub fn on_buffered(&mut self, page: u32, request: u64) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return;
        };
        let replaced = entry.place(|version| version.stage == Stage::Buffered);
        let replaced = replaced.and_then(|place| entry.versions.remove(place));
        if let Some(place) = entry.place(|version| version.request == request) {
            entry.versions[place].stage = Stage::Buffered;
        }
        if let Some(mut version) = replaced {
            self.copies.replace(&mut version.content, PageContent::Dead);
        }
    }

    /// The buffer dropped a page.
    pub fn on_dropped(&mut self, page: u32) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return;
        };
        let dropped = entry.place(|version| version.stage == Stage::Buffered);
        if let Some(mut version) = dropped.and_then(|place| entry.versions.remove(place)) {
            self.copies.replace(&mut version.content, PageContent::Dead);
        }
        self.remove_if_durable(page);
    }

    /// The programming of a page begins: of what a request wrote, or of the buffer's version.
    pub fn on_program_issued(&mut self, page: u32, request: Option<u64>) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return;
        };
        let place = entry.place(|version| match request {
            Some(request) => version.request == request,
            None => version.stage == Stage::Buffered,
        });
        if let Some(place) = place {
            entry.versions[place].stage = Stage::Programming { from_buffer: request.is_none() };
        }
    }

    /// A page is programmed: the content that became durable is given to `keep`.
    pub fn on_programmed(&mut self, page: u32, request: Option<u64>, keep: impl FnOnce(Durable<'_>)) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return keep(Durable::Nothing);
        };
        let place = entry.place(|version| match request {
            Some(request) => version.request == request,
            None => version.stage == Stage::Programming { from_buffer: true },
        });
        let version = place.and_then(|place| entry.versions.remove(place));
        let Some(version) = version.filter(|version| version.content != PageContent::Dead) else {
            keep(Durable::Nothing);
            return self.remove_if_durable(page);
        };
        self.copies.replace(&mut entry.durable, version.content);
        for older in entry.versions.iter_mut().take(place.unwrap_or(0)) {
            self.copies.replace(&mut older.content, PageContent::Dead);
        }
        keep(match &entry.durable {
            PageContent::Copy(bytes) => Durable::Bytes(bytes),
            _ => Durable::Present,
        });
        self.remove_if_durable(page);
    }

    /// The durable content of a page, where it differs from the present content.
    pub fn durable(&self, page: u32) -> Option<&[u8]> {
        match &self.pages.get(&page)?.durable {
            PageContent::Copy(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Power loss: clears the cache, and gives each page whose content changes to `restore`, with its
    /// durable content. Returns the number of these pages.
    pub fn lose_power(&mut self, mut restore: impl FnMut(u32, &[u8])) -> usize {
        let mut lost = 0;
        for (page, entry) in self.pages.drain() {
            if let PageContent::Copy(bytes) = entry.durable {
                restore(page, &bytes);
                lost += 1;
            }
        }
        lost
    }

    /// Makes all present content durable, as at a clean end; calls back for each page that was not.
    pub fn make_durable(&mut self, mut made_durable: impl FnMut(u32)) {
        for (page, entry) in self.pages.drain() {
            if entry.durable != PageContent::Present {
                made_durable(page);
            }
        }
    }

    fn remove_if_durable(&mut self, page: u32) {
        let durable = |entry: &Entry| entry.versions.is_empty() && entry.durable == PageContent::Present;
        if self.pages.get(&page).is_some_and(durable) {
            self.pages.remove(&page);
        }
    }
}
