//! The one definition of histogram, percentile and quantile interval.
//!
//! Everything in ioassay that says "p99" or "95 % interval of a quantile" comes through here:
//! the log reader, the drivers' latency bins, the analysis and the figures. Two answers to one
//! question would otherwise differ by definition alone.
//!
//! - [`Histogram`]: counts of `u64` values in log-linear buckets, with exact moments.
//! - [`percentile`] and [`percentile_interval`]: the same two quantities from raw samples.
//! - [`ExactMoments`]: count, mean, variance, minimum and maximum of `u64` values, free of rounding.
//!
//! The crate is pure: no input or output, no clock, no thread, no randomness. It deliberately
//! compares nothing and tests no hypothesis; that is the analysis' work.

mod encoding;
mod error;
mod exact;
mod histogram;
mod interval;
mod layout;
mod quantile;
mod sample;

pub use error::Error;
pub use exact::ExactMoments;
pub use histogram::{Bucket, Histogram};
pub use interval::{OrderRanks, order_ranks};
pub use layout::{RELATIVE_BUCKET_WIDTH, bucket_bounds};
pub use quantile::FractionalRank;
pub use sample::{percentile, percentile_interval, percentiles};
