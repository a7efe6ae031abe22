//! Garbage collection: the valid pages of a victim block are moved, and the block is erased.

use super::element::{ElementPart, Plane};

impl ElementPart<'_> {
    /// Collects one block at a time, the planes in turn, until none is low on free blocks or no victim
    /// gives a page back; returns the time it takes, picoseconds.
    #[cold]
    pub(super) fn collect_while_low(&mut self) -> u64 {
        let mut cost_ps = 0;
        while let Some((_, spent_ps)) = self.collect_next(|_| true) {
            cost_ps += spent_ps;
        }
        cost_ps
    }

    /// Collects garbage in the first plane, in turn, that is low on free blocks, allowed, and has a
    /// victim; returns the plane and the time it takes.
    pub(super) fn collect_next(&mut self, allowed: impl Fn(u32) -> bool) -> Option<(u32, u64)> {
        let planes = (self.element.next_collected..self.shape.spec.planes).chain(0..self.element.next_collected);
        for plane in planes {
            if self.element.planes[plane as usize].free_blocks <= self.shape.low && allowed(plane) {
                if let Some(spent_ps) = self.collect_in_plane(plane) {
                    self.element.next_collected = (plane + 1) % self.shape.spec.planes;
                    return Some((plane, spent_ps));
                }
            }
        }
        None
    }

    /// Collects garbage in a plane: one block with copy-back, else until its free blocks exceed the
    /// threshold by two. `None` when no block gives a page back.
    fn collect_in_plane(&mut self, plane: u32) -> Option<u64> {
        // What cannot be won is not worth levelling for: that alone would go on for ever.
        let block = self.victim(plane, self.relocation_room(plane))?;
        let levelled_ps = self.level_wear(plane);
        let mut cost_ps = match levelled_ps {
            None => self.collect_block(block)?,
            // Where that block was the coldest too, another is the best one now.
            Some(spent_ps) => spent_ps + self.collect_victim(plane).unwrap_or(0),
        };
        while !self.shape.spec.copy_back && self.element.planes[plane as usize].free_blocks <= self.shape.low + 1 {
            match self.collect_victim(plane) {
                Some(spent_ps) => cost_ps += spent_ps,
                None => break,
            }
        }
        Some(cost_ps)
    }

    /// Collects garbage until the plane has a free block, at any cost; `None` when that is impossible.
    #[cold]
    pub(super) fn collect_for_write(&mut self, plane: u32) -> Option<u64> {
        let mut cost_ps = 0;
        while self.element.planes[plane as usize].free_blocks == 0 {
            cost_ps += self.collect_victim(plane)?;
        }
        Some(cost_ps)
    }

    /// Static wear levelling: moves cold data off the least erased block, if that is due; returns the time it takes.
    fn level_wear(&mut self, plane: u32) -> Option<u64> {
        let block = self.coldest(plane)?;
        let spent_ps = self.collect_block(block)?;
        self.element.counters.levellings += 1;
        Some(spent_ps)
    }

    /// Collects the plane's best victim; `None` when no block gives a page back.
    fn collect_victim(&mut self, plane: u32) -> Option<u64> {
        let block = self.victim(plane, self.relocation_room(plane))?;
        self.collect_block(block)
    }

    /// Collects a block; `None`, with no effect, when there is no room for its valid pages.
    fn collect_block(&mut self, block: u32) -> Option<u64> {
        if self.relocation_room(self.shape.plane_of(block)) < u32::from(self.element.blocks[block as usize].valid) {
            return None;
        }
        let cost_ps = self.move_pages(block)? + self.costs.erase;
        self.erase(block);
        self.element.counters.collected_blocks += 1;
        Some(cost_ps)
    }

    /// Room for pages that are moved out of a block of the plane.
    fn relocation_room(&self, plane: u32) -> u32 {
        let data_pages = self.shape.data_pages;
        let room = |plane: &Plane| plane.free_blocks * data_pages + data_pages - plane.position;
        if self.shape.spec.copy_back {
            room(&self.element.planes[plane as usize])
        } else {
            self.element.planes.iter().map(room).sum()
        }
    }

    /// Moves the valid pages of a block, in order, to the open block of its plane, or with
    /// copy-back off to the roomiest plane; returns the time it takes.
    fn move_pages(&mut self, block: u32) -> Option<u64> {
        let plane = self.shape.plane_of(block);
        let mut cost_ps = 0;
        for physical in (block * self.shape.spec.pages_per_block..).take(self.shape.data_pages as usize) {
            if self.element.blocks[block as usize].valid == 0 {
                break;
            }
            let local = self.element.logical_page(self.shape, physical);
            if self.physical_page(local) != Some(physical) {
                continue;
            }
            let target = if self.shape.spec.copy_back { plane } else { self.roomiest(0, |_| true)? };
            if self.element.planes[target as usize].position == self.shape.data_pages {
                self.open(target)?;
            }
            self.element.blocks[block as usize].valid -= 1;
            self.element.counters.moved_pages += 1;
            cost_ps += if target == plane { self.costs.move_within } else { self.costs.move_across };
            cost_ps += self.append(target, local);
        }
        Some(cost_ps)
    }
}
