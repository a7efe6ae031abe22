//! Streaming reader of the logs that fio writes beside its results.
//!
//! - [`read_log`]: bandwidth, IOPS and latency logs (`write_bw_log`, `write_iops_log`,
//!   `write_lat_log`), one line per I/O or per window.
//! - [`read_histogram_log`]: completion-latency histograms (`write_hist_log`), one line per window.
//!
//! Both read from any [`std::io::Read`] in one pass and constant memory, and answer with one
//! [`ioassay_stats::Histogram`] per direction. Formats of fio 2.x to 3.4x are known: see
//! "LOG FILE FORMATS" in fio(1), and `flush_samples` in its iolog.c for what is really written.
//!
//! The crate is pure: it opens no file, reads no clock and prints nothing. It deliberately knows
//! nothing of fio's JSON results, and judges no measurement.

#![allow(
    clippy::inline_always,
    reason = "without it the compiler leaves calls in the loop over lines: a fifth more time"
)]

mod bins;
mod digits;
mod error;
mod fast_line;
mod histogram_log;
mod kind;
mod lanes;
mod line;
mod line_source;
mod reader;
mod series;
mod summary;
mod tail;

pub use bins::{BinLayout, LAST_BIN, bin_index, bin_middle};
pub use error::{Error, Fault};
pub use histogram_log::{DirectionBins, HistogramLogSummary, read_histogram_log};
pub use kind::{Direction, LogKind, Unit};
pub use line::Layout;
pub use reader::read_log;
pub use series::Series;
pub use summary::{DirectionSummary, LogSummary};
