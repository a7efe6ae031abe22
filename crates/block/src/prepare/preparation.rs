//! What is to be done to a trace.

use crate::error::choice;
use crate::{Error, Kind};

/// Which kinds of request are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of four kinds")]
pub struct Kinds {
    pub reads: bool,
    pub writes: bool,
    pub trims: bool,
    pub flushes: bool,
}

impl Kinds {
    pub const ALL: Self = Self { reads: true, writes: true, trims: true, flushes: true };

    pub const WRITES: Self = Self { reads: false, writes: true, trims: false, flushes: false };

    /// The kinds of a list of names.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let mut kinds = Self { reads: false, writes: false, trims: false, flushes: false };
        for name in names {
            match name {
                "reads" => kinds.reads = true,
                "writes" => kinds.writes = true,
                "trims" => kinds.trims = true,
                "flushes" => kinds.flushes = true,
                "all" => kinds = Self::ALL,
                _ => {
                    return Err(unknown("keep", name, "reads, writes, trims, flushes or all"));
                }
            }
        }
        Ok(kinds)
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Read => self.reads,
            Kind::Write => self.writes,
            Kind::Trim => self.trims,
            Kind::Flush => self.flushes,
        }
    }
}

/// What becomes of the devices of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// They stay as they are.
    Keep,
    /// All are taken for one: their addresses lie over each other.
    Ignore,
    /// Only this one is kept, and becomes device 0.
    Only(u32),
    /// They become one device on which each has so many bytes, in the order in which they appear.
    SideBySide { each_bytes: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizing {
    /// They stay as they are.
    Keep,
    /// Beginning and end are rounded out to whole pages.
    RoundOut,
    /// Each request becomes the one page that holds its first byte.
    Cut,
    /// Rounded out, and each page is a request of its own at the same time.
    Split,
}

impl Sizing {
    pub fn named(name: &str) -> Result<Self, Error> {
        choice(
            "sizes",
            name,
            &[("keep", Self::Keep), ("round-out", Self::RoundOut), ("cut", Self::Cut), ("split", Self::Split)],
        )
    }
}

/// What becomes of offsets that are no multiple of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offsets {
    /// They stay, where the sizes do not round them.
    Keep,
    /// They are rounded down; the length stays.
    Down,
    Refuse,
}

impl Offsets {
    pub fn named(name: &str) -> Result<Self, Error> {
        choice("offsets", name, &[("keep", Self::Keep), ("down", Self::Down), ("refuse", Self::Refuse)])
    }
}

/// What becomes of requests that end behind the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    Refuse,
    /// They move to the remainder of their offset by the limit.
    Wrap,
    Drop,
}

impl Beyond {
    pub fn named(name: &str) -> Result<Self, Error> {
        choice("beyond", name, &[("refuse", Self::Refuse), ("wrap", Self::Wrap), ("drop", Self::Drop)])
    }
}

/// An address range that is made smaller evenly.
///
/// The ratio is `ceil(from / to)`; page `p` becomes page `floor(p / ratio)`, and the offset within the page stays. So
/// up to `ratio` neighbouring pages fall onto one. Nothing changes where `from` is at most `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shrink {
    /// Where the trace ends: the largest end of its requests.
    pub from_bytes: u64,
    /// Where it is to end.
    pub to_bytes: u64,
}

impl Shrink {
    /// By how much offsets are divided.
    pub fn ratio(self) -> u64 {
        self.from_bytes.div_ceil(self.to_bytes.max(1)).max(1)
    }
}

/// What is to be done to a trace, in this order: devices, kinds, empty requests, shrinking, cutting,
/// offsets and sizes, the limit, skipping and counting off, splitting, time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preparation {
    pub devices: Devices,
    pub keep: Kinds,
    /// Requests of no bytes that are no flush are dropped; otherwise they are an error.
    pub drop_empty: bool,
    /// How the range is made smaller.
    pub shrink: Option<Shrink>,
    /// Bytes of a page, for all that is rounded.
    pub page_bytes: u64,
    /// What becomes of offsets within a page.
    pub offsets: Offsets,
    /// Requests are first cut to the block of so many bytes that holds their first byte.
    pub cut_bytes: Option<u64>,
    pub sizes: Sizing,
    /// Requests may end here at most.
    pub limit_bytes: Option<u64>,
    /// What becomes of those that do not.
    pub beyond: Beyond,
    /// So many of the requests that are left are left out at the beginning.
    pub skip: u64,
    /// So many are given at most (before they are split).
    pub first: Option<u64>,
    /// The first request that is given comes at time 0.
    pub rebase: bool,
    /// Times are multiplied by it: 0.5 is twice as fast.
    pub time_scale: f64,
}

impl Default for Preparation {
    /// Nothing is changed; what cannot be is an error.
    fn default() -> Self {
        Self {
            devices: Devices::Keep,
            keep: Kinds::ALL,
            drop_empty: false,
            shrink: None,
            page_bytes: 4096,
            offsets: Offsets::Keep,
            cut_bytes: None,
            sizes: Sizing::Keep,
            limit_bytes: None,
            beyond: Beyond::Refuse,
            skip: 0,
            first: None,
            rebase: false,
            time_scale: 1.0,
        }
    }
}

impl Preparation {
    pub(super) fn check(&self) -> Result<(), Error> {
        let bytes = [
            ("page", Some(self.page_bytes)),
            ("shrink", self.shrink.map(|shrink| shrink.to_bytes)),
            ("sizes", self.cut_bytes),
        ];
        for (name, value) in bytes {
            if value == Some(0) {
                return Err(unknown(name, "0", "at least 1 byte"));
            }
        }
        if self.devices == (Devices::SideBySide { each_bytes: 0 }) {
            return Err(unknown("devices", "side-by-side:0", "at least 1 byte for each"));
        }
        if let Some(limit_bytes) = self.limit_bytes {
            if limit_bytes < self.page_bytes {
                let wanted = format!("at least one page, {} bytes", self.page_bytes);
                return Err(unknown("limit", &limit_bytes.to_string(), &wanted));
            }
        }
        if self.time_scale >= 0.0 && self.time_scale.is_finite() {
            return Ok(());
        }
        let value = self.time_scale.to_string();
        Err(unknown("time_scale", &value, "a factor of at least 0"))
    }
}

fn unknown(name: &'static str, value: &str, wanted: &str) -> Error {
    Error::Option { name, value: value.to_owned(), wanted: wanted.to_owned() }
}
