//! The geometry as the tables use it: small numbers, and prepared divisors.
//!
//! Within an element, blocks are numbered plane by plane (`plane × blocks_per_plane + row`), so that the
//! blocks of a plane lie side by side, and physical pages block by block.

use super::spec::Spec;
use crate::divide::Divisor;
use crate::policy::Page;

/// The location of a logical page: its element, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    pub element: u32,
    /// Number of the page within it.
    pub local: u32,
}

/// Which page is where: they go round the elements.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    by_elements: Divisor,
}

impl Placement {
    pub fn elements(self) -> u32 {
        self.by_elements.get()
    }

    #[inline]
    pub fn place(self, page: Page) -> Place {
        let (local, element) = self.by_elements.div_rem(page);
        Place { element, local }
    }

    /// The place of the page that follows the one at `place`.
    #[inline]
    pub fn next(self, place: Place) -> Place {
        if place.element + 1 < self.elements() {
            return Place { element: place.element + 1, ..place };
        }
        Place { element: 0, local: place.local + 1 }
    }
}

#[derive(Clone)]
pub(super) struct Shape {
    pub spec: Spec,
    /// Blocks of a plane that hold exported pages initially.
    pub usable_rows: u32,
    pub data_pages: u32,
    /// Pages that an element exports.
    pub local_pages: u32,
    /// Free blocks at which a plane needs garbage collection.
    pub low: u32,
    pub placement: Placement,
    by_data_pages: Divisor,
    by_planes: Divisor,
    by_rows: Divisor,
    by_pages_per_block: Divisor,
}

impl Shape {
    pub fn of(spec: &Spec) -> Self {
        Self {
            usable_rows: spec.usable_blocks(),
            data_pages: spec.data_pages(),
            local_pages: spec.pages_per_element(),
            low: spec.low_blocks(),
            placement: Placement { by_elements: Divisor::new(spec.elements) },
            by_data_pages: Divisor::new(spec.data_pages()),
            by_planes: Divisor::new(spec.planes),
            by_rows: Divisor::new(spec.blocks_per_plane),
            by_pages_per_block: Divisor::new(spec.pages_per_block),
            spec: spec.clone(),
        }
    }

    pub fn blocks(&self) -> u32 {
        self.spec.blocks_per_element()
    }

    /// The block of a physical page.
    #[inline]
    pub fn block_of(&self, physical: u32) -> u32 {
        self.by_pages_per_block.div(physical)
    }

    pub fn plane_of(&self, block: u32) -> u32 {
        self.by_rows.div(block)
    }

    /// The initial physical page of a logical page: block by block, the planes in turn.
    #[inline]
    pub fn initial_physical_page(&self, local: u32) -> u32 {
        let (stripe, page) = self.by_data_pages.div_rem(local);
        let (row, plane) = self.by_planes.div_rem(stripe);
        (plane * self.spec.blocks_per_plane + row) * self.spec.pages_per_block + page
    }

    /// The initial logical page of a physical page.
    pub fn initial_logical_page(&self, physical: u32) -> u32 {
        let (block, page) = self.by_pages_per_block.div_rem(physical);
        let (plane, row) = self.by_rows.div_rem(block);
        (row * self.spec.planes + plane) * self.data_pages + page
    }
}
