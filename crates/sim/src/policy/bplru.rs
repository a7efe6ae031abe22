//! `bplru`: block padding LRU (H. Kim and S. Ahn, "BPLRU: A Buffer Management Scheme for Improving
//! Random Writes in Flash Storage", FAST 2008).
//!
//! The list is of blocks, and a write to any page makes its whole block the newest. When room is
//! needed, the oldest block leaves with all its pages. Two options of the paper:
//!
//! - *padding*: pages of the block that are not in the buffer are read, and the block is written
//!   whole, so that a drive that maps by block need not merge.
//! - *compensation*: a block that was written from its first page to its last, in order, will not
//!   be written again soon: it becomes the oldest. A write out of order begins anew.
//!
//! Inferred: the write that needs room makes its block the newest before a victim is looked for
//! (so a block never leaves because of a write to itself), reads and discards move nothing, and a
//! block is either consecutive LBAs or the pages of one element: the paper's drive had but one.

use super::{
    Access, DestageTargets, DriveState, Eviction, Page, Policy, Settings, blocks::Blocks, destage::SEARCH_BLOCKS,
    list::Lists,
};

#[derive(serde::Serialize, serde::Deserialize)]
struct Bplru {
    blocks: Blocks,
    order: Lists,
    /// For each slot the offset up to which it was written in order from its first one.
    runs: Box<[u32]>,
    padding: bool,
    compensation: bool,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let blocks = Blocks::new(settings);
    Box::new(Bplru {
        order: Lists::new(blocks.slots(), 1),
        runs: vec![0; blocks.slots()].into_boxed_slice(),
        blocks,
        padding: settings.padding,
        compensation: settings.compensation,
    })
}

impl Bplru {
    /// Evicts a block. `false`: there is none.
    #[inline]
    fn evict(&mut self, slot: Option<u32>, evicted: &mut Vec<Eviction>) -> bool {
        let Some(slot) = slot else {
            return false;
        };
        self.order.unlink(slot);
        if self.padding {
            self.blocks.flush_padded(slot, evicted);
        } else {
            self.blocks.flush(slot, evicted);
        }
        true
    }

    fn compensate(&mut self, slot: u32, offset: u32) {
        let run = &mut self.runs[slot as usize];
        *run = match offset {
            0 => 1,
            offset if offset == *run => offset + 1,
            _ => 0,
        };
        if *run == self.blocks.pages_of_block(slot) {
            self.order.unlink(slot);
            self.order.push_back(0, slot);
        }
    }

    /// Gives a block its slot, as the newest.
    #[inline]
    fn open(&mut self, block: u32, evicted: &mut Vec<Eviction>) -> Option<u32> {
        if self.blocks.is_full() {
            self.evict(self.order.back(0), evicted);
        }
        let slot = self.blocks.open(block)?;
        if self.compensation {
            self.runs[slot as usize] = 0;
        }
        self.order.push_front(0, slot);
        Some(slot)
    }
}

impl Policy for Bplru {
    fn pads(&self) -> bool {
        self.padding
    }

    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        let (block, offset) = self.blocks.locate(page);
        let mut access = Access::Miss;
        let slot = if let Some(slot) = self.blocks.find(block) {
            self.order.renew(0, slot);
            if self.blocks.has(slot, offset) {
                access = Access::Hit;
            } else {
                if self.blocks.is_full() {
                    // Another block: this one is the newest, and were it alone it would be whole.
                    self.evict(self.order.back(0), evicted);
                }
                self.blocks.add(slot, offset);
            }
            slot
        } else if let Some(slot) = self.open(block, evicted) {
            self.blocks.add(slot, offset);
            slot
        } else {
            evicted.push(Eviction::of(page));
            return Access::Bypass;
        };
        if self.compensation {
            self.compensate(slot, offset);
        }
        access
    }

    fn holds(&self, page: Page) -> bool {
        self.blocks.holds(page)
    }

    fn block_of(&self, page: Page) -> Option<u32> {
        Some(self.blocks.locate(page).0)
    }

    fn discard(&mut self, page: Page) -> bool {
        let (block, offset) = self.blocks.locate(page);
        let found = self.blocks.find(block).filter(|&slot| self.blocks.has(slot, offset));
        if let Some(slot) = found {
            if self.blocks.count(slot) == 1 {
                self.order.unlink(slot);
            }
            self.blocks.take(slot, offset);
            self.runs[slot as usize] = 0;
        }
        found.is_some()
    }

    fn len(&self) -> usize {
        self.blocks.len()
    }

    fn capacity(&self) -> usize {
        self.blocks.capacity()
    }

    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        let accepts = |page| targets.accepts(page);
        let goes = |&slot: &u32| self.blocks.all_pages(slot, self.padding, accepts);
        let victim = self.order.oldest_first(0).take(SEARCH_BLOCKS).find(goes);
        self.evict(victim, evicted)
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while self.evict(self.order.back(0), evicted) {}
    }
}
