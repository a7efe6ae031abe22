//! Commands of the admin queue: those of queues in memory, and what differs from other transports.

use super::device::Device;
use super::interrupts::VECTORS;
use super::pages;
use super::queues::Place;
use super::registers::MOST_QUEUES;
use crate::command::Drive;
use crate::transport::nvme::entry::{Outcome, Submission};
use crate::transport::nvme::opcode::admin as opcode;
use crate::transport::nvme::status::{self, Status};

/// Features that only queues with interrupts have.
mod feature {
    pub const INTERRUPT_COALESCING: u8 = 0x08;
    pub const INTERRUPT_VECTOR: u8 = 0x09;
    pub const HOST_IDENTIFIER: u8 = 0x81;
}

impl Device {
    /// Carries a command of the admin queue out, or refuses it.
    pub fn execute_admin(&mut self, command: &Submission, drive: &mut dyn Drive) -> Result<(), Status> {
        command.room()?;
        let outcome = match command.opcode() {
            opcode::CREATE_COMPLETION_QUEUE => Some(self.create_completions(command)?),
            opcode::CREATE_SUBMISSION_QUEUE => Some(self.create_submissions(command)?),
            opcode::DELETE_COMPLETION_QUEUE => Some(self.delete_completions(command)?),
            opcode::DELETE_SUBMISSION_QUEUE => Some(self.delete_submissions(command, drive)?),
            opcode::GET_FEATURES | opcode::SET_FEATURES => self.interrupt_feature(command)?,
            _ => None,
        };
        let Some(mut queue) = self.queue(0) else {
            return Ok(());
        };
        if let Some(outcome) = outcome {
            queue.finish(command, Ok(outcome));
            return Ok(());
        }
        // A command that all transports have.
        let mut data = vec![0; queue.data_bytes(command, drive)?];
        pages::read(command, queue.port.memory, &mut data)?;
        queue.execute(command, &data, drive);
        Ok(())
    }

    fn create_completions(&mut self, command: &Submission) -> Result<Outcome, Status> {
        let place = self.new_place(command)?;
        if self.completions[usize::from(place.id)].is_some() {
            return Err(status::QUEUE_IDENTIFIER_INVALID);
        }
        let (has_interrupt, vector) = (command.word(11) & 2 != 0, (command.word(11) >> 16) as u16);
        if has_interrupt && usize::from(vector) >= VECTORS {
            return Err(status::INTERRUPT_VECTOR_INVALID);
        }
        self.open_completions(place, has_interrupt.then_some(vector));
        Ok(Outcome::Done(0))
    }

    fn create_submissions(&mut self, command: &Submission) -> Result<Outcome, Status> {
        let place = self.new_place(command)?;
        if self.submissions[usize::from(place.id)].is_some() {
            return Err(status::QUEUE_IDENTIFIER_INVALID);
        }
        let completions = (command.word(11) >> 16) as u16;
        if completions == 0 || !matches!(self.completions.get(usize::from(completions)), Some(Some(_))) {
            return Err(status::COMPLETION_QUEUE_INVALID);
        }
        self.open_submissions(place, completions);
        Ok(Outcome::Done(0))
    }

    /// Where a queue that is to be created lies. Its memory must be contiguous.
    fn new_place(&self, command: &Submission) -> Result<Place, Status> {
        let (id, last) = (command.word(10) as u16, (command.word(10) >> 16) as u16);
        let granted = self.controller.features.io_queues.unwrap_or(MOST_QUEUES);
        if id == 0 || id > granted.min(MOST_QUEUES) {
            return Err(status::QUEUE_IDENTIFIER_INVALID);
        }
        if last == 0 || last >= self.subsystem.queue_entries {
            return Err(status::QUEUE_SIZE_INVALID);
        }
        let (address, _) = command.pages();
        if command.word(11) & 1 == 0 {
            return Err(status::INVALID_FIELD);
        }
        if pages::offset(address) != 0 {
            return Err(status::PAGE_OFFSET_INVALID);
        }
        Ok(Place { id, address, entries: last + 1 })
    }

    fn delete_completions(&mut self, command: &Submission) -> Result<Outcome, Status> {
        let id = command.word(10) as u16;
        let queue = self.completions.get_mut(usize::from(id)).filter(|queue| id > 0 && queue.is_some());
        let queue = queue.ok_or(status::QUEUE_IDENTIFIER_INVALID)?;
        let mut submissions = self.submissions.iter().flatten();
        if submissions.any(|submissions| submissions.completions == id) {
            return Err(status::QUEUE_DELETION_INVALID);
        }
        *queue = None;
        Ok(Outcome::Done(0))
    }

    /// Complete when the drive has nothing of the queue any more.
    fn delete_submissions(&mut self, command: &Submission, drive: &mut dyn Drive) -> Result<Outcome, Status> {
        let id = command.word(10) as u16;
        let queue = self.submissions.get_mut(usize::from(id)).filter(|_| id > 0).and_then(Option::as_mut);
        let queue = queue.filter(|queue| queue.deletion.is_none()).ok_or(status::QUEUE_IDENTIFIER_INVALID)?;
        queue.deletion = Some(command.id());
        queue.table.abort_all(drive);
        self.end_deletion(id);
        Ok(Outcome::Later)
    }

    /// Features of interrupts, which are kept and change nothing; and the host's identifier, which other
    /// transports get when a host connects.
    fn interrupt_feature(&mut self, command: &Submission) -> Result<Option<Outcome>, Status> {
        let (id, value) = (command.word(10) as u8, command.word(11));
        let sets = command.opcode() == opcode::SET_FEATURES;
        let saves = sets && command.word(10) >> 31 != 0;
        let number = match id {
            feature::INTERRUPT_COALESCING => &mut self.coalescing,
            feature::INTERRUPT_VECTOR => {
                self.vector_settings.get_mut(usize::from(value as u16)).ok_or(status::INVALID_FIELD)?
            }
            feature::HOST_IDENTIFIER if sets && !saves => {
                if value & 1 == 0 {
                    return Err(status::INVALID_FIELD); // the short form is not offered
                }
                let mut host = [0; 16];
                pages::read(command, &self.memory, &mut host)?;
                self.controller.host.id = host;
                return Ok(Some(Outcome::Done(0)));
            }
            _ => return Ok(None),
        };
        if saves {
            return Err(status::FEATURE_NOT_SAVEABLE);
        }
        if sets {
            *number = value;
        }
        Ok(Some(Outcome::Done(if sets { 0 } else { (*number).into() })))
    }
}
