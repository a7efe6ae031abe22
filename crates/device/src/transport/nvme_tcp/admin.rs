//! Commands of the admin queue, but those of fabrics.

use super::controller::Controller;
use super::entry::{Outcome, Submission};
use super::events::MAX_REQUESTS;
use super::link::Link;
use super::opcode::admin as opcode;
use super::queue::Queue;
use super::{Subsystem, features, identify, logs, status};
use crate::command::Drive;

/// A command was not aborted.
const NOT_ABORTED: u64 = 1;

/// What the data of a command have to be, before they are waited for.
#[must_use]
pub fn data_bytes(command: &Submission) -> usize {
    if command.opcode() == opcode::SET_FEATURES {
        features::data_bytes(command)
    } else {
        0
    }
}

/// Carries a command out.
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
    match command.opcode() {
        opcode::KEEP_ALIVE => Outcome::Done(0),
        opcode::IDENTIFY => identify::identify(controller, command, subsystem, facts),
        opcode::GET_LOG_PAGE => logs::get(controller, command, subsystem, drive),
        opcode::GET_FEATURES => features::get(controller, command, facts, subsystem.io_queues),
        opcode::SET_FEATURES => {
            features::set(controller, command, data, facts, subsystem.io_queues)
        }
        opcode::ASYNCHRONOUS_EVENT_REQUEST => hold_event_request(controller, command),
        _ => status::INVALID_OPCODE.into(),
    }
}

/// Whether a command is an Abort, which completes another one too.
#[must_use]
pub fn aborts(command: &Submission) -> bool {
    command.opcode() == opcode::ABORT
}

/// Whether a command is held for as long as nothing happens.
#[must_use]
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

/// Aborts what can be: a held event request, and I/O that the drive has not done yet. Other commands
/// of the admin queue are short, and a command that waits for its data is left alone.
pub fn abort(
    controller: &mut Controller,
    queue: &mut Queue,
    command: &Submission,
    link: &Link,
    out: &mut Vec<u8>,
    drive: &mut dyn Drive,
) {
    let (of_queue, id) = (command.word(10) as u16, (command.word(10) >> 16) as u16);
    let held = controller
        .events
        .requests
        .iter()
        .position(|held| *held == id)
        .filter(|_| of_queue == 0);
    if let Some(at) = held {
        controller.events.requests.remove(at);
        queue.resume();
        queue.complete(id, status::ABORT_REQUESTED, 0, link, out);
    }
    let connection = controller.queues.get(usize::from(of_queue));
    let connection = connection.copied().flatten();
    let aborted = held.is_some()
        || connection.is_some_and(|connection| queue.abort_of(connection, id, drive));
    let result = if aborted { 0 } else { NOT_ABORTED };
    queue.complete(command.id(), status::SUCCESS, result, link, out);
}

/// Tells the host what happened, if it waits for events.
pub fn tell(controller: &mut Controller, queue: &mut Queue, link: &Link, out: &mut Vec<u8>) {
    while let Some((id, event)) = controller.events.next() {
        queue.resume();
        queue.complete(id, status::SUCCESS, event, link, out);
    }
}
