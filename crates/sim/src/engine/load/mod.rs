//! The load: requests of a trace, or submitted ones, in the drive's pages. Nothing here depends on time in the drive.

pub(in crate::engine) mod arrivals;
pub(in crate::engine) mod flows;
pub(in crate::engine) mod lookahead;
pub(in crate::engine) mod paging;
pub(in crate::engine) mod requests;
pub(in crate::engine) mod reshaping_buffer;
pub(in crate::engine) mod trace_input;
