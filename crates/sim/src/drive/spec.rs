//! The specification of a drive: geometry, times and policies.

use std::sync::LazyLock;

use super::controller::Controller;
use crate::Error;
use crate::error::require;
use crate::options::kinds::{
    Count, Flag, Microseconds, MicrosecondsPerByte, MicrosecondsPerSector, PageSize, Share, choices,
};
use crate::options::{Given, OptionRow, OptionSet, options, within};

pub use crate::options::kinds::SECTOR_BYTES;

/// Where the next page of an element may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Any plane of the element: planes are filled in turn.
    Element,
    /// The plane that holds the old copy.
    Plane,
}

choices!(Pool: "element" = Element, "plane" = Plane);

/// How garbage collection chooses its victim among the blocks of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcPolicy {
    /// The one with the fewest valid pages.
    Greedy,
    /// The one with the highest (1 - u) / 2u × age, where u is its share of valid pages and age is
    /// counted in blocks opened since (Rosenblum and Ousterhout 1992; Kawaguchi et al. 1995).
    CostBenefit,
}

choices!(GcPolicy: "greedy" = Greedy, "cost-benefit" = CostBenefit);

/// How erasures are spread over the blocks of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WearLevelling {
    /// Free blocks are taken in turn; nothing else is done.
    Off,
    /// The free block with the fewest erasures is taken.
    Dynamic,
    /// As dynamic; and when the erase counts of a plane's blocks differ by more than the option `wear_spread`, the
    /// least erased block is the victim instead of the usual one, so that cold data move on.
    Static,
}

choices!(WearLevelling: "off" = Off, "dynamic" = Dynamic, "static" = Static);

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

choices!(Overlap: "off" = Off, "dies" = Dies, "planes" = Planes);

options! {
    /// A drive: geometry, times and rules. [`Spec::default`] is the reference drive: 48 elements of
    /// 4 GiB, as simulated by `DiskSim` 4.0 with its SSD extension.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Spec of "drive" {
        /// Flash elements (packages).
        elements: Count = 48, 1..=4096;
        /// Dies per element.
        ///
        /// They divide the planes.
        dies: Count = 2;
        /// Planes per element, over all its dies.
        planes: Count = 8, 1..=1024;
        /// Blocks per plane.
        blocks_per_plane("blocks"): Count = 2048, 4..=1 << 22;
        /// Pages per block, one of them for metadata.
        ///
        /// The last one holds a summary. A drive with a controller has none.
        pages_per_block: Count = 64, 2..=1 << 14;
        /// Page size in bytes.
        page_bytes("page"): PageSize = 4096, SECTOR_BYTES..=1 << 20;
        /// Over-provisioning: share of a plane's blocks that is not exported.
        ///
        /// Over-provisioning as usually quoted is spare capacity over exported capacity.
        reserve: Share = 0.15;
        /// Share of free blocks in a plane at which garbage collection begins.
        min_free: Share = 0.05;
        /// Time to read a page, microseconds.
        read_ps("read_us"): Microseconds = 25.0;
        /// Time to program a page, microseconds.
        program_ps("program_us"): Microseconds = 200.0;
        /// Time to erase a block, microseconds.
        erase_ps("erase_us"): Microseconds = 1500.0;
        /// Time per byte over an element's pins, microseconds.
        transfer_ps_per_byte("transfer_us_per_byte"): MicrosecondsPerByte = 0.025;
        /// Spare bytes transferred with each sector.
        spare_bytes_per_sector("spare_bytes"): Count = 16, 0..=4096;
        /// Host channels.
        ///
        /// Channel `e % channels` serves element `e`.
        channels: Count = 1;
        /// Time per sector on a host channel, microseconds.
        channel_ps_per_sector("channel_us_per_sector"): MicrosecondsPerSector = 0.2384;
        /// Move pages within a plane without crossing the pins.
        copy_back: Flag = true;
        /// Scope of page allocation.
        pool: Pool = "element";
        /// Victim selection of garbage collection.
        gc_policy("cleaning"): GcPolicy = "greedy";
        /// How erasures are distributed.
        wear_levelling: WearLevelling = "off";
        /// Difference of erasures in a plane that static wear levelling allows.
        wear_spread: Count = 8;
        /// Parts of an element that work in parallel.
        overlap: Overlap = "off";
        /// Serve waiting reads of an element before its writes.
        read_priority: Flag = false;
        /// Erasures that a block survives; 0: unlimited.
        endurance: Count = 50;
        with
        /// What a drive of today does beyond that; `None` for the reference drive.
        controller: Option<Controller>;
    }
}

/// The options that a drive with a state may change.
static TIMING: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let rows = Spec::rows().into_iter().chain(Controller::rows());
    rows.filter(|row| row.is_timing).collect()
});

impl Spec {
    /// Changes an option that only decides when things are done.
    pub fn set_timing(&mut self, name: &str, given: &Given) -> Result<(), Error> {
        let had_controller = self.controller.is_some();
        if !OptionSet::set(self, name, given)? {
            return Err(Error::UnknownOption { name: name.to_owned(), of: Self::OF });
        }
        if had_controller {
            self.controller.get_or_insert_default();
        }
        if TIMING.iter().any(|row| row.name == name) && self.controller.is_some() == had_controller {
            return Ok(());
        }
        Err(Error::Structural { name: name.to_owned() })
    }

    /// The same without times: what decides where pages go.
    pub(crate) fn structure(&self) -> Self {
        let mut structure = self.clone();
        for row in TIMING.iter() {
            let set = OptionSet::set(&mut structure, row.name, &row.default);
            debug_assert!(set.is_ok_and(|known| known), "{} has a default", row.name);
        }
        if self.controller.is_some() {
            structure.controller.get_or_insert_default();
        }
        structure
    }

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
        self.check_ranges()?;
        within("dies", self.dies, &(1..=self.planes))?;
        within("channels", self.channels, &(1..=self.elements))?;
        let divides = self.planes % self.dies == 0;
        require(divides, "dies", self.dies, || format!("a divisor of the {} planes", self.planes))?;
        require(self.page_bytes % SECTOR_BYTES == 0, "page", self.page_bytes, || "a multiple of 512")
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
            require(value_ps <= second, name, value_ps, || "at most a second (10^12 ps)")?;
        }
        // A page that is moved crosses the pins twice, and a request has up to 2^32 sectors: all that is to stay within
        // 64 bits.
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
