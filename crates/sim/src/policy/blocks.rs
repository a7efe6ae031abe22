//! Buffered pages by block: which pages of which block are buffered, and the evictions of a block. The
//! basis of `bplru` and `fab`.

use super::{Action, BlockBy, Eviction, Page, Settings, slots::Slots};
use crate::divide::{Divisor, prepared};

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Cut {
    by: BlockBy,
    elements: Divisor,
    length: Divisor,
    pages: u32,
}

impl Cut {
    fn new(settings: &Settings) -> Self {
        Self {
            by: settings.block_by,
            elements: prepared(settings.layout.elements),
            length: prepared(settings.layout.pages_per_block),
            pages: settings.layout.pages,
        }
    }

    /// Block and offset in it. By element, page `p` is number `p / n` of element `p % n`.
    #[inline]
    fn locate(&self, page: Page) -> (u32, u32) {
        match self.by {
            BlockBy::Lba => self.length.div_rem(page),
            BlockBy::Element => {
                let (local, element) = self.elements.div_rem(page);
                let (row, offset) = self.length.div_rem(local);
                (row * self.elements.get() + element, offset)
            }
        }
    }

    /// The page at an offset in a block; `None` beyond the last page of the drive.
    #[inline]
    fn page(&self, block: u32, offset: u32) -> Option<Page> {
        let length = u64::from(self.length.get());
        let page = match self.by {
            BlockBy::Lba => u64::from(block) * length + u64::from(offset),
            BlockBy::Element => {
                let (row, element) = self.elements.div_rem(block);
                let local = u64::from(row) * length + u64::from(offset);
                local * u64::from(self.elements.get()) + u64::from(element)
            }
        };
        u32::try_from(page).ok().filter(|&page| page < self.pages)
    }

    /// Blocks of the drive, the last ones incomplete.
    fn blocks(&self) -> usize {
        let per_row = match self.by {
            BlockBy::Lba => 1,
            BlockBy::Element => self.elements.get() as usize,
        };
        (self.pages as usize).div_ceil(per_row * self.length.get() as usize) * per_row
    }
}

/// The buffered pages, block by block. A block that has a page has a slot.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Blocks {
    cut: Cut,
    slots: Slots,
    /// Bits of the pages that are there, `words` for each slot.
    present: Box<[u64]>,
    words: usize,
    counts: Box<[u32]>,
    pages: usize,
    capacity: usize,
    requests: bool,
}

impl Blocks {
    pub(super) fn new(settings: &Settings) -> Self {
        let cut = Cut::new(settings);
        let capacity = settings.capacity_pages;
        let slots = capacity.min(cut.blocks()).max(1);
        let words = cut.length.get().div_ceil(64) as usize;
        Self {
            cut,
            slots: Slots::new(slots),
            present: vec![0; slots * words].into_boxed_slice(),
            words,
            counts: vec![0; slots].into_boxed_slice(),
            pages: 0,
            capacity,
            requests: settings.block_requests,
        }
    }

    /// Slots that blocks can have.
    pub(super) fn slots(&self) -> usize {
        self.slots.capacity()
    }

    pub(super) fn len(&self) -> usize {
        self.pages
    }

