//! Cleaning: valid pages of a block are moved together, and the block is erased.

use super::costs::Costs;
use super::element::Element;
use super::mapping::Pages;
use super::shape::Shape;

impl Element {
    /// Cleans one block at a time, from the plane whose turn it is, until none is low or nothing
    /// can be won; returns for how long, picoseconds.
    #[cold]
    pub(super) fn clean_while_low(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
    ) -> u64 {
        let mut cost_ps = 0;
        while let Some((_, spent_ps)) = self.clean_one(shape, pages, costs, |_| true) {
            cost_ps += spent_ps;
        }
        cost_ps
    }

    /// Cleans the first low plane, from the one whose turn it is, that is allowed and where
    /// something can be won; returns which, and for how long.
    pub(super) fn clean_one(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<(u32, u64)> {
        let planes = (self.next_cleaned..shape.planes).chain(0..self.next_cleaned);
        for plane in planes {
            if self.planes[plane as usize].free_blocks <= shape.low && allowed(plane) {
                if let Some(spent_ps) = self.clean_plane(shape, pages, costs, plane) {
                    self.next_cleaned = (plane + 1) % shape.planes;
                    return Some((plane, spent_ps));
                }
            }
        }
        None
    }

    /// Cleans the plane: one block with copy-back, else until it has two free blocks more than
    /// would make it clean. `None` when no block gives a page back.
    fn clean_plane(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        // What cannot be won is not worth levelling for: that alone would go on for ever.
        let block = self.victim(shape, plane, self.shelter(shape, plane))?;
        let levelled_ps = self.level(shape, pages, costs, plane);
        let mut cost_ps = match levelled_ps {
            None => self.clean_block(shape, pages, costs, block)?,
            // Where that block was the coldest too, another is the best one now.
            Some(spent_ps) => spent_ps + self.clean_best(shape, pages, costs, plane).unwrap_or(0),
        };
        while !shape.copy_back && self.planes[plane as usize].free_blocks <= shape.low + 1 {
            match self.clean_best(shape, pages, costs, plane) {
                Some(spent_ps) => cost_ps += spent_ps,
                None => break,
            }
        }
        Some(cost_ps)
    }

    /// Cleans until the plane has a free block, however dear; `None` when that is impossible.
    #[cold]
    pub(super) fn clean_in_need(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        let mut cost_ps = 0;
        while self.planes[plane as usize].free_blocks == 0 {
            cost_ps += self.clean_best(shape, pages, costs, plane)?;
        }
        Some(cost_ps)
    }

    /// Moves cold data away from where little was erased, if that is due; returns for how long.
    fn level(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        let block = self.coldest(shape, plane)?;
        let spent_ps = self.clean_block(shape, pages, costs, block)?;
        self.counters.levellings += 1;
        Some(spent_ps)
    }

    /// Cleans the best block of the plane; `None` when no block gives a page back.
    fn clean_best(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        let block = self.victim(shape, plane, self.shelter(shape, plane))?;
        self.clean_block(shape, pages, costs, block)
    }

    /// Cleans a block; `None`, and nothing done, when its pages have nowhere to go.
    fn clean_block(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        block: u32,
    ) -> Option<u64> {
        if self.shelter(shape, shape.plane_of(block)) < u32::from(self.blocks[block as usize].valid)
        {
            return None;
        }
        let cost_ps = self.move_pages(shape, pages, costs, block)? + costs.erase;
        self.erase(shape, block);
        self.counters.cleanings += 1;
        Some(cost_ps)
    }

    /// Pages that can be moved to where cleaning moves them.
    fn shelter(&self, shape: &Shape, plane: u32) -> u32 {
        let room = |plane: &super::element::Plane| {
            plane.free_blocks * shape.data_pages + shape.data_pages - plane.position
        };
        if shape.copy_back {
            room(&self.planes[plane as usize])
        } else {
            self.planes.iter().map(room).sum()
        }
    }

    /// Moves the valid pages of a block, in order, to the open block of its plane, or with
    /// copy-back off to the roomiest plane; returns for how long.
    fn move_pages(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        block: u32,
    ) -> Option<u64> {
        let plane = shape.plane_of(block);
        let mut cost_ps = 0;
        for physical in (block * shape.pages_per_block..).take(shape.data_pages as usize) {
            if self.blocks[block as usize].valid == 0 {
                break;
            }
            let local = pages.owner(shape, physical);
            if pages.home(shape, local) != Some(physical) {
                continue;
            }
            let target = if shape.copy_back {
                plane
            } else {
                self.roomiest(0, |_| true)?
            };
            if self.planes[target as usize].position == shape.data_pages {
                self.open(shape, target)?;
            }
            self.lift(block);
            self.counters.moved_pages += 1;
            cost_ps += if target == plane {
                costs.move_within
            } else {
                costs.move_across
            };
            cost_ps += self.append(shape, pages, costs, target, local);
        }
        Some(cost_ps)
    }
}
