//! The specification of a drive: geometry, times and policies.

use super::controller::Controller;
use crate::Error;
use crate::error::require;

/// Bytes of a sector, the unit of transfers.
pub const SECTOR_BYTES: u32 = 512;

/// Where the next page of an element may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Any plane of the element: planes are filled in turn.
    Element,
    /// The plane that holds the old copy.
    Plane,
}

/// How garbage collection chooses its victim among the blocks of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcPolicy {
    /// The one with the fewest valid pages.
    Greedy,
    /// The one with the highest (1 - u) / 2u × age, where u is its share of valid pages and age is
    /// counted in blocks opened since (Rosenblum and Ousterhout 1992; Kawaguchi et al. 1995).
    CostBenefit,
}

/// How erasures are spread over the blocks of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WearLevelling {
    /// Free blocks are taken in turn; nothing else is done.
    Off,
    /// The free block with the fewest erasures is taken.
    Dynamic,
    /// As dynamic; and when the erase counts of a plane's blocks differ by more than this number, the
    /// least erased block is the victim instead of the usual one, so that cold data move on.
    Static(u32),
}

/// Which parts of an element may work in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Nothing: an element serves one page at a time.
    Off,
    /// Its dies: one transfers over the pins while others read, program or erase.
    Dies,
    /// Its planes, each on its own.
    Planes,
}

/// A drive: geometry, times and rules. [`Spec::default`] is the reference drive: 48 elements of
/// 4 GiB, as simulated by `DiskSim` 4.0 with its SSD extension.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Flash elements (dies or packages; `DiskSim`'s term).
    pub elements: u32,
    /// Dies of an element; divides `planes`.
    pub dies: u32,
    pub planes: u32,
    pub blocks_per_plane: u32,
    /// Pages of a block; the last of them holds a summary, the others data. Without a summary in a
    /// drive with a controller.
    pub pages_per_block: u32,
    pub page_bytes: u32,
    /// Over-provisioned share of a plane's blocks: spare blocks over all blocks. (Over-provisioning as
    /// usually quoted is spare capacity over exported capacity.)
    pub reserve: f64,
    /// Share of a plane's blocks at which garbage collection begins.
    pub min_free: f64,
    /// Time to read a page from flash to the element's register, picoseconds.
    pub read_ps: u64,
    /// Time to program a page, picoseconds.
    pub program_ps: u64,
    /// Time to erase a block, picoseconds.
    pub erase_ps: u64,
    /// Time to move one byte between register and controller, picoseconds.
    pub transfer_ps_per_byte: u64,
    /// Bytes that go with each sector over the pins, for error correction.
    pub spare_bytes_per_sector: u32,
    /// Time of one sector on a host channel, picoseconds.
    pub channel_ps_per_sector: u64,
    /// Host channels; element `e` is served by channel `e % channels`.
    pub channels: u32,
    /// Garbage collection moves pages within a plane, without crossing the pins (copy-back).
    pub copy_back: bool,
    /// Where a page may be written.
    pub pool: Pool,
    /// Which block is the victim of garbage collection.
    pub gc_policy: GcPolicy,
    pub wear_levelling: WearLevelling,
    /// What may work in parallel.
    pub overlap: Overlap,
    /// Reads have priority over writes that wait at an element.
    pub read_priority: bool,
    /// Erasures after which a block is dead; 0: never.
    pub endurance: u32,
    /// What a drive of today does beyond that; `None` for the reference drive.
    pub controller: Option<Controller>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            elements: 48,
            dies: 2,
            planes: 8,
            blocks_per_plane: 2048,
            pages_per_block: 64,
            page_bytes: 4096,
            reserve: 0.15,
            min_free: 0.05,
            read_ps: 25_000_000,
            program_ps: 200_000_000,
            erase_ps: 1_500_000_000,
            transfer_ps_per_byte: 25_000,
            spare_bytes_per_sector: 16,
            channel_ps_per_sector: 238_400,
            channels: 1,
            copy_back: true,
            pool: Pool::Element,
            gc_policy: GcPolicy::Greedy,
            wear_levelling: WearLevelling::Off,
            overlap: Overlap::Off,
            read_priority: false,
            endurance: 50,
            controller: None,
        }
    }
}

impl Spec {
    /// Checks that such a drive can work.
    pub fn check(&self) -> Result<(), Error> {
        self.check_counts()?;
        self.check_reserve()?;
        self.check_size()?;
        self.check_times()?;
        match &self.controller {
            Some(controller) => controller.check(self),
            None => Ok(()),
        }
    }

