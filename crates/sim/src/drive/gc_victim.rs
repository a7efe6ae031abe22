//! Which block of a plane is cleaned.

use super::element::{Block, Element, State};
use super::shape::Shape;
use super::spec::{Cleaning, WearLevelling};

impl Element {
    /// The block of the plane that is to be cleaned, among those with at most `shelter` valid
    /// pages; `None` when no such block would give a page back.
    pub(super) fn victim(&self, shape: &Shape, plane: u32, shelter: u32) -> Option<u32> {
        let most = shelter.min(shape.data_pages - 1) as u16;
        let row = match shape.cleaning {
            Cleaning::Greedy => self.emptiest(shape, plane, most),
            Cleaning::CostBenefit => self.most_profitable(shape, plane, most),
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

    /// The row with the highest benefit for its cost, and with `most` valid pages at most; the last
    /// of equals.
    fn most_profitable(&self, shape: &Shape, plane: u32, most: u16) -> Option<u32> {
        let full = f64::from(shape.data_pages);
        let worth = |block: &Block| {
            let used = f64::from(block.valid) / full;
            let age = f64::from(self.opened - block.opened + 1);
            // An empty block costs nothing but its erasure: nothing is better.
            if block.valid == 0 {
                f64::INFINITY
            } else {
                age * (1.0 - used) / (2.0 * used)
            }
        };
        (0..)
            .zip(self.rows(shape, plane))
            .filter(|(_, block)| block.state == State::Sealed && block.valid <= most)
            .max_by(|(_, left), (_, right)| worth(left).total_cmp(&worth(right)))
            .map(|(row, _)| row)
    }

    /// The block whose data lie where little was erased, when static wear levelling is on and the
    /// plane's erasures differ by more than it allows.
    pub(super) fn coldest(&self, shape: &Shape, plane: u32) -> Option<u32> {
        let WearLevelling::Static(spread) = shape.wear_levelling else {
            return None;
        };
        let first = plane * shape.rows;
        let worn = &self.erases[first as usize..(first + shape.rows) as usize];
        let most = worn.iter().max()?;
        (first..)
            .zip(self.rows(shape, plane))
            .filter(|(_, block)| block.state == State::Sealed)
            .map(|(block, _)| (self.erases[block as usize], block))
            .min()
            .filter(|(least, _)| most - least > spread)
            .map(|(_, block)| block)
    }
}
