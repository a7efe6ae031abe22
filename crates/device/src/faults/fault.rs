//! One fault: what it does, and to which commands. The module above counts, and decides when it strikes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::command::{Command, Op};
use crate::namespace::Namespaces;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads fail: an unrecovered read error.
    ReadError,
    /// Writes, trims and zeroes fail, and nothing of them is done.
    WriteError,
    /// Flushes fail, and nothing becomes durable by them.
    FlushError,
    /// Answers leave later by `delay_us`.
    Latency,
    /// No more than `bytes_per_s` is transferred.
    Throttle,
    /// Bits of what is read have flipped in flash, and no digest tells.
    BitRot,
    /// Writes are answered, and nothing of them is done.
    LostWrite,
    /// Writes are answered, and only their beginning is done.
    TornWrite,
    /// Flushes are answered at once, and writes with FUA are ordinary ones: a drive that lies.
    IgnoredFlush,
    /// Commands are not answered until the fault ends.
    Stuck,
    /// The controller resets: connections end, and what is in flight fails.
    ControllerReset,
    /// The controller resets, and no client reaches the drive for `down_us`.
    LinkLoss,
    /// A region at the end of its life: pages refuse writes after `endurance` of them, reads take `delay_us` longer.
    Worn,
}

/// What the probability applies to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    #[default]
    Command,
    /// Each page of 4 KiB, decided once: a bad page stays bad.
    Page,
}

/// A command's operation, as faults name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Read,
    Write,
    Trim,
    Flush,
}

/// A fault. Times begin when it is armed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: Kind,
    /// Operations that it concerns; empty for all that its kind can.
    #[serde(default)]
    pub op: Vec<Operation>,
    /// The namespace that it concerns, within which its region lies; absent for the whole drive.
    pub namespace: Option<u32>,
    /// First byte of the region that it concerns.
    #[serde(default)]
    pub offset_bytes: u64,
    /// Length of the region; absent for all that follows.
    pub length_bytes: Option<u64>,
    #[serde(default)]
    pub after_us: u64,
    /// How long it lasts; absent without end.
    pub for_us: Option<u64>,
    /// Period after which it begins again.
    pub every_us: Option<u64>,
    /// Matching commands that are spared first.
    #[serde(default)]
    pub skip: u64,
    /// Share of the commands, or pages, that it strikes.
    #[serde(default = "one")]
    pub probability: f64,
    /// What the probability applies to.
    #[serde(default)]
    pub scope: Scope,
    #[serde(default = "one")]
    pub seed: u64,
    /// Times that it strikes at most.
    pub count: Option<u64>,
    #[serde(default)]
    pub delay_us: u64,
    /// Rate of a throttled drive.
    #[serde(default)]
    pub bytes_per_s: u64,
    /// Bits that flip at a time.
    #[serde(default = "one")]
    pub bits: u32,
    /// How long a link is lost.
    #[serde(default)]
    pub down_us: u64,
    /// Writes that each page of a worn region takes.
    #[serde(default)]
    pub endurance: u32,
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

/// Longest time, delay or period: a day.
const LONGEST_US: u64 = 86_400 * 1_000_000;
/// Bits that flip at a time, at most.
const MOST_BITS: u32 = 4096;

impl Kind {
    /// Operations that it can concern.
    fn operations(self) -> &'static [Operation] {
        use Operation::{Flush, Read, Trim, Write};
        match self {
            Self::ReadError | Self::BitRot => &[Read],
            Self::WriteError => &[Write, Trim],
            Self::FlushError => &[Flush],
            Self::LostWrite | Self::TornWrite => &[Write],
            Self::Throttle | Self::Worn => &[Read, Write],
            Self::IgnoredFlush => &[Flush, Write],
            Self::Latency | Self::Stuck | Self::ControllerReset | Self::LinkLoss => &[Read, Write, Trim, Flush],
        }
    }
}

/// The part of a command's range that lies within a region.
pub(super) fn common(region: &Range<u64>, command: &Command) -> Range<u64> {
    let command_end = command.offset_bytes.saturating_add(command.length_bytes);
    command.offset_bytes.max(region.start)..command_end.min(region.end)
}

impl From<Op> for Operation {
    fn from(op: Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write => Self::Write,
            Op::Trim | Op::WriteZeroes | Op::Zone(..) => Self::Trim,
            Op::Flush => Self::Flush,
        }
    }
}

impl Fault {
    /// Whether the time makes it strike: a reset without any condition on commands.
    pub(super) fn strikes_by_time(&self) -> bool {
        matches!(self.kind, Kind::ControllerReset | Kind::LinkLoss)
            && self.op.is_empty()
            && self.namespace.is_none()
            && self.offset_bytes == 0
            && self.length_bytes.is_none()
            && self.skip == 0
            && self.probability >= 1.0
    }

