//! The sizes and limits of zones. Which zone is in which state is not known here.

use serde::Deserialize;

use crate::Error;

/// Zones of a drive at most: the table of them is kept in memory and written when they change.
const MOST_ZONES: u64 = 1 << 20;

/// The least limit of appends that a host can be told: one page of 4 KiB would mean that there is none.
const LEAST_APPEND_BYTES: u64 = 8192;

/// Zones as a user wants them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneOptions {
    /// Bytes from the beginning of a zone to that of the next.
    pub zone_bytes: u64,
    /// Bytes of a zone that can be written; absent for all.
    pub capacity_bytes: Option<u64>,
    /// Open zones at most; absent for as many as can be active.
    pub open: Option<u32>,
    /// Active zones at most; absent without limit.
    pub active: Option<u32>,
    /// Bytes of an append at most; absent for those of a write.
    pub append_bytes: Option<u64>,
}

/// Zones of a certain drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneGeometry {
    pub count: u32,
    /// Bytes from the beginning of a zone to that of the next.
    pub zone_bytes: u64,
    /// Bytes of a zone that can be written.
    pub capacity_bytes: u64,
    /// Open zones at most; as many as there are zones without a limit.
    pub most_open: u32,
    /// Active zones at most; as many as there are zones without a limit.
    pub most_active: u32,
    /// Bytes of an append at most: a power of two, and pages of 4 KiB.
    pub append_bytes: u64,
}

impl ZoneGeometry {
    /// The zones of a drive of `size_bytes`, whose model has pages of `page_bytes`, and whose transport takes at most
    /// `transfer_bytes` a command.
    pub fn new(
        options: &ZoneOptions,
        size_bytes: u64,
        block_bytes: u32,
        page_bytes: u64,
        transfer_bytes: u64,
    ) -> Result<Self, Error> {
        let zone_bytes = options.zone_bytes;
        let unit = page_bytes.max(4096).max(u64::from(block_bytes));
        let wanted = format!("a power of two, and whole pages of {unit} bytes");
        Error::require(zone_bytes.is_power_of_two() && zone_bytes % unit == 0, "zones", zone_bytes, wanted)?;
        let wanted = format!("whole zones of {zone_bytes} bytes, and at least one");
        Error::require(size_bytes > 0 && size_bytes % zone_bytes == 0, "size", size_bytes, wanted)?;
        let count = size_bytes / zone_bytes;
        let wanted = format!("at most {MOST_ZONES} zones; choose larger ones");
        Error::require(count <= MOST_ZONES, "zones", count, wanted)?;
        let count = count as u32;
        let capacity_bytes = options.capacity_bytes.unwrap_or(zone_bytes);
        let fits = (1..=zone_bytes).contains(&capacity_bytes) && capacity_bytes % unit == 0;
        let wanted = format!("whole pages of {unit} bytes, and at most {zone_bytes}");
        Error::require(fits, "zones: capacity", capacity_bytes, wanted)?;
        let append_bytes = options.append_bytes.unwrap_or(transfer_bytes);
        let fits = append_bytes.is_power_of_two() && (LEAST_APPEND_BYTES..=transfer_bytes).contains(&append_bytes);
        let wanted = format!("a power of two from {LEAST_APPEND_BYTES} to {transfer_bytes}");
        Error::require(fits, "zones: append", append_bytes, wanted)?;
        let (open, active) = (options.open, options.active);
        Error::require(open != Some(0) && active != Some(0), "zones: open and active", 0, "at least one zone")?;
        if let (Some(open), Some(active)) = (open, active) {
            let wanted = format!("at most {active}: an open zone is active");
            Error::require(open <= active, "zones: open", open, wanted)?;
        }
        let most_active = active.unwrap_or(count).min(count);
        Ok(Self {
            count,
            zone_bytes,
            capacity_bytes,
            most_open: open.unwrap_or(most_active).min(most_active),
            most_active,
            append_bytes,
        })
    }
}
