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

use super::{Policy, Settings, blocks::BlockBuffer, blocks::BlockOrder, blocks::Blocks, list::Lists};

#[derive(serde::Serialize, serde::Deserialize)]
struct Fab {
    /// List `n - 1` has the blocks of which `n` pages are here.
    by_count: Lists,
    /// No block has more pages here.
    most: u32,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let blocks = Blocks::new(settings);
    let by_count = Lists::new(blocks.slots(), settings.layout.pages_per_block as usize);
    BlockBuffer::boxed(blocks, Fab { by_count, most: 0 })
}

impl Fab {
    /// Puts a block that is in no list to the front of the one that it belongs to.
    fn rank(&mut self, slot: u32, count: u32) {
        self.by_count.push_front(count - 1, slot);
        self.most = self.most.max(count);
    }
}

impl BlockOrder for Fab {
    const EVICTS_OWN: bool = true;

    fn written(&mut self, blocks: &Blocks, slot: u32, _offset: u32, is_new: bool) {
        if !is_new {
            self.by_count.unlink(slot);
        }
        self.rank(slot, blocks.count(slot));
    }

    fn discarded(&mut self, slot: u32, left: u32) {
        self.by_count.unlink(slot);
        if left > 0 {
            self.rank(slot, left);
        }
    }

    fn remove(&mut self, slot: u32) {
        self.by_count.unlink(slot);
    }

    /// The fullest block. `most` falls here no further than writes have raised it, one each.
    fn victim(&mut self) -> Option<u32> {
        while self.most > 0 {
            let fullest = self.by_count.back(self.most - 1);
            if fullest.is_some() {
                return fullest;
            }
            self.most -= 1;
        }
        None
    }

    fn victims(&self) -> impl Iterator<Item = u32> {
        (0..self.most).rev().flat_map(|list| self.by_count.oldest_first(list))
    }
}
