//! When things are done: requests are issued, wait, cross a channel, wait at elements, complete.
//!
//! The rules are those of `DiskSim` 4.0 with its SSD extension, written anew from a description: a
//! host queue, at most a window of requests in the drive, one serial channel, and a queue for
//! each element. A write crosses the channel whole and is then split into pages; a read is split
//! at once and crosses the channel when its last page is there. Completions take no time of a
//! channel, but wait for a transfer in progress, and go before new transfers.

mod back_end;
mod channel;
mod elements;
mod event_loop;
mod host_queue;
mod inline_buffer;
mod listener;
mod load;
mod online_drive;
mod run;
mod tally;
mod time_series;
mod timers;
mod write_stream;

pub use host_queue::Scheduler;
pub use load::trace_input::{Feeding, Unaligned};
pub use online_drive::{Event, Live};
pub use run::run;
pub use tally::{Tally, Through};
pub use time_series::{Slice, Slices};

use crate::Error;
use crate::policy::Policy;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// When all requests are complete.
    Drained,
    /// When the last request is issued; what is not complete then is counted, not measured.
    /// `DiskSim` does so.
    LastIssued,
}

/// Where the write buffer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Before the drive: what it evicts is the load, and nothing waits for it.
    Reshape,
    /// Inside the drive: writes complete in it and wait for room in it, reads are served from it.
    Inline,
}

/// A write buffer, and how it is connected.
pub struct WriteBuffer {
    /// Which pages stay and which go.
    pub policy: Box<dyn Policy + Send>,
    /// Where it stands.
    pub mode: Mode,
    /// Whether the drive sees the reads with which blocks are completed; else they are only counted.
    pub pad_reads: bool,
}

/// How the load is fed.
#[derive(Debug, Clone, PartialEq)]
pub struct Feed {
    /// When requests are issued.
    pub feeding: Feeding,
    /// How many requests the drive takes at once; `None`: any number.
    pub window: Option<u32>,
    /// The host's queue for what it does not take.
    pub scheduler: Scheduler,
    /// When the run ends.
    pub end: End,
    /// Outstanding requests at which the run is given up as saturated.
    pub max_outstanding: usize,
    /// What becomes of ranges that are not whole sectors.
    pub unaligned: Unaligned,
    /// Rows of the time series at most; at least 2.
    pub slices: usize,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            feeding: Feeding::Open,
            window: Some(20),
            scheduler: Scheduler::Clook,
            end: End::Drained,
            max_outstanding: 1_000_000,
            unaligned: Unaligned::Round,
            slices: 256,
        }
    }
}

impl Feed {
    /// Whether a load can be fed like this.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub fn check(&self) -> Result<(), Error> {
        let at_least_one = |name, value: u64| match value {
            0 => Err(Error::option(name, value, "at least 1")),
            _ => Ok(()),
        };
        match self.feeding {
            Feeding::Open => {}
            Feeding::Scaled(factor) if factor >= 0.0 && factor.is_finite() => {}
            Feeding::Scaled(factor) => {
                return Err(Error::option("scaled", factor, "a number from 0 on"));
            }
            Feeding::Closed(outstanding) => at_least_one("closed", outstanding.into())?,
            Feeding::Batches { size, .. } => at_least_one("batch", size.into())?,
        }
        at_least_one("max_outstanding", self.max_outstanding as u64)?;
        self.window
            .map_or(Ok(()), |window| at_least_one("window", window.into()))
    }
}
