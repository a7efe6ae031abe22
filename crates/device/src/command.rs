//! Commands, answers and facts that transports and drive exchange, without the bytes of any protocol.

use std::ops::Range;

use crate::zones::{ZoneAction, ZoneError, Zones};

/// What a command asks of the drive.
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

/// Identifies a command to the transport that submitted it. The drive only gives these numbers back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// The transport's place among those of the drive.
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
    /// Length in bytes; 0 for a flush.
    pub length_bytes: u64,
    /// Whether a write, trim or zeroing has to be durable before it is answered.
    pub fua: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Done,
    /// The range does not lie within the drive, or does not consist of whole blocks.
    OutOfRange,
    /// The drive cannot be written.
    ReadOnly,
    /// The backing file's disk is full.
    NoSpace,
    /// The backing file cannot be read or written.
    Failed,
    /// Flash cannot be read or written, so that a retry is useless.
    Media,
    /// The drive lost its power before it was done.
    PowerLost,
    /// The host aborted the command, which may be done, done in part, or not done.
    Aborted,
    /// The zones of the drive refuse the command.
    Zone(ZoneError),
}

/// The drive's answer to one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub command: Command,
    pub status: Status,
    pub arrived_ps: u64,
    /// When the answer is due.
    pub deadline_ps: u64,
}

/// The beginning of a range that is alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length of that beginning: at least one byte, and at most the range.
    pub length_bytes: u64,
    /// Whether it was written; what was not, or was trimmed since, reads as zeroes.
    pub is_allocated: bool,
}

/// What transports know of the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveInfo {
    pub size_bytes: u64,
    /// Bytes of a logical block: 512 or 4096.
    pub block_bytes: u32,
    /// The best size and alignment of reads and writes, bytes: a power of two, and whole blocks.
    pub preferred_bytes: u32,
    pub read_only: bool,
    /// Whether it has a volatile write buffer, so that only a flush makes answered writes durable.
    pub volatile_cache: bool,
    /// At most 20 printable ASCII characters.
    pub serial: String,
    pub model: String,
    pub firmware: String,
}

/// An empty drive with blocks of 512 bytes.
impl Default for DriveInfo {
    fn default() -> Self {
        Self {
            size_bytes: 0,
            block_bytes: 512,
            preferred_bytes: 4096,
            read_only: false,
            volatile_cache: true,
            serial: "IOASSAY1".into(),
            model: "ioassay".into(),
            firmware: "1".into(),
        }
    }
}

impl DriveInfo {
    /// Bytes that are written whole or not at all when power is lost, if they are aligned: a page of
    /// the model, and no more than the backing file's system writes at once.
    pub fn atomic_bytes(&self) -> u32 {
        self.preferred_bytes.min(4096).max(self.block_bytes)
    }
}

/// A namespace of a drive.
#[derive(Debug, Clone, Copy)]
pub struct Namespace<'a> {
    /// The namespace's number, from 1 on.
    pub id: u32,
    /// First byte on the drive.
    pub start_bytes: u64,
    /// Properties of the drive, with the size of the namespace.
    pub facts: &'a DriveInfo,
}

impl Namespace<'_> {
    /// The bytes of the drive that belong to the namespace.
    pub fn range(&self) -> Range<u64> {
        self.start_bytes..self.start_bytes + self.facts.size_bytes
    }
}

/// The drive as transports see it.
pub trait Drive {
    /// Properties of the drive. While it is served, only `read_only` may change, when the drive is worn out.
    fn facts(&self) -> &DriveInfo;

    /// The namespace of this number, if there is one. Namespaces do not change while the drive is served.
    fn namespace(&self, id: u32) -> Option<Namespace<'_>>;

    /// The number of namespaces, which are numbered from 1 on.
    fn namespace_count(&self) -> u32;

    /// Takes a command; `data` are the bytes of a write and empty for all else. The answer comes
    /// later, to [`Transport::answer`](crate::transport::Transport::answer) of the tag's transport,
    /// for every command once: those too that are refused, and those whose connection is gone.
    fn submit(&mut self, command: Command, data: &[u8]);

    /// Aborts the commands with this tag that are in flight, as far as that can be; whether one was.
    /// Each is answered all the same, soon.
    fn abort(&mut self, tag: Tag) -> bool;

    /// The present content of a range that lies within the drive: what a read that is [done](Status::Done) answers
    /// with. Of what no read was answered for it is only right after [`Drive::load`].
    fn content(&self, offset_bytes: u64, length_bytes: u64) -> &[u8];

    /// The content of a range that lies within the drive is about to be looked at without a read.
    fn load(&mut self, _offset_bytes: u64, _length_bytes: u64) -> Result<(), Status> {
        Ok(())
    }

    /// How much of a range is alike from its beginning on. The range lies within the drive and is not empty.
    fn extent(&self, offset_bytes: u64, length_bytes: u64) -> Extent;

    /// Counters for health log pages.
    fn health(&self) -> Health;

    /// The zones of a zoned drive.
    fn zones(&self) -> Option<&Zones>;

    /// What is wrong with the drive. Transports ask often, so this has to be quick.
    fn trouble(&self) -> Trouble;
}

/// What a drive warns of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trouble {
    /// No block is left to write to: from now on it can only be read.
    pub worn_out: bool,
    /// The backing file has not all that is durable, so that flushes fail.
    pub unreliable: bool,
}

/// Counters of a drive's life (NVM Express Base Specification 2.0, figure 207).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    /// Time with commands in flight, microseconds.
    pub busy_us: u64,
    /// Commands that ended with an error of the medium.
    pub media_errors: u64,
    pub unsafe_shutdowns: u64,
    /// Seconds since the drive was first served.
    pub power_on_s: u64,
    /// Share of the erase cycles that are used up, percent.
    pub percentage_used: u8,
}
