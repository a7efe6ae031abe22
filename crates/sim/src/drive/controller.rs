//! The controller of a drive of today: what it does between the host and flash, as numbers.
//!
//! A drive with none of these options is the reference drive, which knows nothing of this file. How the
//! options are read and checked is in [`controller_options`](super::controller_options).

/// The controller of a drive. The default has every option off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Controller {
    /// Bytes of the write cache; 0: a write completes when it is programmed.
    pub write_cache_bytes: u64,
    /// Bytes that a program operation writes; 0: a page.
    pub program_unit_bytes: u64,
    /// Bytes that a read operation gives at most; 0: a page.
    pub flash_page_bytes: u64,
    /// Read times by page type, picoseconds; empty: the read time of the specification.
    pub page_type_read_ps: Vec<u64>,
    /// The same for reads of at most 4 KiB; empty: as larger ones.
    pub small_read_ps: Vec<u64>,
    /// Fixed time of a read command, picoseconds.
    pub command_read_ps: u64,
    /// Fixed time of a write command, picoseconds.
    pub command_write_ps: u64,
    /// Time of a read command for each 4 KiB, picoseconds.
    pub command_read_ps_per_4k: u64,
    /// Time of a write command for each 4 KiB, picoseconds.
    pub command_write_ps_per_4k: u64,
    /// Time between the beginnings of two commands at least, picoseconds.
    pub command_interval_ps: u64,
    /// Flash channels; 0: each element has its own.
    pub flash_channels: u64,
    /// Time of a sector on a flash channel, picoseconds; `None`: as over the pins.
    pub flash_channel_ps_per_sector: Option<u64>,
    /// Time of a sector on the link to the host, picoseconds; `None`: as on the host channel.
    pub link_ps_per_sector: Option<u64>,
    /// The link carries both directions at once.
    pub link_duplex: bool,
    /// Times that reads may suspend a program operation.
    pub program_suspensions: u64,
    /// Times that reads may suspend an erase operation.
    pub erase_suspensions: u64,
    /// Time until a suspended operation lets a read begin, picoseconds.
    pub suspend_ps: u64,
    /// Share of free superblocks at which garbage collection begins in the background, in millionths.
    pub background_free_ppm: u64,
    /// Moved pages go to superblocks of their own.
    pub hot_cold: bool,
    /// Elements that a superblock spans; 0: all.
    pub superblock_elements: u64,
    /// Bytes of the mapping cache; 0: the drive's memory has the whole mapping.
    pub mapping_cache_bytes: u64,
    /// Bytes of an entry of the mapping; `None`: 8.
    pub mapping_entry_bytes: Option<u64>,
}
