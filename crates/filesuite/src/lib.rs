//! The file tests that IOzone made known, as a native engine: the same calls in the same orders, timed over
//! the same intervals, over the same matrix of sizes; and what IOzone cannot do.
//!
//! [`run`] does what a [`Setup`] says and hands out each result as it comes; [`table`] shows results as
//! IOzone does. Nothing is printed here. docs/filesuite.md says what is measured, and what is different.

#![allow(clippy::doc_markdown, reason = "`IOzone` is a name in prose, not an item")]

mod affinity;
mod buffer;
mod cache;
mod calls;
mod clock;
mod error;
mod matrix;
mod order;
mod outcome;
mod pass;
mod remount;
mod run;
mod setup;
mod suite;
mod sys;
pub mod table;
mod test_file;
mod worker;

pub use calls::Done;
pub use clock::{now_ns, overhead_ns};
pub use error::{Error, Fault};
pub use matrix::{Cell, Matrix};
pub use order::{STRIDE, Shuffle, USUAL_KEY, shuffled, strided};
pub use outcome::{Checked, Event, Group, Outcome};
pub use run::run;
pub use setup::{Cache, Check, Content, Msync, Setup};
pub use suite::{Access, Kind, Opening, Pass, RANDOM_MIX, TESTS, Test};
