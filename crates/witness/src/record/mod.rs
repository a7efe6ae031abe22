//! Recordings: every request of the block layer, 40 bytes each, in the order of their ends.

mod writer;

pub(crate) use writer::Recorder;
