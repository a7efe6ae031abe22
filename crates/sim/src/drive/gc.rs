//! Garbage collection: the valid pages of a victim block are moved, and the block is erased.

use super::costs::Costs;
use super::element::Element;
use super::mapping::ElementMapping;
use super::shape::Shape;

impl Element {
    /// Collects one block at a time, the planes in turn, until none is low on free blocks or no victim
    /// gives a page back; returns the time it takes, picoseconds.
    #[cold]
    pub(super) fn collect_while_low(&mut self, shape: &Shape, mapping: &mut ElementMapping<'_>, costs: &Costs) -> u64 {
        let mut cost_ps = 0;
        while let Some((_, spent_ps)) = self.collect_next(shape, mapping, costs, |_| true) {
            cost_ps += spent_ps;
        }
        cost_ps
    }

    /// Collects garbage in the first plane, in turn, that is low on free blocks, allowed, and has a
    /// victim; returns the plane and the time it takes.
    pub(super) fn collect_next(
        &mut self,
        shape: &Shape,
        mapping: &mut ElementMapping<'_>,
        costs: &Costs,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<(u32, u64)> {
        let planes = (self.next_collected..shape.planes).chain(0..self.next_collected);
        for plane in planes {
            if self.planes[plane as usize].free_blocks <= shape.low && allowed(plane) {
                if let Some(spent_ps) = self.collect_in_plane(shape, mapping, costs, plane) {
                    self.next_collected = (plane + 1) % shape.planes;
                    return Some((plane, spent_ps));
                }
            }
        }
        None
    }

    /// Collects garbage in a plane: one block with copy-back, else until its free blocks exceed the
    /// threshold by two. `None` when no block gives a page back.
    fn collect_in_plane(
        &mut self,
        shape: &Shape,
        mapping: &mut ElementMapping<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        // What cannot be won is not worth levelling for: that alone would go on for ever.
        let block = self.victim(shape, plane, self.relocation_room(shape, plane))?;
        let levelled_ps = self.level_wear(shape, mapping, costs, plane);
        let mut cost_ps = match levelled_ps {
            None => self.collect_block(shape, mapping, costs, block)?,
            // Where that block was the coldest too, another is the best one now.
            Some(spent_ps) => spent_ps + self.collect_victim(shape, mapping, costs, plane).unwrap_or(0),
        };
        while !shape.copy_back && self.planes[plane as usize].free_blocks <= shape.low + 1 {
            match self.collect_victim(shape, mapping, costs, plane) {
                Some(spent_ps) => cost_ps += spent_ps,
                None => break,
            }
        }
        Some(cost_ps)
    }

    /// Collects garbage until the plane has a free block, at any cost; `None` when that is impossible.
    #[cold]
    pub(super) fn collect_for_write(
        &mut self,
        shape: &Shape,
        mapping: &mut ElementMapping<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        let mut cost_ps = 0;
        while self.planes[plane as usize].free_blocks == 0 {
            cost_ps += self.collect_victim(shape, mapping, costs, plane)?;
        }
        Some(cost_ps)
    }

    /// Static wear levelling: moves cold data off the least erased block, if that is due; returns the time it takes.
    fn level_wear(
        &mut self,
        shape: &Shape,
        mapping: &mut ElementMapping<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        let block = self.coldest(shape, plane)?;
        let spent_ps = self.collect_block(shape, mapping, costs, block)?;
        self.counters.levellings += 1;
        Some(spent_ps)
    }

    /// Collects the plane's best victim; `None` when no block gives a page back.
    fn collect_victim(
        &mut self,
        shape: &Shape,
        mapping: &mut ElementMapping<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        let block = self.victim(shape, plane, self.relocation_room(shape, plane))?;
        self.collect_block(shape, mapping, costs, block)
    }

    /// Collects a block; `None`, with no effect, when there is no room for its valid pages.
    fn collect_block(
        &mut self,
        shape: &Shape,
        mapping: &mut ElementMapping<'_>,
        costs: &Costs,
        block: u32,
    ) -> Option<u64> {
        if self.relocation_room(shape, shape.plane_of(block)) < u32::from(self.blocks[block as usize].valid) {
            return None;
        }
        let cost_ps = self.move_pages(shape, mapping, costs, block)? + costs.erase;
        self.erase(shape, block);
        self.counters.collected_blocks += 1;
        Some(cost_ps)
    }

    /// Room for pages that are moved out of a block of the plane.
    fn relocation_room(&self, shape: &Shape, plane: u32) -> u32 {
        let room =
            |plane: &super::element::Plane| plane.free_blocks * shape.data_pages + shape.data_pages - plane.position;
        if shape.copy_back { room(&self.planes[plane as usize]) } else { self.planes.iter().map(room).sum() }
    }

    /// Moves the valid pages of a block, in order, to the open block of its plane, or with
    /// copy-back off to the roomiest plane; returns the time it takes.
    fn move_pages(
        &mut self,
        shape: &Shape,
        mapping: &mut ElementMapping<'_>,
        costs: &Costs,
        block: u32,
    ) -> Option<u64> {
        let plane = shape.plane_of(block);
        let mut cost_ps = 0;
        for physical in (block * shape.pages_per_block..).take(shape.data_pages as usize) {
            if self.blocks[block as usize].valid == 0 {
                break;
            }
            let local = mapping.logical_page(shape, physical);
            if mapping.physical_page(shape, local) != Some(physical) {
                continue;
            }
            let target = if shape.copy_back { plane } else { self.roomiest(0, |_| true)? };
            if self.planes[target as usize].position == shape.data_pages {
                self.open(shape, target)?;
            }
            self.invalidate(block);
            self.counters.moved_pages += 1;
            cost_ps += if target == plane { costs.move_within } else { costs.move_across };
            cost_ps += self.append(shape, mapping, costs, target, local);
        }
        Some(cost_ps)
    }
}
