//! What the options of a controller may be for a drive, and what follows from them.

use super::controller::{Controller, ENTRY_BYTES};
use super::spec::{Overlap, Pool, SECTOR_BYTES, Spec, WearLevelling};
use crate::Error;
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
        if ![0, 1, types].contains(&self.small_read_ps.len()) {
            return Err(Error::option(
                "small_read_us",
                self.small_read_ps.len(),
                format!("1 time, or {types} as of page_type_read_us"),
            ));
        }
        let programs = self.page_type_program_ps.len();
        if types > 1 && programs > 1 && programs != types {
            return Err(Error::option(
                "page_type_program_us",
                programs,
                format!("1 time, or {types} as of page_type_read_us"),
            ));
        }
        if self.flash_channels > u64::from(spec.elements) {
            return Err(Error::option(
                "flash_channels",
                self.flash_channels,
                format!("at most the {} elements", spec.elements),
            ));
        }
        if self.superblock_elements > u64::from(spec.elements) || spec.elements % self.span(spec) != 0 {
            return Err(Error::option(
                "superblock",
                self.superblock_elements,
                format!("a divisor of the {} elements", spec.elements),
            ));
        }
        Ok(())
    }

    /// Rules of the reference drive that this one does not have.
    fn check_rules(spec: &Spec) -> Result<(), Error> {
        let why = "with the options of the controller";
        if spec.overlap != Overlap::Off {
            return Err(Error::option("overlap", "on", format!("off {why}: an element is a die")));
        }
        if spec.pool == Pool::Plane {
            return Err(Error::option("pool", "plane", format!("element {why}: pages go to any element")));
        }
        if spec.wear_levelling != WearLevelling::Off {
            return Err(Error::option("wear_levelling", "on", format!("off {why}")));
        }
        if spec.channels != 1 {
            return Err(Error::option("channels", spec.channels, format!("1 {why}: link_mb_s sets the link")));
        }
        Ok(())
    }

    /// Collection always gains space if two superblocks more are spare than are kept free and written.
    fn check_spare(&self, spec: &Spec) -> Result<(), Error> {
        let open = 1 + u32::from(self.hot_cold) + self.slc_open_blocks();
        let apart = self.slc_blocks_apart(spec);
        let least = self.low_blocks(spec) + open + 2 + apart;
        if spec.reserved_blocks() < least {
            return Err(Error::option(
                "reserve",
                spec.reserve,
                format!(
                    "at least {least} of the {} blocks of a plane with the options of the controller",
                    spec.blocks_per_plane
                ),
            ));
        }
        let begins = self.background_blocks(spec);
        if spec.reserved_blocks() < begins + open + 2 + apart {
            let most = spec.reserved_blocks() - open - 2 - apart;
            return Err(Error::option(
                "background_free",
                self.background_free_ppm as f64 / 1e6,
                format!(
                    "less than {} of the {} blocks of a plane, or a larger reserve",
                    most + 1,
                    spec.blocks_per_plane
                ),
            ));
        }
        Ok(())
    }

    fn check_suspensions(&self, spec: &Spec) -> Result<(), Error> {
        let most = u64::from(u32::MAX);
        for (name, suspensions) in
            [("program_suspensions", self.program_suspensions), ("erase_suspensions", self.erase_suspensions)]
        {
            if suspensions > 0 && !spec.read_priority {
                let wanted = "0 without read_priority: other reads wait their turn";
                return Err(Error::option(name, suspensions, wanted));
            }
            if suspensions > most {
                return Err(Error::option(name, suspensions, format!("at most {most}")));
            }
        }
        if self.suspend_ps > 0 && self.program_suspensions + self.erase_suspensions == 0 {
            let wanted = "0 without program_suspensions and erase_suspensions";
            return Err(Error::option("suspend_us", self.suspend_ps / 1_000_000, wanted));
        }
        Ok(())
    }

    fn check_mapping(&self, spec: &Spec) -> Result<(), Error> {
        let cache = self.mapping_cache_bytes;
        let (name, bytes) = ("mapping_entry_bytes", self.mapping_entry_bytes);
        if !(1..=u64::from(SECTOR_BYTES)).contains(&bytes) {
            return Err(Error::option(name, bytes, format!("1 to {SECTOR_BYTES}")));
        }
        if cache == 0 && bytes != ENTRY_BYTES {
            return Err(Error::option(name, bytes, format!("{ENTRY_BYTES} without mapping_cache")));
        }
        let least = u64::from(self.flash_page_pages(spec)) * u64::from(spec.page_bytes);
        if cache > 0 && cache < least {
            return Err(Error::option(
                "mapping_cache",
                cache,
                format!("0, or at least a translation page, the {least} bytes of a flash page"),
            ));
        }
        Ok(())
    }

    fn check_units(&self, spec: &Spec) -> Result<(), Error> {
        let page = u64::from(spec.page_bytes);
        let (unit, flash_page) = (self.unit_pages(spec), self.flash_page_pages(spec));
        let block = u64::from(spec.planes) * u64::from(spec.pages_per_block);
        let bytes = self.program_unit_bytes;
        if bytes % page != 0 || u64::from(unit) > block || block % u64::from(unit) != 0 {
            return Err(Error::option(
                "program_unit",
                bytes,
                format!(
                    "a multiple of the page of {page} bytes that divides the {block} pages of a block over all planes"
                ),
            ));
        }
        let bytes = self.flash_page_bytes;
        if bytes % page != 0 || flash_page > unit || unit % flash_page != 0 {
            return Err(Error::option(
                "flash_page",
                bytes,
                format!(
                    "a multiple of the page of {page} bytes that divides the program unit of {} bytes",
                    u64::from(unit) * page
                ),
            ));
        }
        let cache = self.cache_pages(spec);
        if self.write_cache_bytes > 0 && !(u64::from(unit)..1 << 31).contains(&cache) {
            return Err(Error::option(
                "write_cache",
                self.write_cache_bytes,
                format!("0, or at least the program unit of {} bytes", u64::from(unit) * page),
            ));
        }
        Ok(())
    }
}

pub(super) fn pages(bytes: u64, spec: &Spec) -> u32 {
    u32::try_from(bytes / u64::from(spec.page_bytes)).map_or(u32::MAX, |pages| pages.max(1))
}
