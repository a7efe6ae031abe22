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
    /// Program times by page type, picoseconds, where a program unit has pages of one type only; empty:
    /// the program time of the specification.
    pub page_type_program_ps: Vec<u64>,
    /// Share of the logical pages that are not mapped at first, in millionths.
    pub unmapped_ppm: u64,
    /// The region that is written in SLC mode.
    pub slc: SlcOptions,
    /// Bytes of the mapping cache; 0: the drive's memory has the whole mapping.
    pub mapping_cache_bytes: u64,
    /// Bytes of an entry of the mapping; `None`: 8.
    pub mapping_entry_bytes: Option<u64>,
}

/// The SLC region of a drive with a controller. The default has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlcOptions {
    /// Bytes that are written in SLC mode at most; 0: there is no region.
    pub region_bytes: u64,
    /// Its superblocks are any free ones. Otherwise they are set apart from the over-provisioned space.
    pub dynamic: bool,
    /// Bits of a cell in other superblocks.
    pub bits_per_cell: u64,
    /// Bytes that a program operation writes in SLC mode; 0: the program unit.
    pub program_unit_bytes: u64,
    /// Time of such an operation, picoseconds; `None`: the program time of the specification.
    pub program_ps: Option<u64>,
    /// Time of a read, picoseconds; `None`: the read time of the specification.
    pub read_ps: Option<u64>,
    pub folding: Folding,
    /// Time without a request after which the host is idle, picoseconds.
    pub idle_ps: u64,
}

/// When valid pages of the SLC region are folded: moved to superblocks with all bits of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Folding {
    /// While the host is idle, and when the region is full.
    #[default]
    Both,
    /// While the host is idle. When the region is full, the host's pages go to other superblocks.
    Idle,
    /// When the region is full. The host's pages wait for room in it.
    Full,
}
