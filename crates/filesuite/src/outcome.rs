//! The result of one pass: what was done and when, and facts that explain it.

use std::path::PathBuf;

use crate::calls::Done;
use crate::error::Fault;
use crate::matrix::Cell;
use crate::suite::{Kind, Pass};

/// One pass of one worker. Times are of `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Outcome {
    pub test: u8,
    /// Its place among the passes of the test, from 0.
    pub place: usize,
    pub pass: &'static Pass,
    /// Which way the data went: of the random mix each worker has its own.
    pub kind: Kind,
    pub cell: Cell,
    pub repetition: u32,
    pub worker: u32,
    /// Of how many; 0: alone, without waiting for others.
    pub workers: u32,
    pub path: PathBuf,
    /// What was done in the interval, also by a pass that failed.
    pub done: Done,
    /// Reading of the clock before the first call; 0 if it came to none.
    pub start_ns: u64,
    /// Reading of the clock after the last thing that belongs to the interval.
    pub end_ns: u64,
    /// How long `fsync` took (with `fflush` of a stream), inside or outside; `None`: there was none.
    pub fsync_ns: Option<u64>,
    /// How long `close` took, inside or outside.
    pub close_ns: Option<u64>,
    /// `fsync` belonged to the interval.
    pub fsync_included: bool,
    /// `close` belonged to the interval.
    pub close_included: bool,
    pub direct: bool,
    pub sync: bool,
    /// Through a mapping of the file.
    pub mapped: bool,
    /// One record was read before the clock started.
    pub primed: bool,
    /// How often the whole file was gone through again afterwards, without being reported.
    pub silent_passes: u32,
    /// The file was written before the pass, untimed, because no test before it had.
    pub prepared: bool,
    /// Share of the file in the page cache when the clock started; `None` where that is not known.
    pub resident_share: Option<f64>,
    /// How long each call took, where that is asked for; else empty.
    pub latencies_ns: Vec<u64>,
    /// Where in the file each of these calls was.
    pub offsets: Vec<u64>,
    /// Why it has no result.
    pub fault: Option<Fault>,
}

impl Outcome {
    /// Length of the interval; `None` of a pass that failed. At least 1.
    pub fn nanoseconds(&self) -> Option<u64> {
        match self.fault {
            None => Some(self.end_ns.saturating_sub(self.start_ns).max(1)),
            Some(_) => None,
        }
    }

    /// Calls that moved less than a record.
    pub fn short_transfers(&self) -> u64 {
        u64::from(matches!(self.fault, Some(Fault::Short { .. })))
    }

    /// Calls and steps that failed.
    pub fn errors(&self) -> u64 {
        u64::from(matches!(self.fault, Some(Fault::Step { .. } | Fault::Call { .. } | Fault::Differs { .. })))
    }
}

/// The same pass of all workers.
#[derive(Debug, Clone)]
pub struct Group {
    pub test: u8,
    pub pass: &'static Pass,
    /// The sizes, of each worker's file.
    pub cell: Cell,
    pub repetition: u32,
    /// Workers, also those that failed.
    pub workers: u32,
    /// When the last worker was ready, as the thread that waits for all sees it.
    pub start_ns: u64,
    /// When the last one was done, files closed and threads ended.
    pub end_ns: u64,
}

/// A look at the whole file after all passes over it.
#[derive(Debug, Clone)]
pub struct Checked {
    pub cell: Cell,
    pub repetition: u32,
    pub worker: u32,
    /// Bytes that were looked at.
    pub bytes: u64,
    /// Records that hold something else than was written.
    pub differing: u64,
    /// Why not all could be looked at.
    pub fault: Option<Fault>,
}

/// What a run hands out as it comes.
#[derive(Debug, Clone)]
pub enum Event {
    /// One pass of one worker.
    Pass(Outcome),
    /// The same pass of all workers; their own results came before.
    Group(Group),
    /// The check after all passes.
    Checked(Checked),
}
