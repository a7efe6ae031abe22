//! The life of a command, the same over every transport: how it begins, what it does, its completion, and what belongs to
//! these: aborts, the error log, events and shutdowns.
//!
//! Deliberately absent: how commands and data come, and how completions go. A transport does that with a [`Port`].

use super::command_table::{CommandTable, Request, SHUTDOWN};
use super::controller::Controller;
use super::entry::{Completion, FABRICS, Outcome, Submission};
use super::events::MAX_REQUESTS;
use super::io::{self, Io};
use super::opcode::{admin, io as opcode};
use super::status::{self, Status};
use super::{Subsystem, features, identify, logs};
use crate::command::{Answer, Drive, Tag};

/// The result of an Abort that did not abort its command.
const NOT_ABORTED: u64 = 1;

/// How data and completions reach the host.
pub trait Port {
    /// Keeps the data that a command compares, if they do not stay where they are.
    fn keep(&mut self, id: u16, data: &[u8]);

    /// Whether what was read is what the command compares it with. The data are needed no more.
    fn compare(&mut self, command: &Submission, content: &[u8]) -> bool;

    /// Gives data to the host; whether they complete the command, too.
    fn give(&mut self, command: &Submission, data: &[u8]) -> Result<bool, Status>;

    /// Gives a part of the drive's content: first byte and number of bytes.
    fn give_content(&mut self, command: &Submission, range: (u64, u64), drive: &dyn Drive) -> Result<bool, Status>;

    /// Tells the host of a completion. `false` if it cannot be reached, so that the controller fails.
    fn complete(&mut self, completion: Completion) -> bool;
}

/// A queue at work: its commands, the controller that it belongs to, and its way to the host.
pub struct Queue<'a, P> {
    pub subsystem: &'a Subsystem,
    pub controller: &'a mut Controller,
    pub table: &'a mut CommandTable,
    pub port: P,
}

