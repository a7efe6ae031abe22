//! What a power cut would take: pages that are on their way to flash, exactly as the drive's model
//! holds them.
//!
//! The present content is in the store and is what reads see. Of each page that was written and is
//! not in flash, this knows what flash has of it, and the versions on their way there: one that
//! crosses the channel, one in the buffer, several that are being programmed. All but the newest are
//! copies, made when the page is written again; what flash has already of the newest is nowhere but
//! in the store. A version that becomes durable replaces all that are older.
//!
//! A page is one of the model's. Trims are durable at once, as they are in the model.

use std::collections::VecDeque;
use std::ops::Range;

use crate::id_map::Numbered;

/// Copies that are kept for the next page, so that none has to be allocated.
const SPARE_COPIES: usize = 256;

/// Where a content is.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    /// It is what the store has.
    Present,
    /// Here.
    Copy(Box<[u8]>),
    /// Nowhere: nobody will ask for it.
    Dead,
}

/// Where a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It crosses the channel.
    Arriving,
    /// In the buffer.
    Buffered,
    /// It left the buffer, or passed it by, to be programmed.
    Leaving {
        /// Whether it came out of the buffer.
        from_buffer: bool,
    },
}

#[derive(Debug)]
struct Version {
    request: u64,
    stage: Stage,
    kept: Kept,
}

/// A page of which flash has not all.
#[derive(Debug)]
struct Entry {
    durable: Kept,
    /// From the oldest to the newest.
    versions: VecDeque<Version>,
}

impl Entry {
    /// Whose content is what the store has.
    fn present(&mut self) -> &mut Kept {
        match self.versions.back_mut() {
            Some(version) if version.kept == Kept::Present => &mut version.kept,
            _ => &mut self.durable,
        }
    }

    fn place(&self, wanted: impl Fn(&Version) -> bool) -> Option<usize> {
        self.versions.iter().position(wanted)
    }
}

/// What a page's programming made durable.
#[derive(Debug, PartialEq, Eq)]
pub enum Durable<'a> {
    /// What the store has of it.
    Present,
    /// Something older.
    Bytes(&'a [u8]),
    /// Nothing that was not overtaken.
    Nothing,
}

/// All pages of which flash has not all.
#[derive(Debug, Default)]
pub struct Volatile {
    pages: Numbered<u32, Entry>,
    spare: Vec<Box<[u8]>>,
    copies: usize,
}

impl Volatile {
    /// Pages of which flash has not all.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Copies of pages that are held.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// A request is about to write a page, of which `present` is all that the store has.
    pub fn write(&mut self, page: u32, request: u64, present: &[u8]) {
        let copy = self.copy(present);
        let entry = self.pages.entry(page).or_insert_with(|| Entry {
            durable: Kept::Present,
            versions: VecDeque::new(),
        });
        *entry.present() = Kept::Copy(copy);
        entry.versions.push_back(Version {
            request,
            stage: Stage::Arriving,
            kept: Kept::Present,
        });
    }

    /// Pages are discarded: their zeroes are durable, and nothing on its way will be missed.
    pub fn trim(&mut self, pages: Range<u32>) {
        let few = pages.len() <= self.pages.len();
        if few {
            for page in pages {
                self.trim_page(page);
            }
            return;
        }
        let known = self.pages.keys().copied();
        let within: Vec<u32> = known.filter(|page| pages.contains(page)).collect();
        for page in within {
            self.trim_page(page);
        }
    }

