//! Commands in flight, and the order of their answers.

use crate::command::{Command, Status};

/// A command that is not answered. Its place among all in flight is used again later.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub command: Command,
    pub arrived_ps: u64,
    /// Parts that the model or the backing file has not done yet.
    pub parts: u32,
    pub status: Status,
    /// Whether its answer waits for a sync of the backing file.
    pub syncs: bool,
    /// What faults make of its answer: so much later, and not before a time.
    pub delay_ps: u64,
    pub not_before_ps: u64,
    /// The fault by which it is stuck.
    pub stuck: Option<u64>,
}

impl InFlight {
    pub fn new(command: Command, arrived_ps: u64) -> Self {
        Self {
            command,
            arrived_ps,
            parts: 0,
            status: Status::Done,
            syncs: false,
            delay_ps: 0,
            not_before_ps: 0,
            stuck: None,
        }
    }
}

/// An answer that is to leave: of those with the same deadline that of the lower place first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReadyAnswer {
    pub deadline_ps: u64,
    pub slot: usize,
}
