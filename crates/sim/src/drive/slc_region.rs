//! The SLC region of a drive with a controller as numbers: its rules, its superblocks of a group, and what
//! erasures gain. What follows from them is in [`slc`](super::slc).

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::controller::{Controller, Folding};
use super::spec::Spec;
use crate::divide::{Divisor, prepared};

/// The rules of the region, the same for each group of elements.
pub(super) struct SlcRegion {
    /// Superblocks of a group, at most.
    pub superblocks: u32,
    pub unit_pages: u32,
    pub rows: u32,
    pub by_unit: Divisor,
    pub dynamic: bool,
    pub folding: Folding,
}

impl SlcRegion {
    pub fn new(spec: &Spec, controller: &Controller) -> Option<Self> {
        let superblocks = controller.slc_superblocks(spec);
        let unit_pages = controller.slc_unit_pages(spec);
        (controller.slc.region_bytes > 0).then(|| Self {
            superblocks,
            unit_pages,
            rows: controller.slc_rows(spec),
            by_unit: prepared(unit_pages),
            dynamic: controller.slc.dynamic,
            folding: controller.slc.folding,
        })
    }

    /// Whether its superblocks are set apart.
    pub fn is_apart(&self) -> bool {
        !self.dynamic
    }
}

/// The region's superblocks of one group.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SlcSuperblocks {
    /// Free superblocks that are set apart, by their number within the group.
    pub free: VecDeque<u32>,
    /// Superblocks in SLC mode that are neither free nor dead.
    pub used: u32,
    /// The used ones that are full and not being folded.
    pub sealed: u32,
}

impl SlcSuperblocks {
    pub fn new(apart: Range<u32>) -> Self {
        Self { free: apart.collect(), used: 0, sealed: 0 }
    }
}

/// Superblocks that are being erased, or will be when moved pages are programmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Gained {
    /// Superblocks for any pages.
    pub free: u32,
    /// Superblocks that were in SLC mode.
    pub slc: u32,
}

impl Gained {
    pub fn plus(self, other: Self) -> Self {
        Self { free: self.free + other.free, slc: self.slc + other.slc }
    }

    pub fn minus(self, other: Self) -> Self {
        Self { free: self.free - other.free, slc: self.slc - other.slc }
    }
}
