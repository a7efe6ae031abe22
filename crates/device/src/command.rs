//! What transports and drive exchange.

use std::ops::Range;

use crate::zones::{ZoneAction, ZoneError, Zones};

/// The first namespace, and the only one of most drives.
pub const FIRST_NAMESPACE: u32 = 1;

/// What is wanted of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Read,
    Write,
    /// All that was answered before becomes durable.
    Flush,
    /// The range is not needed any more, and reads as zeroes.
    Trim,
    /// The range becomes zeroes, as if they were written.
    WriteZeroes,
    /// The zone that begins at the range changes its state; with `true` all zones do that the action concerns.
    Zone(ZoneAction, bool),
}

/// Whose command it is: the transport's own numbers, which the drive only gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// Which transport, in the order in which the drive was given them.
    pub transport: u32,
    /// Which of its connections or queues. A number is used again only when nothing of the one that
    /// had it before is in flight.
    pub queue: u32,
    pub command: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    pub tag: Tag,
    pub op: Op,
    pub offset_bytes: u64,
    /// How many; 0 for a flush.
    pub length_bytes: u64,
    /// Durable before it is answered (writes, zeroes, trims).
    pub fua: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Done,
    /// The range does not lie within the drive, or is not whole blocks of its.
    OutOfRange,
    /// The drive cannot be written.
    ReadOnly,
    /// The backing file's disk is full.
    NoSpace,
    /// The backing file cannot be read or written.
    Failed,
    /// Flash cannot be read or written: another try is of no use.
    Media,
    /// The drive lost its power before it was done.
    PowerLost,
    /// Its host aborted it: it may be done, in part or not at all.
    Aborted,
    /// The zones of the drive refuse it.
    Zone(ZoneError),
}

/// The drive's answer to one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub command: Command,
    pub status: Status,
}

/// The beginning of a range that is alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// How long it is: at least one byte, and at most the range.
    pub length_bytes: u64,
    /// Whether it was written; what was not, or was trimmed since, reads as zeroes.
    pub is_allocated: bool,
}

/// What transports know of the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub size_bytes: u64,
    /// Bytes of a logical block: 512 or 4096.
    pub block_bytes: u32,
    /// Bytes that it best reads and writes at once, aligned: a power of two, and whole blocks.
    pub preferred_bytes: u32,
    pub read_only: bool,
    /// Whether it has a volatile write buffer, so that only a flush makes answered writes durable.
    pub volatile_cache: bool,
    /// At most 20 printable ASCII characters.
    pub serial: String,
    pub model: String,
    pub firmware: String,
}

impl Facts {
    /// Bytes that are written whole or not at all when power is lost, if they are aligned: a page of
    /// the model, and no more than the backing file's system writes at once.
    pub fn atomic_bytes(&self) -> u32 {
        self.preferred_bytes.min(4096).max(self.block_bytes)
    }
}

/// A namespace of a drive.
#[derive(Debug, Clone, Copy)]
pub struct Namespace<'a> {
    /// Its number: 1 and up.
    pub id: u32,
    /// Where it begins on the drive.
    pub start_bytes: u64,
    /// What it is; its size is that of the namespace.
    pub facts: &'a Facts,
}

impl Namespace<'_> {
    /// Its place on the drive.
    pub fn range(&self) -> Range<u64> {
        self.start_bytes..self.start_bytes + self.facts.size_bytes
    }
}

/// The drive as transports see it.
pub trait Drive {
    /// What it is. While it is served, only whether it refuses writes may change: when it is worn out.
    fn facts(&self) -> &Facts;

    /// A namespace of it; `None` if it has none of this number. They stay as they are while it is served.
    fn namespace(&self, id: u32) -> Option<Namespace<'_>> {
        (id == FIRST_NAMESPACE).then(|| Namespace { id, start_bytes: 0, facts: self.facts() })
    }

    /// How many namespaces it has: their numbers are 1 and up.
    fn namespace_count(&self) -> u32 {
        1
    }

    /// Takes a command; `data` are the bytes of a write and empty for all else. The answer comes
    /// later, to [`Transport::answer`](crate::transport::Transport::answer) of the tag's transport,
    /// for every command once: those too that are refused, and those whose connection is gone.
    fn submit(&mut self, command: Command, data: &[u8]);

    /// Aborts the commands with this tag that are in flight, as far as that can be; whether one was.
    /// Each is answered all the same, soon.
    fn abort(&mut self, _tag: Tag) -> bool {
        false
    }

    /// The present content of a range that lies within the drive: what a read that is [done](Status::Done) answers
    /// with. Of what no read was answered for it is only right after [`Drive::load`].
    fn content(&self, offset_bytes: u64, length_bytes: u64) -> &[u8];

    /// The content of a range that lies within the drive is about to be looked at without a read.
    fn load(&mut self, _offset_bytes: u64, _length_bytes: u64) -> Result<(), Status> {
        Ok(())
    }

    /// How much of a range is alike from its beginning on. The range lies within the drive and is not empty.
    fn extent(&self, _offset_bytes: u64, length_bytes: u64) -> Extent {
        Extent { length_bytes, is_allocated: true }
    }

    /// Numbers for health log pages.
    fn health(&self) -> Health;

    /// Its zones, if it is zoned.
    fn zones(&self) -> Option<&Zones> {
        None
    }

    /// What is wrong with it: asked often, and to be told at once.
    fn trouble(&self) -> Trouble {
        Trouble::default()
    }
}

/// What a drive warns of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trouble {
    /// No block is left to write to: from now on it can only be read.
    pub worn_out: bool,
    /// The backing file has not all that is durable, so that flushes fail.
    pub unreliable: bool,
}

/// What a drive tells of its life (NVM Express Base Specification 2.0, figure 207).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    /// Microseconds in which it was busy.
    pub busy_us: u64,
    /// Commands that ended with an error of the medium.
    pub media_errors: u64,
    pub unsafe_shutdowns: u64,
    /// Seconds since it was first served.
    pub power_on_s: u64,
    /// Share of the erase cycles that are used up, percent.
    pub percentage_used: u8,
}
