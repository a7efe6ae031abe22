//! The engines: they decide when requests complete. Where pages go is the drive's decision, and what stays in the
//! buffer is the policy's.
//!
//! There are two engines over one core, [`core`](self::core): that of the reference model, `DiskSim` 4.0
//! ([`event_loop`]), and that of a drive with a controller, as drives are today ([`controller`]). [`write_stream`] gives
//! the results of the first without events, where a load has only writes.

mod back_end;
mod channel;
mod completions;
mod controller;
mod core;
mod elements;
mod event_log;
mod event_loop;
mod host_queue;
mod inline_buffer;
mod load;
mod online_drive;
mod run;
mod tally;
mod time_series;
mod timers;
mod workers;
mod write_batch;
mod write_behind;
mod write_bound;
mod write_steps;
mod write_stream;

pub use event_log::Event;
pub use host_queue::Scheduler;
pub use load::flows::Flow;
pub(crate) use load::paging::Paging;
pub use load::paging::Unaligned;
pub use load::trace_input::IssueMode;
pub use online_drive::OnlineDrive;
pub use run::{Extras, Settled, rest, run, run_between, run_flows, run_with, settle};
pub use tally::{Latencies, Responses, Tally};
pub use time_series::{TimeSeries, TimeSlice};
pub use workers::{OneThread, Workers};
pub use write_behind::{Destager, Destaging, WriteBehind};
pub use write_bound::write_bound;

use crate::Error;
use crate::drive::Spec;
use crate::error::require;
use crate::options::kinds::{Places, Rows, Window, choices};
use crate::options::options;
use crate::policy::Policy;

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All requests are complete.
    Drained,
    /// The last request is issued. Those that are not complete are counted, not measured. `DiskSim` ends so.
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
        require(
            self == Self::Reshape || spec.controller.is_none(),
            "mode",
            "inline",
            || "reshape, or write_cache instead of the buffer, with the options of the controller",
        )
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
        let at_least_one = |name, value: u64| require(value > 0, name, value, || "at least 1");
        match self.issue_mode {
            IssueMode::OpenLoop => {}
            IssueMode::ScaledOpenLoop(factor) => {
                require(factor >= 0.0 && factor.is_finite(), "scaled", factor, || "a number from 0 on")?;
            }
            IssueMode::ClosedLoop(outstanding) => at_least_one("closed", outstanding.into())?,
            IssueMode::Bursts { size, .. } => at_least_one("batch", size.into())?,
        }
        at_least_one("max_outstanding", self.max_outstanding as u64)?;
        self.window.map_or(Ok(()), |window| at_least_one("window", window.into()))
    }
}
