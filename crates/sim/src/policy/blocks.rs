//! A buffer of blocks of pages whose next victim a [`BlockOrder`] names: what `bplru` and `fab` share.
//!
//! [`Blocks`] knows which pages of which block are buffered, and evicts a block.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Access, Action, BlockBy, DestageTargets, DriveState, Eviction, Page, Policy, Settings, destage::SEARCH_BLOCKS,
    slots::Slots,
};
use crate::divide::Divisor;

/// In which order the blocks of a buffer leave.
pub(super) trait BlockOrder: Serialize + DeserializeOwned {
    /// Whether the victim is chosen before the written page comes in, and may be its own block.
    const EVICTS_OWN: bool;

    /// Whether pages that are not here are read, so that a block leaves whole.
    fn pads(&self) -> bool {
        false
    }

    /// A page is written to a block that has pages here, before a victim is looked for.
    fn renew(&mut self, _slot: u32) {}

    /// A page was written to a block, which is new or has had pages here.
    fn written(&mut self, blocks: &Blocks, slot: u32, offset: u32, is_new: bool);

    /// A page of a block was discarded; so many are left.
    fn discarded(&mut self, slot: u32, left: u32);

    /// The block in a slot leaves.
    fn remove(&mut self, slot: u32);

    fn victim(&mut self) -> Option<u32>;

    /// The victims, in order, among which one is looked for whose elements are ready.
    fn victims(&self) -> impl Iterator<Item = u32>;
}

#[derive(Serialize, Deserialize)]
pub(super) struct BlockBuffer<O> {
    blocks: Blocks,
    order: O,
}

impl<O: BlockOrder + Send + 'static> BlockBuffer<O> {
    pub(super) fn boxed(blocks: Blocks, order: O) -> Box<dyn Policy + Send> {
        Box::new(Self { blocks, order })
    }
}

impl<O: BlockOrder> BlockBuffer<O> {
    /// Evicts a block. `false`: there is none.
    #[inline]
    fn evict(&mut self, slot: Option<u32>, evicted: &mut Vec<Eviction>) -> bool {
        let Some(slot) = slot else {
            return false;
        };
        self.order.remove(slot);
        if self.order.pads() {
            self.blocks.flush_padded(slot, evicted);
        } else {
            self.blocks.flush(slot, evicted);
        }
        true
    }
}

impl<O: BlockOrder> Policy for BlockBuffer<O> {
    fn pads(&self) -> bool {
        self.order.pads()
    }

    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        let (block, offset) = self.blocks.cut.locate(page);
        let mut found = self.blocks.slots.find(block);
        if let Some(slot) = found {
            self.order.renew(slot);
            if self.blocks.has(slot, offset) {
                self.order.written(&self.blocks, slot, offset, false);
                return Access::Hit;
            }
        }
        if self.blocks.pages >= self.blocks.capacity {
            let victim = self.order.victim();
            self.evict(victim, evicted);
            if O::EVICTS_OWN {
                found = self.blocks.slots.find(block);
            }
        }
        let Some(slot) = found.or_else(|| self.blocks.slots.insert(block)) else {
            evicted.push(Eviction::of(page));
            return Access::Bypass;
        };
        self.blocks.add(slot, offset);
        self.order.written(&self.blocks, slot, offset, found.is_none());
        Access::Miss
    }

    fn holds(&self, page: Page) -> bool {
        self.blocks.find_page(page).is_some()
    }

    fn block_of(&self, page: Page) -> Option<u32> {
        Some(self.blocks.cut.locate(page).0)
    }

    fn discard(&mut self, page: Page) -> bool {
        let found = self.blocks.find_page(page);
        if let Some((slot, offset)) = found {
            self.blocks.take(slot, offset);
            self.order.discarded(slot, self.blocks.count(slot));
        }
        found.is_some()
    }

    fn len(&self) -> usize {
        self.blocks.pages
    }

    fn capacity(&self) -> usize {
        self.blocks.capacity
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        let accepts = |page| targets.accepts(page);
        let goes = |&slot: &u32| self.blocks.all_pages(slot, self.order.pads(), accepts);
        let victim = self.order.victims().take(SEARCH_BLOCKS).find(goes);
        self.evict(victim, evicted)
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while let Some(slot) = self.order.victim() {
            self.evict(Some(slot), evicted);
        }
    }
}

/// The blocks of the drive. Those of consecutive pages are those of a drive with one element.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cut {
    elements: Divisor,
    length: Divisor,
    pages: u32,
}

impl Cut {
    fn new(settings: &Settings) -> Self {
        let elements = match settings.block_by {
            BlockBy::Lba => 1,
            BlockBy::Element => settings.layout.elements,
        };
        let length = Divisor::new(settings.layout.pages_per_block);
        Self { elements: Divisor::new(elements), length, pages: settings.layout.pages }
    }

    /// Block and offset in it. By element, page `p` is number `p / n` of element `p % n`.
    #[inline]
    fn locate(&self, page: Page) -> (u32, u32) {
        let (local, element) = self.elements.div_rem(page);
        let (row, offset) = self.length.div_rem(local);
        (row * self.elements.get() + element, offset)
    }

    /// The page at an offset in a block; `None` beyond the last page of the drive.
    #[inline]
    fn page(&self, block: u32, offset: u32) -> Option<Page> {
        let (row, element) = self.elements.div_rem(block);
        let local = u64::from(row) * u64::from(self.length.get()) + u64::from(offset);
        let page = local * u64::from(self.elements.get()) + u64::from(element);
        u32::try_from(page).ok().filter(|&page| page < self.pages)
    }

    /// Blocks of the drive, the last ones incomplete.
    fn blocks(&self) -> usize {
        let per_row = self.elements.get() as usize;
        (self.pages as usize).div_ceil(per_row * self.length.get() as usize) * per_row
    }
}

/// The buffered pages, block by block. A block that has a page has a slot.
#[derive(Debug, Serialize, Deserialize)]
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
    fn has(&self, slot: u32, offset: u32) -> bool {
        let (word, bit) = self.bit(slot, offset);
        self.present[word] & bit != 0
    }

    /// The slot and the offset of a buffered page.
    fn find_page(&self, page: Page) -> Option<(u32, u32)> {
        let (block, offset) = self.cut.locate(page);
        let slot = self.slots.find(block).filter(|&slot| self.has(slot, offset))?;
        Some((slot, offset))
    }

    /// Whether all pages that a flush of the block in a slot would write are such; `whole`: with
    /// those that are not buffered.
    fn all_pages(&self, slot: u32, whole: bool, is_such: impl Fn(Page) -> bool) -> bool {
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

    /// Adds the page at an offset, which is not buffered.
    #[inline]
    fn add(&mut self, slot: u32, offset: u32) {
        let (word, bit) = self.bit(slot, offset);
        self.present[word] |= bit;
        self.counts[slot as usize] += 1;
        self.pages += 1;
    }

    /// Removes a buffered page; the slot of a block without pages is free again.
    fn take(&mut self, slot: u32, offset: u32) {
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
    fn flush(&mut self, slot: u32, evicted: &mut Vec<Eviction>) {
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
    fn flush_padded(&mut self, slot: u32, evicted: &mut Vec<Eviction>) {
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
