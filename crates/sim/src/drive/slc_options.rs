//! What the options of the SLC region may be for a drive, and what follows from them.

use super::controller::{Controller, Folding, SlcOptions};
use super::controller_options::pages;
use super::spec::Spec;
use crate::Error;
use crate::error::require;

impl SlcOptions {
    /// The first option that is set without a region, with its value.
    fn stray(&self) -> Option<(&'static str, u64)> {
        let in_us = |time: Option<u64>| time.map_or(0, |time_ps| (time_ps / 1_000_000).max(1));
        [
            ("slc_dynamic", u64::from(self.dynamic)),
            ("bits_per_cell", self.bits_per_cell),
            ("slc_program_unit", self.program_unit_bytes),
            ("slc_program_us", in_us(self.program_ps)),
            ("slc_read_us", in_us(self.read_ps)),
            ("slc_folding", u64::from(self.folding != Folding::Both)),
            ("slc_idle_us", self.idle_ps.div_ceil(1_000_000)),
        ]
        .into_iter()
        .find(|&(_, value)| value > 0)
    }
}

impl Controller {
    /// Pages of a program unit in SLC mode.
    pub(super) fn slc_unit_pages(&self, spec: &Spec) -> u32 {
        match self.slc.program_unit_bytes {
            0 => self.unit_pages(spec),
            bytes => pages(bytes, spec),
        }
    }

    /// Program units of a block over all planes in SLC mode.
    pub(super) fn slc_rows(&self, spec: &Spec) -> u32 {
        let block = u64::from(spec.planes) * u64::from(spec.pages_per_block);
        let unit = u64::from(self.slc_unit_pages(spec));
        (block / self.slc.bits_per_cell.max(1) / unit) as u32
    }

    /// Superblocks of the region in each group, at most.
    pub(super) fn slc_superblocks(&self, spec: &Spec) -> u32 {
        let superblock_pages =
            u64::from(self.slc_rows(spec)) * u64::from(self.slc_unit_pages(spec)) * u64::from(self.span(spec));
        let groups = u64::from(spec.elements / self.span(spec));
        let bytes = superblock_pages * u64::from(spec.page_bytes) * groups;
        let superblocks = self.slc.region_bytes.checked_div(bytes).unwrap_or(0);
        superblocks.min(u64::from(spec.blocks_per_plane)) as u32
    }

    /// Those of them that are set apart from the over-provisioned space.
    pub(super) fn slc_blocks_apart(&self, spec: &Spec) -> u32 {
        if self.slc.region_bytes == 0 || self.slc.dynamic {
            return 0;
        }
        self.slc_superblocks(spec)
    }

    /// Superblocks that are being written in SLC mode and are among those of other pages.
    pub(super) fn slc_open_blocks(&self) -> u32 {
        u32::from(self.slc.region_bytes > 0 && self.slc.dynamic)
    }

    pub(super) fn check_slc(&self, spec: &Spec) -> Result<(), Error> {
        let slc = &self.slc;
        if slc.region_bytes == 0 {
            let stray = slc.stray().map(|(name, value)| Error::option(name, value, "its default without slc_region"));
            return stray.map_or(Ok(()), Err);
        }
        require(
            (2..=5).contains(&slc.bits_per_cell),
            "bits_per_cell",
            slc.bits_per_cell,
            || "2 to 5 with slc_region, the pages of a block over those in SLC mode",
        )?;
        let page = u64::from(spec.page_bytes);
        let (unit, most, flash_page) = (self.slc_unit_pages(spec), self.unit_pages(spec), self.flash_page_pages(spec));
        let [unit_bytes, most_bytes, flash_page_bytes] = [unit, most, flash_page].map(|pages| u64::from(pages) * page);
        let fits = slc.program_unit_bytes % page == 0 && unit % flash_page == 0 && unit <= most;
        require(fits, "slc_program_unit", slc.program_unit_bytes, || {
            format!(
                "a multiple of the flash page of {flash_page_bytes} bytes, \
                 and at most the program unit of {most_bytes} bytes"
            )
        })?;
        let rows = self.slc_rows(spec);
        require(rows > 0, "slc_program_unit", unit_bytes, || {
            let block = u64::from(spec.planes) * u64::from(spec.pages_per_block) * page;
            let bytes = block / slc.bits_per_cell;
            format!("at most the {bytes} bytes of a block over all planes in SLC mode")
        })?;
        require(self.slc_superblocks(spec) > 0, "slc_region", slc.region_bytes, || {
            let bytes = u64::from(spec.elements) * u64::from(rows) * unit_bytes;
            format!("0, or at least the {bytes} bytes of a superblock of each group in SLC mode")
        })
    }
}
