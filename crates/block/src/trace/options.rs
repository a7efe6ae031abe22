//! How a trace is read and written where there is a choice. Every default refuses.

use super::Unit;
use crate::Names;

/// What to do with a request that was issued before the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutOfOrder {
    #[default]
    Refuse,
    /// Requests are put into the order of their times, each at most so many places from where it
    /// stood; equal times keep the order of the trace. One that is later still is an error.
    Sort(usize),
    /// Requests are given as they stand.
    Keep,
}

/// What to do with a read, write or trim of no byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroLength {
    #[default]
    Refuse,
    Skip,
}

/// How a trace is read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Requests that go back in time.
    pub out_of_order: OutOfOrder,
    pub zero_length: ZeroLength,
    /// How many lines or records that cannot be read are left out; the next one is an error.
    pub bad_lines: u64,
    /// What the columns of a `csv` trace are, as far as its header does not say.
    pub csv: CsvColumns,
    /// Which events of a trace of Linux' block layer are requests, and whether the times of a log are those of issue.
    pub event: BlkEvent,
    /// What a line looks like, as a regular expression with the names of columns.
    pub pattern: String,
    /// Lines that the pattern does not match are passed over.
    pub skip_unmatched: bool,
    /// Which files of an archive or folder are read: those whose name matches, with `*` and `?`.
    pub member: Option<String>,
    /// Of what has no number but a name, in all files of the trace.
    pub names: Names,
}

/// Which event of a request's life in the kernel stands for it, and gives its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlkEvent {
    /// Q: queued by whoever asks.
    #[default]
    Queued,
    /// D: issued to the driver, after merging and scheduling.
    Issued,
    /// C: completed by the drive.
    Completed,
}

/// How a CSV trace codes what a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KindCode {
    /// Words or their initials: read, write, trim, flush, R, W, D, F.
    #[default]
    Words,
    /// 1 is a read, 0 a write.
    ReadIsOne,
    /// 1 is a write, 0 a read.
    WriteIsOne,
    /// The SCSI command's number, hexadecimal.
    Scsi,
    /// Letters of Linux' block layer, such as `WS` and `FF`.
    Rwbs,
    /// Nothing says it; all are reads.
    Reads,
    /// Nothing says it; all are writes.
    Writes,
}

/// The columns of a CSV trace. Empty, everything is taken from the header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CsvColumns {
    /// Names of the columns, in order, instead of a header's; `-` for one that is of no interest.
    pub names: Vec<String>,
    /// With `names`: the first line is a header, and is passed over.
    pub skip_header: bool,
    /// Unit of the times, where the name of their column has none.
    pub time_unit: Option<Unit>,
    /// Bytes that one unit of the offsets is, where it is not as the column's name says.
    pub offset_unit_bytes: Option<u64>,
    /// Bytes that one unit of the lengths is, where it is not as the column's name says.
    pub length_unit_bytes: Option<u64>,
    pub kinds: KindCode,
}

/// Whether what a format cannot hold may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loss {
    /// It is an error, with the request's number.
    #[default]
    Refuse,
    /// It is lost, as the option says.
    Accept,
}

/// How a trace is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Ranges that are no whole sectors: accepted, they grow to the sectors that they touch.
    pub unaligned: Loss,
    /// Device numbers that the format does not have: accepted, they become 0.
    pub devices: Loss,
    /// Trims and flushes that the format does not have: accepted, they are left out.
    pub kinds: Loss,
}
