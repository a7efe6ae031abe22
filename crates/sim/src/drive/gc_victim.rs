//! The choice of the victim of garbage collection.

use super::element::{Block, Element, State};
use super::shape::Shape;
use super::spec::{GcPolicy, WearLevelling};

impl Element {
    /// The victim among the plane's blocks with at most `relocation_room` valid pages; `None` when no
    /// such block would give a page back.
    pub(super) fn victim(&self, shape: &Shape, plane: u32, relocation_room: u32) -> Option<u32> {
        let most = relocation_room.min(shape.data_pages - 1) as u16;
        let row = match shape.gc_policy {
            GcPolicy::Greedy => self.emptiest(shape, plane, most),
            GcPolicy::CostBenefit => self.most_profitable(shape, plane, most),
        }?;
        Some(plane * shape.rows + row)
    }

    fn rows(&self, shape: &Shape, plane: u32) -> &[Block] {
        let first = (plane * shape.rows) as usize;
        &self.blocks[first..first + shape.rows as usize]
    }

    /// The row with the fewest valid pages, `most` at most, the last of equals.
    fn emptiest(&self, shape: &Shape, plane: u32, most: u16) -> Option<u32> {
        let mut best = (most, None);
        for (row, block) in (0..).zip(self.rows(shape, plane)) {
            if block.state == State::Sealed && block.valid <= best.0 {
                best = (block.valid, Some(row));
            }
        }
        best.1
    }

    /// The row with the highest benefit for its cost, and with `most` valid pages at most; the last of equals.
    fn most_profitable(&self, shape: &Shape, plane: u32, most: u16) -> Option<u32> {
        let full = f64::from(shape.data_pages);
        let worth = |block: &Block| {
            let used = f64::from(block.valid) / full;
            let age = f64::from(self.opened - block.opened + 1);
            // An empty block costs nothing but its erasure: nothing is better.
            if block.valid == 0 { f64::INFINITY } else { age * (1.0 - used) / (2.0 * used) }
        };
        (0..)
            .zip(self.rows(shape, plane))
            .filter(|(_, block)| block.state == State::Sealed && block.valid <= most)
            .max_by(|(_, left), (_, right)| worth(left).total_cmp(&worth(right)))
            .map(|(row, _)| row)
    }

    /// The least erased block that holds data, if static wear levelling is on and the plane's erase
    /// counts differ by more than it allows.
    pub(super) fn coldest(&self, shape: &Shape, plane: u32) -> Option<u32> {
        if shape.wear_levelling != WearLevelling::Static {
            return None;
        }
        let first = plane * shape.rows;
        let worn = &self.erases[first as usize..(first + shape.rows) as usize];
        let most = worn.iter().max()?;
        (first..)
            .zip(self.rows(shape, plane))
            .filter(|(_, block)| block.state == State::Sealed)
            .map(|(block, _)| (self.erases[block as usize], block))
            .min()
            .filter(|(least, _)| most - least > shape.wear_spread)
            .map(|(_, block)| block)
    }
}
