//! `fab`: flash-aware buffer (H. Jo et al., "FAB: Flash-Aware Buffer Management Policy for
//! Portable Media Players", IEEE Transactions on Consumer Electronics 52(2), 2006).
//!
//! When room is needed, the block of which most pages are in the buffer leaves with all of them;
//! of several such blocks the one whose last write is longest ago. The victim is chosen before the
//! new page comes in, and may be its own block.
//!
//! Inferred: a discard counts as a use of its block, for the order among equals.
//!
//! There is a list for every number of pages; a block gets to the front of the next one with each
//! page, so each list is in the order of last use, and nothing is ever searched.

use super::{
    Access, DestageTargets, DriveState, Eviction, Page, Policy, Settings, blocks::Blocks, destage::SEARCH_BLOCKS,
    list::Lists,
};

#[derive(serde::Serialize, serde::Deserialize)]
struct Fab {
    blocks: Blocks,
    /// List `n - 1` has the blocks of which `n` pages are here.
    by_count: Lists,
    /// No block has more pages here.
    most: u32,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let blocks = Blocks::new(settings);
    Box::new(Fab { by_count: Lists::new(blocks.slots(), settings.layout.pages_per_block as usize), blocks, most: 0 })
}

impl Fab {
    /// Evicts the fullest block. `false`: there is none. `most` falls here no further than writes
    /// have raised it, one each.
    fn evict(&mut self, evicted: &mut Vec<Eviction>) -> bool {
        while self.most > 0 {
            if let Some(slot) = self.by_count.back(self.most - 1) {
                self.by_count.unlink(slot);
                self.blocks.flush(slot, evicted);
                return true;
            }
            self.most -= 1;
        }
        false
    }

    /// Puts a block that is in no list to the front of the one that it belongs to.
    fn rank(&mut self, slot: u32) {
        let count = self.blocks.count(slot);
        self.by_count.push_front(count - 1, slot);
        self.most = self.most.max(count);
    }
}

impl Policy for Fab {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        let (block, offset) = self.blocks.locate(page);
        if let Some(slot) = self.blocks.find(block).filter(|&slot| self.blocks.has(slot, offset)) {
            self.by_count.unlink(slot);
            self.rank(slot);
            return Access::Hit;
        }
        if self.blocks.is_full() {
            self.evict(evicted);
        }
        let slot = if let Some(slot) = self.blocks.find(block) {
            self.by_count.unlink(slot);
            slot
        } else if let Some(slot) = self.blocks.open(block) {
            slot
        } else {
            evicted.push(Eviction::of(page));
            return Access::Bypass;
        };
        self.blocks.add(slot, offset);
        self.rank(slot);
        Access::Miss
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
            self.by_count.unlink(slot);
            self.blocks.take(slot, offset);
            if self.blocks.count(slot) > 0 {
                self.rank(slot);
            }
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
        let goes = |&slot: &u32| self.blocks.all_pages(slot, false, accepts);
        let victim =
            (0..self.most).rev().flat_map(|list| self.by_count.oldest_first(list)).take(SEARCH_BLOCKS).find(goes);
        if let Some(slot) = victim {
            self.by_count.unlink(slot);
            self.blocks.flush(slot, evicted);
        }
        victim.is_some()
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while self.evict(evicted) {}
    }
}
