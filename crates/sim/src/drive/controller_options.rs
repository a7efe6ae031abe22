//! What the options of a controller may be for a drive, and what follows from them.

use super::controller::{Controller, ENTRY_BYTES};
use super::spec::{Overlap, Pool, SECTOR_BYTES, Spec, WearLevelling};
use crate::Error;
use crate::error::require;
use crate::options::{Given, OptionSet};

/// Bytes that the command times by size count by, and up to which a read of flash is small.
pub const COMMAND_BYTES: u32 = 4096;

impl Controller {
    /// A controller with options by name, as users give them. `None` if all have their defaults.
    pub fn of<'a>(options: impl IntoIterator<Item = (&'a str, Given)>) -> Result<Option<Self>, Error> {
        let mut controller = None;
        for (name, given) in options {
            OptionSet::set_all(&mut controller, [(name, &given)])?;
        }
        Ok(controller)
    }

    /// Pages of a program unit.
    pub fn unit_pages(&self, spec: &Spec) -> u32 {
        pages(self.program_unit_bytes, spec)
    }

    /// Pages of a flash page.
    pub fn flash_page_pages(&self, spec: &Spec) -> u32 {
        pages(self.flash_page_bytes, spec)
    }

    /// Pages of the write cache.
    pub fn cache_pages(&self, spec: &Spec) -> u64 {
        self.write_cache_bytes / u64::from(spec.page_bytes)
    }

    /// Entries of a translation page, which is a flash page.
    pub fn translation_page_entries(&self, spec: &Spec) -> u32 {
        let bytes = u64::from(self.flash_page_pages(spec)) * u64::from(spec.page_bytes);
        let entries = bytes / self.mapping_entry_bytes.max(1);
        u32::try_from(entries).map_or(u32::MAX, |entries| entries.max(1))
    }

    /// Entries that the mapping cache has at most; 0: there is none.
    pub fn cached_entries(&self, spec: &Spec) -> u32 {
        self.entries(u64::from(spec.pages())) as u32
    }

    /// The same for a drive of `pages`.
    pub(super) fn entries(&self, pages: u64) -> u64 {
        let entry_bytes = self.mapping_entry_bytes.max(1);
        (self.mapping_cache_bytes / entry_bytes).min(pages)
    }

    /// Free superblocks of a group at which it takes no unit of the host: those that `min_free` keeps, and
    /// one more each for moved pages that have superblocks of their own, and for folded pages.
    pub fn low_blocks(&self, spec: &Spec) -> u32 {
        spec.low_blocks() + u32::from(self.hot_cold) + u32::from(self.slc.region_bytes > 0)
    }

    /// Free superblocks of a group at which garbage collection begins.
    pub fn background_blocks(&self, spec: &Spec) -> u32 {
        let blocks = u64::from(spec.blocks_per_plane) * self.background_free_ppm / 1_000_000;
        self.low_blocks(spec).max(blocks as u32)
    }

    /// Elements that a superblock spans.
    pub fn span(&self, spec: &Spec) -> u32 {
        match self.superblock_elements {
            0 => spec.elements,
            elements => elements as u32,
        }
    }

    /// Time of a sector on a flash channel, picoseconds.
    pub fn flash_sector_ps(&self, spec: &Spec) -> u64 {
        self.flash_channel_ps_per_sector
            .unwrap_or_else(|| u64::from(SECTOR_BYTES + spec.spare_bytes_per_sector) * spec.transfer_ps_per_byte)
    }

    pub(super) fn check(&self, spec: &Spec) -> Result<(), Error> {
        Self::check_rules(spec)?;
        self.check_units(spec)?;
        self.check_slc(spec)?;
        self.check_suspensions(spec)?;
        self.check_mapping(spec)?;
        self.check_spare(spec)?;
        let types = self.page_type_read_ps.len();
        let times = || format!("1 time, or {types} as of page_type_read_us");
        let (small_reads, programs) = (self.small_read_ps.len(), self.page_type_program_ps.len());
        require([0, 1, types].contains(&small_reads), "small_read_us", small_reads, times)?;
        require(types <= 1 || programs <= 1 || programs == types, "page_type_program_us", programs, times)?;
        let elements = u64::from(spec.elements);
        require(self.flash_channels <= elements, "flash_channels", self.flash_channels, || {
            format!("at most the {elements} elements")
        })?;
        let divides = self.superblock_elements <= elements && spec.elements % self.span(spec) == 0;
        require(divides, "superblock", self.superblock_elements, || format!("a divisor of the {elements} elements"))
    }

    /// Rules of the reference drive that this one does not have.
    fn check_rules(spec: &Spec) -> Result<(), Error> {
        let why = "with the options of the controller";
        let elements = spec.pool == Pool::Element;
        require(spec.overlap == Overlap::Off, "overlap", "on", || format!("off {why}: an element is a die"))?;
        require(elements, "pool", "plane", || format!("element {why}: pages go to any element"))?;
        require(spec.wear_levelling == WearLevelling::Off, "wear_levelling", "on", || format!("off {why}"))?;
        require(spec.channels == 1, "channels", spec.channels, || format!("1 {why}: link_mb_s sets the link"))
    }

    /// Collection always gains space if two superblocks more are spare than are kept free and written.
    fn check_spare(&self, spec: &Spec) -> Result<(), Error> {
        let open = 1 + u32::from(self.hot_cold) + self.slc_open_blocks();
        let apart = self.slc_blocks_apart(spec);
        let least = self.low_blocks(spec) + open + 2 + apart;
        let (reserved, blocks) = (spec.reserved_blocks(), spec.blocks_per_plane);
        require(reserved >= least, "reserve", spec.reserve, || {
            format!("at least {least} of the {blocks} blocks of a plane with the options of the controller")
        })?;
        let fits = reserved >= self.background_blocks(spec) + open + 2 + apart;
        let share = self.background_free_ppm as f64 / 1e6;
        require(fits, "background_free", share, || {
            let limit = reserved - open - 2 - apart + 1;
            format!("less than {limit} of the {blocks} blocks of a plane, or a larger reserve")
        })?;
        let least = self.low_blocks(spec) + open + 2;
        require(!self.throttle || self.background_blocks(spec) >= least, "background_free", share, || {
            format!("at least {least} of the {blocks} blocks of a plane with throttle")
        })
    }

    fn check_suspensions(&self, spec: &Spec) -> Result<(), Error> {
        let most = u64::from(u32::MAX);
        for (name, suspensions) in
            [("program_suspensions", self.program_suspensions), ("erase_suspensions", self.erase_suspensions)]
        {
            let needless = "0 without read_priority: other reads wait their turn";
            require(suspensions == 0 || spec.read_priority, name, suspensions, || needless)?;
            require(suspensions <= most, name, suspensions, || format!("at most {most}"))?;
        }
        let suspends = self.program_suspensions + self.erase_suspensions > 0;
        require(
            self.suspend_ps == 0 || suspends,
            "suspend_us",
            self.suspend_ps / 1_000_000,
            || "0 without program_suspensions and erase_suspensions",
        )
    }

    fn check_mapping(&self, spec: &Spec) -> Result<(), Error> {
        let cache = self.mapping_cache_bytes;
        let unit_bytes = u64::from(self.unit_pages(spec)) * u64::from(spec.page_bytes);
        let log = self.mapping_log_bytes;
        require(log <= unit_bytes, "mapping_log", log, || format!("at most the program unit of {unit_bytes} bytes"))?;
        let (name, bytes) = ("mapping_entry_bytes", self.mapping_entry_bytes);
        let sector = u64::from(SECTOR_BYTES);
        require((1..=sector).contains(&bytes), name, bytes, || format!("1 to {sector}"))?;
        require(cache > 0 || bytes == ENTRY_BYTES, name, bytes, || format!("{ENTRY_BYTES} without mapping_cache"))?;
        let least = u64::from(self.flash_page_pages(spec)) * u64::from(spec.page_bytes);
        require(cache == 0 || cache >= least, "mapping_cache", cache, || {
            format!("0, or at least a translation page, the {least} bytes of a flash page")
        })?;
        let bytes = self.translation_read_bytes;
        require(bytes == 0 || cache > 0, "translation_read", bytes, || "0 without mapping_cache")?;
        require(bytes % sector == 0 && bytes <= least, "translation_read", bytes, || {
            format!("a multiple of {sector} bytes, at most the {least} bytes of a flash page")
        })
    }

    fn check_units(&self, spec: &Spec) -> Result<(), Error> {
        let page = u64::from(spec.page_bytes);
        let (unit, flash_page) = (self.unit_pages(spec), self.flash_page_pages(spec));
        let block = u64::from(spec.planes) * u64::from(spec.pages_per_block);
        let bytes = self.program_unit_bytes;
        let divides = bytes % page == 0 && u64::from(unit) <= block && block % u64::from(unit) == 0;
        require(divides, "program_unit", bytes, || {
            format!("a multiple of the page of {page} bytes that divides the {block} pages of a block over all planes")
        })?;
        let (bytes, unit_bytes) = (self.flash_page_bytes, u64::from(unit) * page);
        let divides = bytes % page == 0 && flash_page <= unit && unit % flash_page == 0;
        require(divides, "flash_page", bytes, || {
            format!("a multiple of the page of {page} bytes that divides the program unit of {unit_bytes} bytes")
        })?;
        let (bytes, pages) = (self.write_cache_bytes, self.cache_pages(spec));
        require(bytes == 0 || (u64::from(unit)..1 << 31).contains(&pages), "write_cache", bytes, || {
            format!("0, or at least the program unit of {unit_bytes} bytes")
        })
    }
}

pub(super) fn pages(bytes: u64, spec: &Spec) -> u32 {
    u32::try_from(bytes / u64::from(spec.page_bytes)).map_or(u32::MAX, |pages| pages.max(1))
}