    /// Pages that can be held.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether one more page needs another one to leave.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.pages >= self.capacity
    }

    /// Number of a page's block, and the page's offset in it.
    #[inline]
    pub(super) fn locate(&self, page: Page) -> (u32, u32) {
        self.cut.locate(page)
    }

    /// The slot of a block that has pages here.
    #[inline]
    pub(super) fn find(&self, block: u32) -> Option<u32> {
        self.slots.find(block)
    }

    /// Pages that are here of the block in a slot.
    #[inline]
    pub(super) fn count(&self, slot: u32) -> u32 {
        self.counts[slot as usize]
    }

    /// Places of the block in a slot that lie on the drive.
    pub(super) fn pages_of_block(&self, slot: u32) -> u32 {
        let block = self.slots.key(slot);
        let length = self.cut.length.get();
        if self.cut.page(block, length - 1).is_some() {
            return length;
        }
        (0..length).take_while(|&offset| self.cut.page(block, offset).is_some()).count() as u32
    }

    #[inline]
    fn bit(&self, slot: u32, offset: u32) -> (usize, u64) {
        (slot as usize * self.words + offset as usize / 64, 1 << (offset % 64))
    }

    /// Whether the page at an offset of the block in a slot is buffered.
    #[inline]
    pub(super) fn has(&self, slot: u32, offset: u32) -> bool {
        let (word, bit) = self.bit(slot, offset);
        self.present[word] & bit != 0
    }

    pub(super) fn holds(&self, page: Page) -> bool {
        let (block, offset) = self.locate(page);
        self.find(block).is_some_and(|slot| self.has(slot, offset))
    }

    /// Whether all pages that a flush of the block in a slot would write are such; `whole`: with
    /// those that are not buffered.
    pub(super) fn all_pages(&self, slot: u32, whole: bool, is_such: impl Fn(Page) -> bool) -> bool {
        let block = self.slots.key(slot);
        let at = |offset| self.cut.page(block, offset).is_none_or(&is_such);
        if whole {
            return (0..self.cut.length.get()).all(at);
        }
        (0..self.words).all(|word| {
            let bits = self.present[slot as usize * self.words + word];
            let some = |bits: u64| Some(bits).filter(|&bits| bits != 0);
            std::iter::successors(some(bits), |bits| some(bits & (bits - 1)))
                .all(|bits| at(word as u32 * 64 + bits.trailing_zeros()))
        })
    }

    /// Gives a block a slot, without any page. `None`: the caller has to evict first.
    #[inline]
    pub(super) fn open(&mut self, block: u32) -> Option<u32> {
        self.slots.insert(block)
    }

    /// Adds the page at an offset, which is not buffered.
    #[inline]
    pub(super) fn add(&mut self, slot: u32, offset: u32) {
        let (word, bit) = self.bit(slot, offset);
        self.present[word] |= bit;
        self.counts[slot as usize] += 1;
        self.pages += 1;
    }

    /// Removes a buffered page; the slot of a block without pages is free again.
    pub(super) fn take(&mut self, slot: u32, offset: u32) {
        let (word, bit) = self.bit(slot, offset);
        self.present[word] &= !bit;
        self.counts[slot as usize] -= 1;
        self.pages -= 1;
        if self.counts[slot as usize] == 0 {
            self.slots.remove(slot);
        }
    }

    /// Evicts a block's pages, in ascending order.
    #[inline]
    pub(super) fn flush(&mut self, slot: u32, evicted: &mut Vec<Eviction>) {
        let block = self.slots.key(slot);
        let start = evicted.len();
        // Random writes leave most blocks with one page: no loop whose end must be guessed.
        if self.words == 1 && self.counts[slot as usize] == 1 {
            let bits = std::mem::take(&mut self.present[slot as usize]);
            if let Some(page) = self.cut.page(block, bits.trailing_zeros()) {
                evicted.push(Eviction::of(page));
            }
            return self.close(slot);
        }
        for word in 0..self.words {
            let mut bits = std::mem::take(&mut self.present[slot as usize * self.words + word]);
            while bits != 0 {
                let offset = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(page) = self.cut.page(block, offset) {
                    self.append(evicted, start, page, Action::Write);
                }
            }
        }
        self.close(slot);
    }

    /// Evicts a block whole: the pages that are not here are read first, then all are written, in
    /// ascending order. Nothing behind the last page of the drive.
    pub(super) fn flush_padded(&mut self, slot: u32, evicted: &mut Vec<Eviction>) {
        let block = self.slots.key(slot);
        let pages = self.pages_of_block(slot);
        let mut start = evicted.len();
        for offset in (0..pages).filter(|&offset| !self.has(slot, offset)) {
            if let Some(page) = self.cut.page(block, offset) {
                self.append(evicted, start, page, Action::PadRead);
            }
        }
        start = evicted.len();
        for offset in 0..pages {
            let action = if self.has(slot, offset) { Action::Write } else { Action::PadWrite };
            if let Some(page) = self.cut.page(block, offset) {
                self.append(evicted, start, page, action);
            }
        }
        let from = slot as usize * self.words;
        self.present[from..from + self.words].fill(0);
        self.close(slot);
    }

    /// One page more, as a request of its own, or with the page before it where `requests` says so
    /// and it follows that directly. What lies before `start` is none of this block's.
    #[inline]
    fn append(&self, evicted: &mut Vec<Eviction>, start: usize, page: Page, action: Action) {
        let mut joined = false;
        if self.requests && evicted.len() > start {
            if let Some(last) = evicted.last_mut().filter(|last| last.first + last.pages == page) {
                if last.action == action {
                    last.pages += 1;
                    return;
                }
                joined = true;
            }
        }
        evicted.push(Eviction { first: page, pages: 1, action, joined });
    }

    /// Frees a slot without pages.
    #[inline]
    fn close(&mut self, slot: u32) {
        self.pages -= self.counts[slot as usize] as usize;
        self.counts[slot as usize] = 0;
        self.slots.remove(slot);
    }
}
