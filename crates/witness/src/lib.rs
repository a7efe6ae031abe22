//! What the kernel saw of a process tree.

mod capability;
mod entries;
mod gather;
mod histogram;
mod layer;
mod loaded;
mod object;
mod options;
pub mod record;
pub mod seen;
mod shape;
mod sys;
mod witness;

pub use capability::{Capability, Unavailable, capability};
pub use options::Options;
pub use seen::Seen;
pub use witness::Witness;
