//! Submission and completion queues in the client's memory (NVM Express Base Specification 2.0, section
//! 3.3). Whatever their client does to them, indices remain within them.

use std::collections::VecDeque;

use super::interrupts::Interrupts;
use super::memory::ClientMemory;
use super::pages;
use super::registers::Doorbells;
use crate::command::Drive;
use crate::transport::nvme::entry::{Completion, SUBMISSION_BYTES, Submission};
use crate::transport::nvme::status::{self, Status};
use crate::transport::nvme::{CommandTable, Port, u32_at};

/// Bytes of an entry of a completion queue.
const COMPLETION_BYTES: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the queue; 0 for the admin queue.
    pub id: u16,
    /// The address of the queue, at the beginning of a page.
    pub address: u64,
    /// The number of entries, at least 2.
    pub entries: u16,
}

#[derive(Debug)]
pub struct SubmissionQueue {
    address: u64,
    /// The number of its completion queue.
    pub completions: u16,
    /// The admin command that deletes it, while commands of it are in flight.
    pub deletion: Option<u16>,
    pub table: CommandTable,
}

impl SubmissionQueue {
    /// An empty queue, whose commands carry the number of the transport.
    pub fn new(place: Place, completions: u16, transport: u32) -> Self {
        let Place { id, address, entries } = place;
        let table = CommandTable::new(transport, id.into(), id, entries);
        Self { address, completions, deletion: None, table }
    }

    /// Whether as many commands as it has entries are not completed.
    pub fn is_full(&self) -> bool {
        self.table.outstanding >= usize::from(self.table.entries)
    }

    /// The next command.
    pub fn take(&self, memory: &ClientMemory) -> Result<Submission, Status> {
        let mut bytes = [0; SUBMISSION_BYTES];
        let at = u64::from(self.table.head) * SUBMISSION_BYTES as u64;
        memory.read(self.address.wrapping_add(at), &mut bytes)?;
        Ok(Submission::with_pages(bytes))
    }
}

/// The client's memory and a completion queue as the way to the host.
pub struct Rings<'a> {
    pub memory: &'a ClientMemory,
    pub completions: &'a mut CompletionQueue,
    pub doorbells: &'a Doorbells,
    pub interrupts: &'a mut Interrupts,
    pub has_waiting: &'a mut bool,
}

impl Port for Rings<'_> {
    /// The data remain in the client's memory.
    fn keep(&mut self, _id: u16, _data: &[u8]) {}

    fn compare(&mut self, command: &Submission, content: &[u8]) -> bool {
        let mut alike = true;
        let mut page = [0; pages::PAGE_BYTES];
        let read = pages::visit(command, content.len(), self.memory, |address, part| {
            let data = &mut page[..part.len()];
            self.memory.read(address, data)?;
            alike &= *data == content[part];
            Ok(())
        });
        read.is_ok() && alike
    }

    fn give(&mut self, command: &Submission, data: &[u8]) -> Result<bool, Status> {
        pages::write(command, self.memory, data).map(|()| false)
    }

    fn give_content(&mut self, command: &Submission, range: (u64, u64), drive: &dyn Drive) -> Result<bool, Status> {
        self.give(command, drive.content(range.0, range.1))
    }

    fn complete(&mut self, completion: Completion) -> bool {
        let (id, doorbells) = (self.completions.place.id, self.doorbells);
        match self.completions.push(completion, self.memory, || doorbells.head(id)) {
            Ok(true) => {
                if let Some(vector) = self.completions.vector {
                    self.interrupts.raise(vector);
                }
            }
            Ok(false) => *self.has_waiting = true,
            Err(_) => return false,
        }
        true
    }
}

#[derive(Debug)]
pub struct CompletionQueue {
    pub place: Place,
    /// The interrupt that tells of completions.
    pub vector: Option<u16>,
    tail: u16,
    head: u16,
    phase: bool,
    /// Completions that wait for room, as many as commands in flight when it got full.
    waiting: VecDeque<Completion>,
}

impl CompletionQueue {
    pub fn new(place: Place, vector: Option<u16>) -> Self {
        Self { place, vector, tail: 0, head: 0, phase: true, waiting: VecDeque::new() }
    }

    /// Whether completions wait for room, so that no further command is to be taken.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Appends a completion when there is room; whether one was written.
    pub fn push(
        &mut self,
        completion: Completion,
        memory: &ClientMemory,
        head: impl FnOnce() -> u32,
    ) -> Result<bool, Status> {
        if self.waiting.is_empty() && self.has_room(head)? {
            self.write(completion, memory)?;
            return Ok(true);
        }
        self.waiting.push_back(completion);
        Ok(false)
    }

    /// Writes what waited, as far as there is room; whether there was any.
    pub fn drain(&mut self, memory: &ClientMemory, head: impl Fn() -> u32) -> Result<bool, Status> {
        let mut any = false;
        while let Some(&completion) = self.waiting.front() {
            if !self.has_room(&head)? {
                break;
            }
            self.waiting.pop_front();
            self.write(completion, memory)?;
            any = true;
        }
        Ok(any)
    }

    /// The client's doorbell is looked at only if the queue seems full: its word moves between processors.
    fn has_room(&mut self, head: impl FnOnce() -> u32) -> Result<bool, Status> {
        let next = (self.tail + 1) % self.place.entries;
        if next == self.head {
            let head = head();
            if head >= self.place.entries.into() {
                return Err(status::DATA_TRANSFER_ERROR);
            }
            self.head = head as u16;
        }
        Ok(next != self.head)
    }

    /// The phase tells that an entry is there, so its word is written last.
    fn write(&mut self, completion: Completion, memory: &ClientMemory) -> Result<(), Status> {
        let at = u64::from(self.tail) * COMPLETION_BYTES;
        let at = self.place.address.wrapping_add(at);
        let bytes = completion.bytes();
        memory.write(at, &bytes[..12])?;
        let last = u32_at(&bytes, 12) | (u32::from(self.phase) << 16);
        memory.store(at.wrapping_add(12), last)?;
        self.tail = (self.tail + 1) % self.place.entries;
        if self.tail == 0 {
            self.phase = !self.phase;
        }
        Ok(())
    }
}
