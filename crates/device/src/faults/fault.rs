//! One fault: what it does, and to which commands.

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
    /// The same, and no client reaches the drive for `down_us`.
    LinkLoss,
    /// A region at the end of its life: pages refuse writes after `endurance` of them, reads take `delay_us` longer.
    Worn,
}

/// For what the probability holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    #[default]
    Command,
    /// For each page of 4 KiB, once: some are bad, and stay so.
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
    #[serde(default)]
    pub namespace: Option<u32>,
    /// First byte of the region that it concerns.
    #[serde(default)]
    pub offset_bytes: u64,
    /// Length of the region; absent for all that follows.
    #[serde(default)]
    pub length_bytes: Option<u64>,
    #[serde(default)]
    pub after_us: u64,
    /// How long it lasts; absent without end.
    #[serde(default)]
    pub for_us: Option<u64>,
    /// It begins again after this period.
    #[serde(default)]
    pub every_us: Option<u64>,
    /// Commands that it would concern and that go well first.
    #[serde(default)]
    pub skip: u64,
    /// Share of the commands, or pages, that it strikes.
    #[serde(default = "always")]
    pub probability: f64,
    /// For what the probability holds.
    #[serde(default)]
    pub scope: Scope,
    #[serde(default = "one")]
    pub seed: u64,
    /// Times that it strikes at most.
    #[serde(default)]
    pub count: Option<u64>,
    #[serde(default)]
    pub delay_us: u64,
    /// Rate of a throttled drive.
    #[serde(default)]
    pub bytes_per_s: u64,
    /// Bits that flip at a time.
    #[serde(default = "one_bit")]
    pub bits: u32,
    /// How long a link is lost.
    #[serde(default)]
    pub down_us: u64,
    /// Writes that each page of a worn region takes.
    #[serde(default)]
    pub endurance: u32,
}

fn always() -> f64 {
    1.0
}

fn one() -> u64 {
    1
}

fn one_bit() -> u32 {
    1
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

    fn is_reset(self) -> bool {
        matches!(self, Self::ControllerReset | Self::LinkLoss)
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
    /// Whether the time makes it strike, and not commands: a reset that says nothing of them.
    pub(super) fn strikes_by_time(&self) -> bool {
        self.kind.is_reset()
            && self.op.is_empty()
            && self.namespace.is_none()
            && self.offset_bytes == 0
            && self.length_bytes.is_none()
            && self.skip == 0
            && self.probability >= 1.0
    }

    /// Whether it concerns a command, whenever that arrives.
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
            None => 0..namespaces.drive_bytes(),
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
        let wrong = |name: &'static str, value: &dyn std::fmt::Display, wanted: &str| {
            Err(Error::option(name, value, wanted.to_owned()))
        };
        let operations = self.kind.operations();
        if let Some(operation) = self.op.iter().find(|of| !operations.contains(of)) {
            let name = serde_json::to_string(operation).unwrap_or_default();
            let known: Vec<String> = operations.iter().filter_map(|of| serde_json::to_string(of).ok()).collect();
            return wrong("op", &name, &known.join(" or "));
        }
        if self.offset_bytes >= size_bytes {
            let wanted = match self.namespace {
                None => "less than the drive's size",
                Some(_) => "less than the namespace's size",
            };
            return wrong("offset", &self.offset_bytes, wanted);
        }
        if self.length_bytes == Some(0) {
            return wrong("length", &0, "at least a byte");
        }
        if !(self.probability > 0.0 && self.probability <= 1.0) {
            return wrong("probability", &self.probability, "more than 0, at most 1");
        }
        let times = [
            ("after", Some(self.after_us)),
            ("for", self.for_us),
            ("every", self.every_us),
            ("delay", Some(self.delay_us)),
            ("down", Some(self.down_us)),
        ];
        for (name, us) in times {
            if us.is_some_and(|us| us > LONGEST_US) {
                return wrong(name, &us.unwrap_or_default(), "a day at most, in microseconds");
            }
        }
        if self.for_us == Some(0) {
            return wrong("for", &0, "at least a microsecond");
        }
        if let Some(every_us) = self.every_us {
            let shorter = self.for_us.is_some_and(|for_us| for_us < every_us);
            if every_us == 0 || !(shorter || self.strikes_by_time()) {
                return wrong("every", &every_us, "a period with a shorter 'for' in it");
            }
        }
        if self.count == Some(0) {
            return wrong("count", &0, "at least once");
        }
        self.check_kind(wrong)
    }

    fn check_kind(
        &self,
        wrong: impl Fn(&'static str, &dyn std::fmt::Display, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (kind, none) = (self.kind, "none: this kind has no use for it");
        let delays = matches!(kind, Kind::Latency | Kind::Worn);
        if kind == Kind::Latency && self.delay_us == 0 {
            return wrong("delay", &0, "at least a microsecond");
        }
        if !delays && self.delay_us > 0 {
            return wrong("delay", &self.delay_us, none);
        }
        if (kind == Kind::Throttle) != (self.bytes_per_s > 0) {
            let wanted = if kind == Kind::Throttle { "at least 1 byte a second" } else { none };
            return wrong("rate", &self.bytes_per_s, wanted);
        }
        if !(1..=MOST_BITS).contains(&self.bits) || (kind != Kind::BitRot && self.bits != 1) {
            return wrong("bits", &self.bits, "1 to 4096, of bit-rot alone");
        }
        if (kind == Kind::LinkLoss) != (self.down_us > 0) {
            let wanted = if kind == Kind::LinkLoss { "how long the link is lost" } else { none };
            return wrong("down", &self.down_us, wanted);
        }
        if kind != Kind::Worn && self.endurance > 0 {
            return wrong("endurance", &self.endurance, none);
        }
        if self.strikes_by_time() && self.for_us.is_some() {
            return wrong("for", &"given", "none: a reset is no matter of time");
        }
        Ok(())
    }
}
