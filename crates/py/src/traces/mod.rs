//! Traces: opened, looked at, written. What the simulator takes comes through [`open_source`] too,
//! so that a source is described in one way everywhere.

mod cache;
mod info;
mod mrc;
mod open;
mod processors;
mod progress;
mod read_ahead;
mod spec;
mod write;

pub use cache::CacheReport;
pub use info::{of_source, of_trace, trace_formats, trace_info};
pub use mrc::trace_mrc;
#[allow(unused_imports, dead_code, reason = "for other modules of this crate")]
pub use open::{Opened, open, open_source};
pub use progress::Progress;
pub use read_ahead::{Broadcast, ReadAhead};
#[allow(unused_imports, reason = "for other modules of this crate")]
pub use spec::SourceSpec;
pub use write::trace_write;
