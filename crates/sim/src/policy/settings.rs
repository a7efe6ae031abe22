//! The settings of a write buffer.

use super::{Error, Layout};

/// The most pages a buffer can hold, 1 TiB of 4 KiB pages: slots are 32-bit numbers.
const MOST_PAGES: usize = 1 << 28;
/// The most pages an erase block can have for the policies that keep whole blocks.
const MOST_PAGES_PER_BLOCK: u32 = 1 << 20;

/// Which pages make a block, for the policies that keep blocks together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum BlockBy {
    /// As many consecutive logical pages as an erase block has. They lie on different elements.
    #[default]
    Lba,
    /// Logical pages of one element, consecutive there: what shares an erase block where an element maps whole blocks.
    Element,
}

/// The settings of a policy, which refuses options that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How the drive spreads its pages.
    pub layout: Layout,
    /// Pages that the buffer can hold.
    pub capacity_pages: usize,
    /// Which pages make a block.
    pub block_by: BlockBy,
    /// Whether missing pages of a block are read, so that it is written whole.
    pub padding: bool,
    /// Whether a block that was written from its first to its last page in order leaves next.
    pub compensation: bool,
    /// Whether consecutive pages of a block go as one request, instead of one a page.
    pub block_requests: bool,
    /// How long an element takes to program a page, picoseconds: for the policies that watch
    /// elements, where the drive's state is unknown.
    pub service_ps: u64,
}

impl Settings {
    /// A buffer of `capacity_pages` with nothing switched on; a page takes the 308,984 ns that
    /// one with its share of summary pages takes in the reference drive.
    pub fn new(layout: Layout, capacity_pages: usize) -> Self {
        Self {
            layout,
            capacity_pages,
            block_by: BlockBy::Lba,
            padding: false,
            compensation: false,
            block_requests: false,
            service_ps: 308_984_000,
        }
    }

    /// Names of the options that are not as [`Settings::new`] leaves them.
    pub(super) fn chosen(&self) -> impl Iterator<Item = &'static str> {
        [
            ("block_by", self.block_by != BlockBy::Lba),
            ("padding", self.padding),
            ("compensation", self.compensation),
            ("block_requests", self.block_requests),
        ]
        .into_iter()
        .filter_map(|(name, chosen)| chosen.then_some(name))
    }

    /// Refuses what no policy can do.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Layout { elements, pages_per_block, .. } = self.layout;
        if elements == 0 {
            return Err(Error::impossible("elements", &elements, "at least 1"));
        }
        if !(1..=MOST_PAGES_PER_BLOCK).contains(&pages_per_block) {
            let wanted = format!("1 to {MOST_PAGES_PER_BLOCK}");
            return Err(Error::impossible("pages_per_block", &pages_per_block, wanted));
        }
        if self.capacity_pages > MOST_PAGES {
            let wanted = format!("at most {MOST_PAGES} pages");
            return Err(Error::impossible("capacity", &self.capacity_pages, wanted));
        }
        if self.block_requests && self.block_by == BlockBy::Element {
            let wanted = "blocks by lba: the pages of an element are not consecutive, and go one by one";
            return Err(Error::impossible("block_requests", &"with blocks by element", wanted));
        }
        Ok(())
    }
}