impl<P: Port> Queue<'_, P> {
    /// How long a command's data have to be, before they are waited for.
    pub fn data_bytes(&self, command: &Submission, drive: &dyn Drive) -> Result<usize, Status> {
        match (command.opcode(), self.table.id) {
            (code, _) if !command.takes_data() || code == FABRICS => Ok(0),
            (admin::SET_FEATURES, 0) => Ok(features::data_bytes(command)),
            (_, 0) => Ok(0),
            _ => io::data_bytes(command, drive),
        }
    }

    /// Carries out a command whose data are there.
    pub fn execute(&mut self, command: &Submission, data: &[u8], drive: &mut dyn Drive) {
        let outcome = if self.table.id == 0 {
            self.execute_admin(command, data, drive)
        } else {
            let durable = self.controller.features.cache_is_off;
            let begun = Io { table: self.table, command, data, durable }.begin(drive);
            if begun == Ok(Outcome::Later) && command.opcode() == opcode::COMPARE {
                self.port.keep(command.id(), data);
            }
            begun
        };
        self.finish(command, outcome);
    }

    fn execute_admin(&mut self, command: &Submission, data: &[u8], drive: &mut dyn Drive) -> Result<Outcome, Status> {
        if command.opcode() == admin::ABORT {
            return Ok(Outcome::Done(self.abort(command, drive)));
        }
        let (controller, subsystem) = (&mut *self.controller, self.subsystem);
        controller.look(drive);
        if command.is_fused() {
            return Err(status::INVALID_FIELD);
        }
        match command.opcode() {
            admin::KEEP_ALIVE => Ok(Outcome::Done(0)),
            admin::IDENTIFY => identify::identify(controller, command, subsystem, drive).map(Outcome::Data),
            admin::GET_LOG_PAGE => logs::get(controller, command, subsystem, drive).map(Outcome::Data),
            admin::GET_FEATURES | admin::SET_FEATURES
                if controller.discovers && !features::is_of_discovery(command) =>
            {
                Err(status::INVALID_FIELD)
            }
            admin::GET_FEATURES => controller.features.get(controller.host.id, command, drive),
            admin::SET_FEATURES => {
                let was_cached = !controller.features.cache_is_off;
                let outcome = controller.features.set(command, data, drive)?;
                if was_cached && controller.features.cache_is_off {
                    // Complete when what the cache has is durable, too: nobody flushes it from now on.
                    self.table.submit(command.id(), Request::FLUSH, &[], drive);
                    return Ok(Outcome::Later);
                }
                Ok(outcome)
            }
            admin::ASYNCHRONOUS_EVENT_REQUEST => {
                let requests = &mut controller.events.requests;
                if requests.len() >= MAX_REQUESTS {
                    return Err(status::TOO_MANY_EVENT_REQUESTS);
                }
                requests.push_back(command.id());
                self.table.outstanding -= 1; // it gives its entry back, and keeps its identifier
                self.tell();
                Ok(Outcome::Later)
            }
            _ => Err(status::INVALID_OPCODE),
        }
    }

    /// Tells the host what happened, if it waits for events.
    pub fn tell(&mut self) {
        while let Some((id, event)) = self.controller.events.next() {
            self.complete_held(id, status::SUCCESS, event);
        }
    }

    fn complete_held(&mut self, id: u16, status: Status, result: u64) {
        self.table.outstanding += 1;
        self.complete(id, status, result);
    }

    /// Aborts what can be: a held event request, and I/O that the drive has not done yet. Other commands of the admin
    /// queue are short, and a command that waits for its data is left alone.
    fn abort(&mut self, command: &Submission, drive: &mut dyn Drive) -> u64 {
        let (of_queue, id) = (command.word(10) as u16, (command.word(10) >> 16) as u16);
        let requests = &mut self.controller.events.requests;
        if let Some(at) = requests.iter().position(|held| *held == id).filter(|_| of_queue == 0) {
            requests.remove(at);
            self.complete_held(id, status::ABORT_REQUESTED, 0);
            return 0;
        }
        let queue = self.controller.queues.get(usize::from(of_queue)).copied().flatten();
        let tag = queue.map(|queue| Tag { transport: self.table.transport, queue, command: id.into() });
        if tag.is_some_and(|tag| drive.abort(tag)) { 0 } else { NOT_ABORTED }
    }

    /// Completes a command with what it came to at once.
    pub fn finish(&mut self, command: &Submission, outcome: Result<Outcome, Status>) {
        match outcome {
            Ok(Outcome::Done(result)) => self.complete(command.id(), status::SUCCESS, result),
            Err(status) => self.complete(command.id(), status, 0),
            Ok(Outcome::Data(mut data)) => {
                data.truncate(command.room().unwrap_or(0));
                self.table.end(command.id());
                let given = self.port.give(command, &data);
                self.complete_given(command, given);
            }
            Ok(Outcome::Later) => {}
        }
    }

    /// The drive answered a request.
    pub fn answer(&mut self, answer: &Answer, drive: &dyn Drive) {
        let ended = self.table.answered(answer);
        if answer.command.tag.command == SHUTDOWN {
            self.controller.shut_down();
        }
        let Some((command, mut status)) = ended else {
            return;
        };
        let (offset_bytes, length_bytes) = (answer.command.offset_bytes, answer.command.length_bytes);
        let mut result = 0;
        match command.opcode() {
            _ if self.table.id == 0 => {}
            opcode::READ if status == status::SUCCESS => {
                let given = self.port.give_content(&command, (offset_bytes, length_bytes), drive);
                return self.complete_given(&command, given);
            }
            opcode::COMPARE => {
                let alike = self.port.compare(&command, drive.content(offset_bytes, length_bytes));
                if status == status::SUCCESS && !alike {
                    status = status::COMPARE_FAILURE;
                }
            }
            // Its host is told the place of an append.
            opcode::ZONE_APPEND if status == status::SUCCESS => {
                result = offset_bytes / u64::from(drive.facts().block_bytes.max(1));
            }
            _ => {}
        }
        self.complete_ended(&command, status, result);
    }

    fn complete_given(&mut self, command: &Submission, given: Result<bool, Status>) {
        match given {
            Ok(true) => {}
            Ok(false) => self.complete_ended(command, status::SUCCESS, 0),
            Err(status) => self.complete_ended(command, status, 0),
        }
    }

    /// Completes a pending command.
    pub fn complete(&mut self, id: u16, status: Status, result: u64) {
        if let Some(command) = self.table.end(id) {
            self.complete_ended(&command, status, result);
        }
    }

    fn complete_ended(&mut self, command: &Submission, status: Status, result: u64) {
        if status != status::SUCCESS {
            self.controller.log(self.table.id, command, status);
        }
        let completion = self.table.completion(command.id(), status, result);
        if !self.port.complete(completion) {
            self.controller.fail();
        }
    }
}
