//! Block traces replayed through `io_uring`: open loop at the trace's own times, or as fast as possible in its order.
//!
//! - [`survey`] reads a trace and says what is in it, or which request the target cannot take.
//! - [`replay`] issues it and returns an [`Outcome`]: distributions in fio's bins of service time (`lat`, from issue to
//!   completion), of response time (`response`, from the due time), and of lateness (from due time to issue).
//!
//! **Timed**, a request is issued at its due time whatever is outstanding, never before. One thread does that: it sleeps
//! while the next due time is far, looks at the clock without pause while it is near, and takes completions between. Its
//! due time is that of the trace, however late the request before was, so lateness does not add up. A second thread
//! reads the trace ahead in bounded memory. The loop neither allocates nor faults: memory is made, touched and locked
//! before. **Fast**, at most `depth` are outstanding, and requests are issued in order: one that overlaps an outstanding
//! one waits for it if either changes data, and so do those behind it; no write and no trim passes a flush.
//!
//! The time of issue is that of the call to the kernel. A completion's time is when the thread sees it: within
//! microseconds while it spins or waits, later by the time that issuing other requests takes.
//!
//! What it deliberately does not do:
//!
//! - It does not create, fill, make longer or truncate its target; a request beyond its end is an error.
//! - It does not change requests: fold, round, scale and shrink them by `ioassay_block::prepare`.
//! - It does not repeat what fails, nor continue what moved fewer bytes than wanted: both count as errors.
//! - Timed, it keeps no order among requests that are outstanding: the times of the trace do.
//! - It does not check what reads give; reads share memory.
//! - It sets no scheduling class and no processor: its caller does.
//! - It cannot end while the target never answers: what is outstanding is waited for.

#![allow(clippy::doc_markdown, reason = "`io_uring` is a name in prose, not an item")]

mod census;
mod clock;
mod content;
mod engine;
mod error;
mod kernel;
mod setup;
mod slots;
mod supply;
mod tally;
mod target;

pub use census::{Census, survey};
pub use content::{SECTOR, stamp};
pub use engine::{Ended, Outcome, Progress, Waits, replay};
pub use error::{Error, Fault};
pub use kernel::RingFacts;
pub use setup::{Pace, Setup};
pub use tally::{Direction, Failures, LATE_NS, Second, Summary};
pub use target::{Bounds, Trimming};
