//! The controller of a drive of today: what it does between the host and flash, as numbers.
//!
//! A drive with none of these options is the reference drive, which knows nothing of this file. What
//! its options may be for a drive is in [`controller_options`](super::controller_options).

use crate::options::kinds::{
    Bandwidth, Flag, LongCount, MaybeTime, Microseconds, MicrosecondsPer4KiB, Millionths, Rate, Rest, Size, Times,
    choices,
};
use crate::options::options;

/// Bytes of an entry of the mapping, unless an option says otherwise.
pub(super) const ENTRY_BYTES: u64 = 8;

options! {
    /// The controller of a drive. The default has every option off.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Controller of "controller" {
        /// Write cache, in which writes complete; 0: none.
        write_cache_bytes("write_cache"): Size = 0;
        /// Bytes that a program operation writes; 0: a page.
        program_unit_bytes("program_unit"): Size = 0;
        /// Bytes that a read operation reads at most; 0: a page.
        flash_page_bytes("flash_page"): Size = 0;
        /// Read times by page type, microseconds: 40/60/80.
        page_type_read_ps("page_type_read_us"): Times = "none";
        /// The same for reads of at most 4 KiB.
        small_read_ps("small_read_us"): Times = "none";
        /// Fixed time of a read command, microseconds.
        command_read_ps("command_read_us"): Microseconds = 0.0;
        /// Fixed time of a write command, microseconds.
        command_write_ps("command_write_us"): Microseconds = 0.0;
        /// Time of a read command for each 4 KiB, microseconds.
        command_read_ps_per_4k("command_read_us_per_4k"): MicrosecondsPer4KiB = 0.0;
        /// Time of a write command for each 4 KiB, microseconds.
        command_write_ps_per_4k("command_write_us_per_4k"): MicrosecondsPer4KiB = 0.0;
        /// Commands a second at most; 0: no limit.
        command_interval_ps("command_rate"): Rate = 0.0;
        /// Flash channels that the elements share; 0: one each.
        flash_channels: LongCount = 0;
        /// Bandwidth of a flash channel, MB/s; 0: that of the pins.
        flash_channel_ps_per_sector("flash_channel_mb_s"): Bandwidth = 0.0;
        /// Time of a command on its flash channel, microseconds.
        ///
        /// Commands wait until no transfer is ready. Without a time they do not use the channel.
        flash_command_ps("flash_command_us"): Microseconds = 0.0;
        /// Bandwidth of the link to the host, MB/s; 0: that of the host channel.
        link_ps_per_sector("link_mb_s"): Bandwidth = 0.0;
        /// The link carries both directions at once.
        link_duplex: Flag = false;
        /// Times that reads may suspend a program operation.
        program_suspensions: LongCount = 0;
        /// Times that reads may suspend an erase operation.
        erase_suspensions: LongCount = 0;
        /// Time until a suspended operation lets a read begin, microseconds.
        suspend_ps("suspend_us"): Microseconds = 0.0;
        /// Share of free superblocks at which garbage collection begins; 0: `min_free`.
        background_free_ppm("background_free"): Millionths = 0.0;
        /// Slow down the host's writes in proportion while garbage collection is in the background.
        throttle: Flag = false;
        /// Write moved pages to superblocks of their own.
        hot_cold: Flag = false;
        /// Elements that a superblock spans; 0: all.
        superblock_elements("superblock"): LongCount = 0;
        /// Program times by page type, microseconds: 300/700/1100.
        ///
        /// Then a program unit has pages of one type only.
        page_type_program_ps("page_type_program_us"): Times = "none";
        /// Share of the logical pages that are mapped at first.
        unmapped_ppm("fill"): Rest = 1.0;
        /// Mapping cache; 0: the drive's memory has the whole mapping.
        mapping_cache_bytes("mapping_cache"): Size = 0;
        /// Bytes of flash that record the mapping of a write that does not continue the one before.
        mapping_log_bytes("mapping_log"): Size = 0;
        /// Bytes of an entry of the mapping.
        mapping_entry_bytes: LongCount = ENTRY_BYTES;
        /// Bytes of a translation page that cross the flash channel when entries are missing; 0: all.
        translation_read_bytes("translation_read"): Size = 0;
        with
        /// The region that is written in SLC mode.
        slc: SlcOptions;
    }
}

options! {
    /// The SLC region of a drive with a controller. The default has none.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SlcOptions of "controller" {
        /// Capacity of the region that is written in SLC mode; 0: none.
        region_bytes("slc_region"): Size = 0;
        /// The SLC region takes free superblocks, as far as there are some.
        ///
        /// Otherwise its superblocks are set apart from the over-provisioned space.
        dynamic("slc_dynamic"): Flag = false;
        /// Bits of a cell outside the SLC region: 3 for TLC, 4 for QLC.
        bits_per_cell: LongCount = 0;
        /// Bytes of a program operation in SLC mode; 0: as in others.
        program_unit_bytes("slc_program_unit"): Size = 0;
        /// Time of a program operation in SLC mode, microseconds; none: as in others.
        program_ps("slc_program_us"): MaybeTime = "none";
        /// Time of a read in SLC mode, microseconds; none: as of others.
        read_ps("slc_read_us"): MaybeTime = "none";
        /// When pages of the SLC region are folded: the host is idle, the region is full, or both.
        folding("slc_folding"): Folding = "both";
        /// Time without a request after which the host is idle, microseconds.
        idle_ps("slc_idle_us"): Microseconds = 0.0;
    }
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

choices!(Folding: "both" = Both, "idle" = Idle, "full" = Full);