    /// Checks that such a drive can work and fits into memory.
    pub fn check_memory(&self, available_bytes: u64) -> Result<(), Error> {
        self.check()?;
        let needed_bytes = self.memory_bytes();
        if needed_bytes > available_bytes {
            return Err(Error::Memory { pages: self.pages(), needed_bytes, available_bytes });
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), Error> {
        within("elements", self.elements, 1, 4096)?;
        within("planes", self.planes, 1, 1024)?;
        within("dies", self.dies, 1, self.planes)?;
        within("blocks", self.blocks_per_plane, 4, 1 << 22)?;
        within("pages_per_block", self.pages_per_block, 2, 1 << 14)?;
        within("page", self.page_bytes, SECTOR_BYTES, 1 << 20)?;
        within("channels", self.channels, 1, self.elements)?;
        if self.planes % self.dies != 0 {
            return Err(Error::option("dies", self.dies, format!("a divisor of the {} planes", self.planes)));
        }
        if self.page_bytes % SECTOR_BYTES != 0 {
            return Err(Error::option("page", self.page_bytes, "a multiple of 512"));
        }
        Ok(())
    }

    fn check_reserve(&self) -> Result<(), Error> {
        for (name, share) in [("reserve", self.reserve), ("min_free", self.min_free)] {
            require((0.0..1.0).contains(&share), name, share, || "a share from 0 up to 1")?;
        }
        let (reserved, low, blocks) = (self.reserved_blocks(), self.low_blocks(), self.blocks_per_plane);
        require(low >= 1, "min_free", self.min_free, || {
            let least = 1.0 / f64::from(blocks);
            format!(
                "at least {least:.4}, one of the {blocks} blocks of a plane: garbage collection needs a free block \
                 for moved pages"
            )
        })?;
        let least = low + 2;
        require(reserved >= least && self.usable_blocks() >= 1, "reserve", self.reserve, || {
            format!(
                "at least {least} of the {blocks} blocks of a plane and less than all: min_free keeps {low} of them \
                 free, one is being written, and garbage collection has to gain one"
            )
        })
    }

    fn check_size(&self) -> Result<(), Error> {
        let physical = u64::from(self.planes) * u64::from(self.blocks_per_plane) * u64::from(self.pages_per_block);
        let most = u64::from(u32::MAX) - 1;
        require(physical < most && self.pages_wide() < most, "blocks", self.blocks_per_plane, || {
            format!("a drive of less than {most} pages; use larger pages")
        })
    }

    fn check_times(&self) -> Result<(), Error> {
        let second = 1_000_000_000_000;
        for (name, value_ps) in [
            ("read", self.read_ps),
            ("program", self.program_ps),
            ("erase", self.erase_ps),
            ("transfer", self.transfer_ps_per_byte),
        ] {
            if value_ps > second {
                return Err(Error::option(name, value_ps, "at most a second (10^12 ps)"));
            }
        }
        within("spare_bytes", self.spare_bytes_per_sector, 0, 4096)?;
        self.check_sums_of_times()
    }

    /// A page that is moved crosses the pins twice, and a request has up to 2^32 sectors: all that
    /// is to stay within 64 bits.
    fn check_sums_of_times(&self) -> Result<(), Error> {
        let second = 1_000_000_000_000;
        require(
            self.channel_ps_per_sector <= second / 1000,
            "channel",
            self.channel_ps_per_sector,
            || "at most a millisecond (10^9 ps) for a sector",
        )?;
        let bytes_per_sector = u64::from(SECTOR_BYTES + self.spare_bytes_per_sector);
        let page_bytes = bytes_per_sector * u64::from(self.page_sectors());
        require(page_bytes * self.transfer_ps_per_byte <= second, "transfer", self.transfer_ps_per_byte, || {
            format!("at most a second (10^12 ps) for the {page_bytes} bytes of a page")
        })
    }

    /// Over-provisioned blocks of a plane.
    pub fn reserved_blocks(&self) -> u32 {
        (self.reserve * f64::from(self.blocks_per_plane)) as u32
    }

    /// Blocks of a plane that are exported.
    pub fn usable_blocks(&self) -> u32 {
        self.blocks_per_plane - self.reserved_blocks()
    }

    /// Free blocks of a plane at or below which it needs garbage collection.
    pub fn low_blocks(&self) -> u32 {
        (self.min_free * f64::from(self.blocks_per_plane)) as u32
    }

    /// Pages of a block that hold data: a drive with a controller has no summaries.
    pub fn data_pages(&self) -> u32 {
        self.pages_per_block - u32::from(self.controller.is_none())
    }

    pub fn blocks_per_element(&self) -> u32 {
        self.planes * self.blocks_per_plane
    }

    /// Pages that an element exports.
    pub fn pages_per_element(&self) -> u32 {
        self.usable_blocks() * self.planes * self.data_pages()
    }

    fn pages_wide(&self) -> u64 {
        u64::from(self.usable_blocks())
            * u64::from(self.planes)
            * u64::from(self.data_pages())
            * u64::from(self.elements)
    }

    /// Pages that the drive exports.
    pub fn pages(&self) -> u32 {
        self.pages_wide() as u32
    }

    /// Bytes that the drive exports.
    pub fn capacity_bytes(&self) -> u64 {
        self.pages_wide() * u64::from(self.page_bytes)
    }

    /// Memory that a simulation of the drive takes, bytes, once all of it has been written.
    pub fn memory_bytes(&self) -> u64 {
        let blocks = u64::from(self.blocks_per_element()) * u64::from(self.elements);
        let per_block = 4 * u64::from(self.pages_per_block) + BLOCK_STATE_BYTES;
        let controller = self.controller.as_ref();
        let cached = controller.map_or(0, |controller| controller.entries(self.pages_wide()));
        let index = if cached > 0 { 4 * self.pages_wide() } else { 0 };
        4 * self.pages_wide() + blocks * per_block + index + cached * CACHED_ENTRY_BYTES
    }

    pub fn page_sectors(&self) -> u32 {
        self.page_bytes / SECTOR_BYTES
    }
}

/// What a block costs beside its pages: its state (8 bytes) and its erasures (4).
const BLOCK_STATE_BYTES: u64 = 12;

/// What an entry of the mapping cache costs beside its place in an index of all pages.
const CACHED_ENTRY_BYTES: u64 = 16;

fn within(name: &'static str, value: u32, least: u32, most: u32) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::option(name, value, format!("{least} to {most}")))
}