    fn trim_page(&mut self, page: u32) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return;
        };
        let mut gone = vec![std::mem::replace(&mut entry.durable, Kept::Present)];
        for version in &mut entry.versions {
            gone.push(std::mem::replace(&mut version.kept, Kept::Dead));
        }
        for kept in gone {
            self.drop_copy(kept);
        }
    }

    /// The buffer has what a request wrote of a page.
    pub fn arrived(&mut self, page: u32, request: u64) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return;
        };
        let replaced = entry.place(|version| version.stage == Stage::Buffered);
        let replaced = replaced.and_then(|place| entry.versions.remove(place));
        if let Some(place) = entry.place(|version| version.request == request) {
            entry.versions[place].stage = Stage::Buffered;
        }
        if let Some(version) = replaced {
            self.drop_copy(version.kept);
        }
    }

    /// The buffer dropped a page.
    pub fn dropped(&mut self, page: u32) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return;
        };
        let dropped = entry.place(|version| version.stage == Stage::Buffered);
        if let Some(version) = dropped.and_then(|place| entry.versions.remove(place)) {
            self.drop_copy(version.kept);
        }
        self.forget_if_durable(page);
    }

    /// A page goes to flash: what a request wrote, or what the buffer has.
    pub fn leaves(&mut self, page: u32, request: Option<u64>) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return;
        };
        let place = entry.place(|version| match request {
            Some(request) => version.request == request,
            None => version.stage == Stage::Buffered,
        });
        if let Some(place) = place {
            entry.versions[place].stage = Stage::Leaving {
                from_buffer: request.is_none(),
            };
        }
    }

    /// Flash has what left: what is durable of the page now is given to `keep`.
    pub fn programmed(&mut self, page: u32, request: Option<u64>, keep: impl FnOnce(Durable<'_>)) {
        let Some(entry) = self.pages.get_mut(&page) else {
            return keep(Durable::Nothing);
        };
        let place = entry.place(|version| match request {
            Some(request) => version.request == request,
            None => version.stage == Stage::Leaving { from_buffer: true },
        });
        let version = place.and_then(|place| entry.versions.remove(place));
        let Some(version) = version.filter(|version| version.kept != Kept::Dead) else {
            keep(Durable::Nothing);
            return self.forget_if_durable(page);
        };
        let mut gone = vec![std::mem::replace(&mut entry.durable, version.kept)];
        for older in entry.versions.iter_mut().take(place.unwrap_or(0)) {
            gone.push(std::mem::replace(&mut older.kept, Kept::Dead));
        }
        keep(match &entry.durable {
            Kept::Copy(bytes) => Durable::Bytes(bytes),
            _ => Durable::Present,
        });
        for kept in gone {
            self.drop_copy(kept);
        }
        self.forget_if_durable(page);
    }

    /// What flash has of a page, where it is not what the store has.
    #[must_use]
    pub fn durable(&self, page: u32) -> Option<&[u8]> {
        match &self.pages.get(&page)?.durable {
            Kept::Copy(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Power is cut: all is forgotten, and each page whose content changes is given to `restore`
    /// with what flash has of it. Returns how many.
    pub fn cut(&mut self, mut restore: impl FnMut(u32, &[u8])) -> usize {
        let mut lost = 0;
        for (page, entry) in self.pages.drain() {
            if let Kept::Copy(bytes) = entry.durable {
                restore(page, &bytes);
                lost += 1;
            }
        }
        self.copies = 0;
        lost
    }

    /// All that is present is durable, as after a clean end: each page that was not is named.
    pub fn settle(&mut self, mut settled: impl FnMut(u32)) {
        for (page, entry) in self.pages.drain() {
            if entry.durable != Kept::Present {
                settled(page);
            }
        }
        self.copies = 0;
    }

    fn forget_if_durable(&mut self, page: u32) {
        let durable = |entry: &Entry| entry.versions.is_empty() && entry.durable == Kept::Present;
        if self.pages.get(&page).is_some_and(durable) {
            self.pages.remove(&page);
        }
    }

    fn copy(&mut self, present: &[u8]) -> Box<[u8]> {
        self.copies += 1;
        match self.spare.pop() {
            Some(mut spare) if spare.len() == present.len() => {
                spare.copy_from_slice(present);
                spare
            }
            _ => present.into(),
        }
    }

    fn drop_copy(&mut self, kept: Kept) {
        if let Kept::Copy(bytes) = kept {
            self.copies -= 1;
            if self.spare.len() < SPARE_COPIES {
                self.spare.push(bytes);
            }
        }
    }
}
