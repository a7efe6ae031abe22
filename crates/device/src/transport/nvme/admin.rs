//! Commands of the admin queue, but those of fabrics.

use super::controller::Controller;
use super::entry::{Outcome, Submission};
use super::events::MAX_REQUESTS;
use super::opcode::admin as opcode;
use super::{Subsystem, features, logs, status, zones};
use crate::command::Drive;

/// The result of an Abort that did not abort its command.
pub const NOT_ABORTED: u64 = 1;

/// What the data of a command have to be, before they are waited for.
pub fn data_bytes(command: &Submission) -> usize {
    if command.opcode() == opcode::SET_FEATURES { features::data_bytes(command) } else { 0 }
}

pub fn execute(
    controller: &mut Controller,
    command: &Submission,
    data: &[u8],
    subsystem: &Subsystem,
    drive: &dyn Drive,
) -> Outcome {
    if command.is_fused() {
        return status::INVALID_FIELD.into();
    }
    let facts = drive.facts();
    if let Some(outcome) = zones::feature(command, drive) {
        return outcome;
    }
    match command.opcode() {
        opcode::KEEP_ALIVE => Outcome::Done(0),
        opcode::IDENTIFY => zones::identify(controller, command, subsystem, drive),
        opcode::GET_LOG_PAGE => logs::get(controller, command, subsystem, drive),
        opcode::GET_FEATURES => features::get(controller, command, facts, subsystem.io_queues),
        opcode::SET_FEATURES => features::set(controller, command, data, facts, subsystem.io_queues),
        opcode::ASYNCHRONOUS_EVENT_REQUEST => hold_event_request(controller, command),
        _ => status::INVALID_OPCODE.into(),
    }
}

/// Whether a command is an Abort, which completes another one too.
pub fn aborts(command: &Submission) -> bool {
    command.opcode() == opcode::ABORT
}

/// Whether a command is held for as long as nothing happens.
pub fn is_event_request(command: &Submission) -> bool {
    command.opcode() == opcode::ASYNCHRONOUS_EVENT_REQUEST
}

fn hold_event_request(controller: &mut Controller, command: &Submission) -> Outcome {
    if controller.events.requests.len() >= MAX_REQUESTS {
        return status::TOO_MANY_EVENT_REQUESTS.into();
    }
    controller.events.requests.push_back(command.id());
    Outcome::Later
}
