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

use super::{Policy, Settings, blocks::BlockBuffer, blocks::BlockOrder, blocks::Blocks, list::Lists};

#[derive(serde::Serialize, serde::Deserialize)]
struct Bplru {
    order: Lists,
    /// For each slot the offset up to which it was written in order from its first one.
    runs: Box<[u32]>,
    padding: bool,
    compensation: bool,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let blocks = Blocks::new(settings);
    let order = Bplru {
        order: Lists::new(blocks.slots(), 1),
        runs: vec![0; blocks.slots()].into_boxed_slice(),
        padding: settings.padding,
        compensation: settings.compensation,
    };
    BlockBuffer::boxed(blocks, order)
}

impl BlockOrder for Bplru {
    /// The written block is the newest, and were it alone it would be whole.
    const EVICTS_OWN: bool = false;

    fn pads(&self) -> bool {
        self.padding
    }

    #[inline]
    fn renew(&mut self, slot: u32) {
        self.order.renew(0, slot);
    }

    #[inline]
    fn written(&mut self, blocks: &Blocks, slot: u32, offset: u32, is_new: bool) {
        if is_new {
            self.order.push_front(0, slot);
        }
        if self.compensation {
            let run = &mut self.runs[slot as usize];
            *run = match offset {
                0 => 1,
                offset if offset == *run && !is_new => offset + 1,
                _ => 0,
            };
            if *run == blocks.pages_of_block(slot) {
                self.order.unlink(slot);
                self.order.push_back(0, slot);
            }
        }
    }

    fn discarded(&mut self, slot: u32, left: u32) {
        self.runs[slot as usize] = 0;
        if left == 0 {
            self.order.unlink(slot);
        }
    }

    #[inline]
    fn remove(&mut self, slot: u32) {
        self.order.unlink(slot);
    }

    #[inline]
    fn victim(&mut self) -> Option<u32> {
        self.order.back(0)
    }

    fn victims(&self) -> impl Iterator<Item = u32> {
        self.order.oldest_first(0)
    }
}
