//! What a block request is, and traces of them.
//!
//! - [`Request`]: one read, write, trim or flush, in nanoseconds and bytes.
//! - [`Source`]: anything that gives requests in batches: a trace being read, one being made, or
//!   another source with requests dropped, cut or moved.
//!
//! The crate is pure: it opens no file, reads no clock, prints nothing, and all that is random in
//! it comes from a seed. It knows nothing of drives.

#![allow(clippy::inline_always, reason = "measured: lines are parsed in one piece, or half as fast")]

pub mod container;
mod error;
pub mod info;
pub mod make;
pub mod mrc;
mod names;
pub mod prepare;
mod request;
mod source;
mod split_mix;
pub mod trace;

pub use error::{Error, Fault, listed};
pub use names::Names;
pub use request::{Kind, MOST_REQUEST_BYTES, Request};
pub use source::{BATCH, Source};
pub use split_mix::SplitMix64;