    /// Whether it concerns a command, regardless of the time.
    pub(super) fn concerns(&self, command: &Command, region: &Range<u64>) -> bool {
        let operation = command.op.into();
        let operations = self.kind.operations();
        if !operations.contains(&operation) || !(self.op.is_empty() || self.op.contains(&operation)) {
            return false;
        }
        if self.kind == Kind::IgnoredFlush && operation == Operation::Write && !command.fua {
            return false;
        }
        // A flush has no address, and concerns all.
        operation == Operation::Flush || !common(region, command).is_empty()
    }

    /// The region that it concerns, on the drive.
    pub(super) fn region(&self, namespaces: &Namespaces) -> Result<Range<u64>, Error> {
        let whole = match self.namespace {
            None => 0..namespaces.drive_bytes,
            Some(id) => {
                let wanted = format!("1 to {}, as the drive has them", namespaces.count());
                let namespace = namespaces.get(id);
                namespace.ok_or_else(|| Error::option("namespace", id, wanted))?.range()
            }
        };
        self.check(whole.end - whole.start)?;
        let start = whole.start + self.offset_bytes;
        let length_bytes = self.length_bytes.unwrap_or(u64::MAX);
        Ok(start..start.saturating_add(length_bytes).min(whole.end))
    }

    /// Whether it can be, on a drive, or a namespace, of this size.
    fn check(&self, size_bytes: u64) -> Result<(), Error> {
        let operations = self.kind.operations();
        let json = |operation| serde_json::to_string(operation).unwrap_or_default();
        if let Some(operation) = self.op.iter().find(|of| !operations.contains(of)) {
            let known: Vec<String> = operations.iter().map(json).collect();
            return Err(Error::option("op", &json(operation), known.join(" or ")));
        }
        let whole = if self.namespace.is_none() { "drive" } else { "namespace" };
        let within = format!("less than the {whole}'s size");
        Error::require(self.offset_bytes < size_bytes, "offset", self.offset_bytes, within)?;
        Error::require(self.length_bytes != Some(0), "length", 0, "at least a byte")?;
        let probability = self.probability;
        Error::require(probability > 0.0 && probability <= 1.0, "probability", probability, "more than 0, at most 1")?;
        let (for_us, every_us) = (self.for_us.unwrap_or_default(), self.every_us.unwrap_or_default());
        for (name, us) in [
            ("after", self.after_us),
            ("for", for_us),
            ("every", every_us),
            ("delay", self.delay_us),
            ("down", self.down_us),
        ] {
            Error::require(us <= LONGEST_US, name, us, "a day at most, in microseconds")?;
        }
        Error::require(self.for_us != Some(0), "for", 0, "at least a microsecond")?;
        if self.every_us.is_some() {
            let is_shorter = self.for_us.is_some_and(|for_us| for_us < every_us);
            let holds = every_us > 0 && (is_shorter || self.strikes_by_time());
            Error::require(holds, "every", every_us, "a period with a shorter 'for' in it")?;
        }
        Error::require(self.count != Some(0), "count", 0, "at least once")?;
        self.check_kind()
    }

    fn check_kind(&self) -> Result<(), Error> {
        let (kind, none) = (self.kind, "none: this kind has no use for it");
        let delays = matches!(kind, Kind::Latency | Kind::Worn);
        Error::require(kind != Kind::Latency || self.delay_us > 0, "delay", 0, "at least a microsecond")?;
        Error::require(delays || self.delay_us == 0, "delay", self.delay_us, none)?;
        let is_throttle = kind == Kind::Throttle;
        let rate = if is_throttle { "at least 1 byte a second" } else { none };
        Error::require(is_throttle == (self.bytes_per_s > 0), "rate", self.bytes_per_s, rate)?;
        let most_bits = if kind == Kind::BitRot { MOST_BITS } else { 1 };
        Error::require((1..=most_bits).contains(&self.bits), "bits", self.bits, "1 to 4096, of bit-rot alone")?;
        let is_loss = kind == Kind::LinkLoss;
        let down = if is_loss { "how long the link is lost" } else { none };
        Error::require(is_loss == (self.down_us > 0), "down", self.down_us, down)?;
        Error::require(kind == Kind::Worn || self.endurance == 0, "endurance", self.endurance, none)?;
        let lasts = self.strikes_by_time() && self.for_us.is_some();
        Error::require(!lasts, "for", "given", "none: a reset is no matter of time")
    }
}
