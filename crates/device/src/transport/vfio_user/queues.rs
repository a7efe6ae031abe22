//! Submission and completion queues in the client's memory (NVM Express Base Specification 2.0, section
//! 3.3). Whatever their client does to them, indices remain within them.

use std::collections::{BTreeMap, VecDeque};

use super::memory::{ClientMemory, Unmapped};
use super::pages;
use crate::command::{Answer, Command, Drive};
use crate::transport::nvme::entry::{Completion, SUBMISSION_BYTES, Submission};
use crate::transport::nvme::io::{IoQueue, Part, Ranges, Wanted};

/// Bytes of an entry of a completion queue.
const COMPLETION_BYTES: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number; 0 for the admin queue.
    pub id: u16,
    /// Its address, at the beginning of a page.
    pub address: u64,
    /// Its entries, at least 2.
    pub entries: u16,
}

#[derive(Debug)]
pub struct SubmissionQueue {
    pub place: Place,
    pub completions: u16,
    /// The admin command that deletes it, while commands of it are in flight.
    pub deletion: Option<u16>,
    transport: u32,
    head: u16,
    /// Commands that are not completed, by the numbers that they have here: as many as entries.
    commands: Vec<Option<Submission>>,
    free: Vec<u16>,
    /// What the drive was last given of each.
    parts: Vec<Part>,
    in_flight: usize,
    ranges: BTreeMap<u16, Ranges>,
}

impl SubmissionQueue {
    /// An empty queue, whose commands carry the number of the transport.
    pub fn new(place: Place, completions: u16, transport: u32) -> Self {
        Self {
            place,
            completions,
            deletion: None,
            transport,
            head: 0,
            commands: vec![None; usize::from(place.entries)],
            free: (0..place.entries).rev().collect(),
            parts: vec![Part::Whole; usize::from(place.entries)],
            in_flight: 0,
            ranges: BTreeMap::new(),
        }
    }

    /// How far it was read.
    pub fn head(&self) -> u16 {
        self.head
    }

    /// Commands, and parts of them, that the drive has.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes the next command, with the number that it has here in the place of its own. `None` if as many
    /// as there are entries are not completed.
    pub fn take(&mut self, memory: &ClientMemory) -> Result<Option<Submission>, Unmapped> {
        let Some(&number) = self.free.last() else {
            return Ok(None);
        };
        let mut bytes = [0; SUBMISSION_BYTES];
        let at = u64::from(self.head) * SUBMISSION_BYTES as u64;
        memory.read(self.place.address.wrapping_add(at), &mut bytes)?;
        self.head = (self.head + 1) % self.place.entries;
        self.free.pop();
        let command = Submission::with_pages(bytes);
        self.commands[usize::from(number)] = Some(command);
        Ok(Some(command.numbered(number)))
    }

    /// The command of this number here, as it came.
    pub fn command(&self, number: u16) -> Option<&Submission> {
        self.commands.get(usize::from(number))?.as_ref()
    }

    /// The number here of the client's command.
    pub fn number_of(&self, id: u16) -> Option<u16> {
        let is_it = |command: &Option<Submission>| command.is_some_and(|it| it.id() == id);
        self.commands.iter().position(is_it).map(|at| at as u16)
    }

    /// A command is complete: as it came.
    pub fn end(&mut self, number: u16) -> Option<Submission> {
        let command = self.commands.get_mut(usize::from(number))?.take()?;
        self.free.push(number);
        Some(command)
    }

    /// Aborts what the drive has of a command; whether there was anything.
    pub fn abort(&self, number: u16, drive: &mut dyn Drive) -> bool {
        // A command of several ranges has several requests of one tag.
        let part = self.parts.get(usize::from(number));
        part.is_some_and(|part| drive.abort(part.tag(self.transport, self.place.id.into(), number)))
    }

    /// Aborts all that the drive has of it.
    pub fn abort_all(&self, drive: &mut dyn Drive) {
        if self.in_flight > 0 {
            for number in 0..self.place.entries {
                if self.command(number).is_some() {
                    self.abort(number, drive);
                }
            }
        }
    }
}

/// A submission queue and the memory in which its data lie.
pub struct Bound<'a> {
    pub queue: &'a mut SubmissionQueue,
    pub memory: &'a ClientMemory,
}

impl IoQueue for Bound<'_> {
    fn submit(&mut self, number: u16, part: Part, wanted: Wanted, data: &[u8], drive: &mut dyn Drive) {
        let queue = &mut *self.queue;
        queue.in_flight += 1;
        if let Some(given) = queue.parts.get_mut(usize::from(number)) {
            *given = part;
        }
        let command = Command {
            tag: part.tag(queue.transport, queue.place.id.into(), number),
            op: wanted.op,
            offset_bytes: wanted.offset_bytes,
            length_bytes: wanted.length_bytes,
            fua: wanted.fua,
        };
        drive.submit(command, data);
    }

    fn answered(&mut self, answer: &Answer) -> (u16, Part) {
        self.queue.in_flight = self.queue.in_flight.saturating_sub(1);
        (answer.command.tag.command as u16, Part::of(answer))
    }

    /// Nothing: the data remain in the client's memory until they are compared.
    fn keep(&mut self, _number: u16, _data: &[u8]) {}

    fn compare(&mut self, number: u16, content: &[u8]) -> Option<bool> {
        let command = self.queue.command(number)?;
        let (mut done, mut alike) = (0, true);
        let mut page = [0; pages::PAGE_BYTES as usize];
        let compare = |address, length: usize| {
            let data = &mut page[..length];
            self.memory.read(address, data)?;
            alike &= *data == content[done..done + length];
            done += length;
            Ok(())
        };
        let read = pages::visit(command, content.len() as u64, self.memory, compare);
        Some(read.is_ok() && alike)
    }

    fn ranges(&mut self) -> &mut BTreeMap<u16, Ranges> {
        &mut self.queue.ranges
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
    ) -> Result<bool, Unmapped> {
        if self.waiting.is_empty() && self.has_room(head)? {
            self.write(completion, memory)?;
            return Ok(true);
        }
        self.waiting.push_back(completion);
        Ok(false)
    }

    /// Writes what waited, as far as there is room; whether there was any.
    pub fn drain(&mut self, memory: &ClientMemory, head: impl Fn() -> u32) -> Result<bool, Unmapped> {
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
    fn has_room(&mut self, head: impl FnOnce() -> u32) -> Result<bool, Unmapped> {
        let next = (self.tail + 1) % self.place.entries;
        if next == self.head {
            let head = head();
            if head >= self.place.entries.into() {
                return Err(Unmapped);
            }
            self.head = head as u16;
        }
        Ok(next != self.head)
    }

    /// The phase tells that an entry is there, so its word is written last.
    fn write(&mut self, completion: Completion, memory: &ClientMemory) -> Result<(), Unmapped> {
        let at = u64::from(self.tail) * COMPLETION_BYTES;
        let at = self.place.address.wrapping_add(at);
        let bytes = completion.bytes();
        memory.write(at, &bytes[..12])?;
        let last = crate::transport::nvme::u32_at(&bytes, 12) | (u32::from(self.phase) << 16);
        memory.store(at.wrapping_add(12), last)?;
        self.tail = (self.tail + 1) % self.place.entries;
        if self.tail == 0 {
            self.phase = !self.phase;
        }
        Ok(())
    }
}
