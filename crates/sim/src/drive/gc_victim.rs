//! The victim of garbage collection: a block of the reference drive, or a superblock of one with a controller.
//!
//! Both follow the same rules ([`GcPolicy`]) and differ where several have equally few valid pages. The reference drive
//! takes the last row of them, as `DiskSim`'s SSD extension does, whose results it reproduces to the nanosecond. A
//! controller takes the one that was opened first: what is still valid there has not been written for longest.

use super::element::{Block, ElementPart, State};
use super::spec::{GcPolicy, WearLevelling};
use super::translation::{State as SuperblockState, Translation};

impl ElementPart<'_> {
    /// The victim among the plane's blocks with at most `relocation_room` valid pages; `None` when no
    /// such block would give a page back.
    pub(super) fn victim(&self, plane: u32, relocation_room: u32) -> Option<u32> {
        let most = relocation_room.min(self.shape.data_pages - 1) as u16;
        let row = match self.shape.spec.gc_policy {
            GcPolicy::Greedy => self.emptiest(plane, most),
            GcPolicy::CostBenefit => self.most_profitable(plane, most),
        }?;
        Some(plane * self.shape.spec.blocks_per_plane + row)
    }

    fn rows(&self, plane: u32) -> &[Block] {
        let first = (plane * self.shape.spec.blocks_per_plane) as usize;
        &self.element.blocks[first..first + self.shape.spec.blocks_per_plane as usize]
    }

    /// The row with the fewest valid pages, `most` at most, the last of equals.
    fn emptiest(&self, plane: u32, most: u16) -> Option<u32> {
        let mut best = (most, None);
        for (row, block) in (0..).zip(self.rows(plane)) {
            if block.state == State::Sealed && block.valid <= best.0 {
                best = (block.valid, Some(row));
            }
        }
        best.1
    }

    /// The row with the highest benefit for its cost, and with `most` valid pages at most; the last of equals.
    fn most_profitable(&self, plane: u32, most: u16) -> Option<u32> {
        let full = f64::from(self.shape.data_pages);
        let worth = |block: &Block| {
            let used = f64::from(block.valid) / full;
            let age = f64::from(self.element.opened - block.opened + 1);
            // An empty block costs nothing but its erasure: nothing is better.
            if block.valid == 0 { f64::INFINITY } else { age * (1.0 - used) / (2.0 * used) }
        };
        (0..)
            .zip(self.rows(plane))
            .filter(|(_, block)| block.state == State::Sealed && block.valid <= most)
            .max_by(|(_, left), (_, right)| worth(left).total_cmp(&worth(right)))
            .map(|(row, _)| row)
    }

    /// The least erased block that holds data, if static wear levelling is on and the plane's erase
    /// counts differ by more than it allows.
    pub(super) fn coldest(&self, plane: u32) -> Option<u32> {
        if self.shape.spec.wear_levelling != WearLevelling::Static {
            return None;
        }
        let first = plane * self.shape.spec.blocks_per_plane;
        let worn = &self.element.erases[first as usize..(first + self.shape.spec.blocks_per_plane) as usize];
        let most = worn.iter().max()?;
        (first..)
            .zip(self.rows(plane))
            .filter(|(_, block)| block.state == State::Sealed)
            .map(|(block, _)| (self.element.erases[block as usize], block))
            .min()
            .filter(|(least, _)| most - least > self.shape.spec.wear_spread)
            .map(|(_, block)| block)
    }
}

impl Translation {
    /// Makes the best superblock of a group its victim; `None` if none would gain space.
    pub fn take_victim(&mut self, group: u32) -> Option<u32> {
        let first = group * self.group_superblocks;
        let opened = self.groups[group as usize].opened;
        let candidates = (first..first + self.group_superblocks).filter(|&number| {
            let superblock = &self.superblocks[number as usize];
            let gains = superblock.state == SuperblockState::Sealed && superblock.valid < self.superblock_pages;
            gains && !self.is_apart(superblock)
        });
        let full = f64::from(self.superblock_pages);
        let worth = |&number: &u32| {
            let superblock = &self.superblocks[number as usize];
            let valid = f64::from(superblock.valid);
            (full - valid) / (2.0 * valid) * (f64::from(opened - superblock.opened) + 1.0)
        };
        let victim = match self.gc_policy {
            GcPolicy::Greedy => candidates.min_by_key(|&number| {
                let superblock = &self.superblocks[number as usize];
                (superblock.valid, superblock.opened)
            }),
            // Of several that are empty, the first.
            GcPolicy::CostBenefit => candidates.rev().max_by(|left, right| worth(left).total_cmp(&worth(right))),
        }?;
        self.begin_collection(victim);
        Some(victim)
    }
}
