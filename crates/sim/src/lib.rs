//! A simulated SSD with its write buffer, run over traces.
//!
//! Three decisions are kept apart: *what stays in the buffer* ([`policy`]), *where a page goes*
//! (mapping, allocation, garbage collection: [`drive`]), *when it is done* (timing: [`engine`]). Time
//! is an argument everywhere, in picoseconds: the crate reads no clock, does no input or output,
//! starts no thread, and draws all random numbers from a seed.

pub mod divide;
pub mod drive;
pub mod engine;
mod error;
pub mod options;
pub mod policy;

mod precondition;
pub mod sampling;
mod simulate;
pub mod state;
mod steadiness;

pub use error::Error;
pub use precondition::{Preconditioned, Preconditioning, precondition};
pub use simulate::{
    BufferOptions, BufferSpec, ElementTotals, Setup, SimulatedDrive, Simulation, Start, option_table, simulate,
    simulate_from,
};
pub use steadiness::{Steadiness, judge};
