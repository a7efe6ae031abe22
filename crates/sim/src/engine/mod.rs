//! When requests complete: they are issued, wait, cross a channel, wait at elements, complete.
//!
//! The rules are those of `DiskSim` 4.0 with its SSD extension, written anew from a description: a host queue, at most
//! a window of requests in the drive, one serial channel, and a queue for each element. The drive takes requests first
//! come, first served, whenever the channel is free: a write crosses it whole and is then split into pages; a read is
//! split at once, and crosses when its last page is there. Completions take no time of a channel, but wait for a
//! transfer in progress, and go before what waits in the queue.

mod back_end;
mod channel;
mod checkpoint;
mod completions;
mod controller;
mod element_queues;
mod elements;
mod event_log;
mod event_loop;
mod host_queue;
mod inline_buffer;
mod listener;
mod load;
mod online_drive;
mod online_engine;
mod run;
mod tally;
mod time_series;
mod timers;
mod workers;
mod write_batch;
mod write_behind;
mod write_bound;
mod write_stream;

pub use checkpoint::{Settled, run_between, settle};
pub use event_log::Event;
pub use host_queue::Scheduler;
pub(crate) use load::paging::Paging;
pub use load::paging::Unaligned;
pub use load::trace_input::IssueMode;
pub use online_drive::OnlineDrive;
pub use run::{run, run_with};
pub use tally::{Responses, Tally};
pub use time_series::{TimeSeries, TimeSlice};
pub use workers::{OneThread, Workers};
pub use write_behind::{Destager, Destaging, WriteBehind};
pub use write_bound::write_bound;

use crate::Error;
use crate::drive::Spec;
use crate::options::kinds::{Places, Rows, Window, choices};
use crate::options::options;
use crate::policy::Policy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// When all requests are complete.
    Drained,
    /// When the last request is issued; what is not complete then is counted, not measured. `DiskSim` does so.
    LastIssued,
}

choices!(End: "drained" = Drained, "last-issued" = LastIssued);

/// Where the write buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferMode {
    /// In front of the drive: its evictions are the load, and no request waits for it.
    Reshape,
    /// Inside the drive: writes complete in it and wait for room in it, and reads may hit it.
    Inline,
}

choices!(BufferMode: "reshape" = Reshape, "inline" = Inline);

impl BufferMode {
    /// Checks that a drive can have a buffer there: one with a controller has a write cache instead.
    pub fn check(self, spec: &Spec) -> Result<(), Error> {
        if self == Self::Inline && spec.controller.is_some() {
            return Err(Error::option(
                "mode",
                "inline",
                "reshape, or write_cache instead of the buffer, with the options of the controller",
            ));
        }
        Ok(())
    }
}

/// A write buffer, and how it is connected.
pub struct WriteBuffer {
    /// Which pages it keeps and which it evicts.
    pub policy: Box<dyn Policy + Send>,
    pub mode: BufferMode,
    /// Whether the drive does the reads that pad blocks; else they are only counted.
    pub pad_reads: bool,
    /// What writes pages ahead of need; `None`: nothing does. Only in a buffer inside the drive.
    pub destager: Option<Destager>,
}

options! {
    /// How a run issues its load and when it ends.
    #[derive(Debug, Clone, PartialEq)]
    pub struct RunOptions of "run" {
        /// open, scaled:FACTOR, closed:OUTSTANDING or batch:SIZE@GAP.
        issue_mode("feed"): IssueMode = "open";
        /// Requests outstanding at the drive at once, or none for no limit.
        window: Window = 20;
        /// Scheduling of the host's queue.
        ///
        /// It holds the requests beyond the window.
        scheduler("driver"): Scheduler = "clook";
        /// End of the run: all requests complete, or the last request issued.
        end: End = "drained";
        /// Outstanding requests at which the simulation stops.
        max_outstanding: Places = 1_000_000;
        /// Requests that are not whole sectors.
        unaligned: Unaligned = "round";
        /// Maximum number of rows of the time series.
        ///
        /// At least 2.
        series_rows("slices"): Rows = 256;
    }
}

impl RunOptions {
    /// Checks that a run with these options is possible.
    pub fn check(&self) -> Result<(), Error> {
        let at_least_one = |name, value: u64| match value {
            0 => Err(Error::option(name, value, "at least 1")),
            _ => Ok(()),
        };
        match self.issue_mode {
            IssueMode::OpenLoop => {}
            IssueMode::ScaledOpenLoop(factor) if factor >= 0.0 && factor.is_finite() => {}
            IssueMode::ScaledOpenLoop(factor) => {
                return Err(Error::option("scaled", factor, "a number from 0 on"));
            }
            IssueMode::ClosedLoop(outstanding) => at_least_one("closed", outstanding.into())?,
            IssueMode::Bursts { size, .. } => at_least_one("batch", size.into())?,
        }
        at_least_one("max_outstanding", self.max_outstanding as u64)?;
        self.window.map_or(Ok(()), |window| at_least_one("window", window.into()))
    }
}
