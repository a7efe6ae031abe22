//! Commands of the admin queue that complete others, too.

use super::controller::Controller;
use super::entry::Submission;
use super::link::Link;
use super::queue::Queue;
use super::status;
use crate::command::Drive;
use crate::transport::nvme::admin::NOT_ABORTED;
pub use crate::transport::nvme::admin::{aborts, data_bytes, execute, is_event_request};

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
    let held = controller.events.requests.iter().position(|held| *held == id).filter(|_| of_queue == 0);
    if let Some(at) = held {
        controller.events.requests.remove(at);
        queue.resume();
        queue.complete(id, status::ABORT_REQUESTED, 0, link, out);
    }
    let connection = controller.queues.get(usize::from(of_queue));
    let connection = connection.copied().flatten();
    let aborted = held.is_some() || connection.is_some_and(|connection| queue.abort_of(connection, id, drive));
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
