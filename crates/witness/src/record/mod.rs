//! Recordings: every request of the block layer, 40 bytes each, in the order of their ends; read again as a trace.

mod event;
mod reader;
mod writer;

pub(crate) use event::Event;
pub use reader::{Reader, Selection};
pub(crate) use writer::Recorder;
