//! A queue of a connected host: which commands it has outstanding, and what they wait for.

use std::collections::BTreeMap;

use super::entry::{Completion, Outcome, Submission};
use super::io::{IoQueue, PARTS, Part, Ranges, Wanted};
use super::link::Link;
use super::status::{self, Status};
use super::transfer::{Copied, Transfers};
use crate::command::{Answer, Command, Drive, Op};
use crate::transport::socket::{Output, Share};

/// Bytes that reads in flight may bring; one read that is longer goes alone.
const MAX_READING_BYTES: u64 = 8 << 20;

/// Commands that the drive may have of one queue: more than entries, because one of the host's may be of 256 ranges.
const MAX_IN_FLIGHT: usize = 4096;

#[derive(Debug)]
pub struct Queue {
    transport: u32,
    number: u32,
    /// 0 for the admin queue.
    pub id: u16,
    pub controller: u16,
    entries: u16,
    head: u16,
    flow_control: bool,
    outstanding: usize,
    in_flight: usize,
    reading_bytes: u64,
    /// One bit for each number of a command.
    ids: Vec<u64>,
    /// Data that are waited for.
    pub transfers: Transfers,
    /// Commands of several ranges, by their numbers.
    pub ranges: BTreeMap<u16, Ranges>,
    /// What is to be compared with what is read, by the commands' numbers.
    pub comparisons: BTreeMap<u16, Copied>,
}

/// How a queue is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// 0 for the admin queue.
    pub id: u16,
    pub controller: u16,
    pub entries: u16,
    /// Whether the host is told how far its queue is.
    pub flow_control: bool,
}

impl Queue {
    /// A queue whose commands carry these numbers.
    pub fn new(transport: u32, number: u32, opening: Opening, memory: Share) -> Self {
        let Opening { id, controller, entries, flow_control } = opening;
        Self {
            transport,
            number,
            id,
            controller,
            entries: entries.max(1),
            head: 0,
            flow_control,
            outstanding: 0,
            in_flight: 0,
            reading_bytes: 0,
            ids: vec![0; 1 << 10],
            transfers: Transfers::new(memory),
            ranges: BTreeMap::new(),
            comparisons: BTreeMap::new(),
        }
    }

    /// Commands that the drive has.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether the drive has so much to do for it that more is to wait.
    pub fn is_full(&self) -> bool {
        self.reading_bytes >= MAX_READING_BYTES || self.in_flight >= MAX_IN_FLIGHT || self.transfers.copies_are_full()
    }

    /// A command came: whether the queue has an entry for it. Its number must not be another's.
    pub fn begin(&mut self, id: u16) -> Result<bool, Status> {
        self.head = (self.head + 1) % self.entries;
        let (word, bit) = (usize::from(id / 64), 1u64 << (id % 64));
        if self.ids[word] & bit != 0 {
            return Err(status::ID_CONFLICT);
        }
        self.ids[word] |= bit;
        self.outstanding += 1;
        Ok(self.outstanding <= usize::from(self.entries))
    }

    /// The host holds its number on, and the entry is free: an asynchronous event request.
    pub fn hold(&mut self) {
        self.outstanding -= 1;
    }

    /// A held command is about to be completed.
    pub fn resume(&mut self) {
        self.outstanding += 1;
    }

    /// Frees the numbers of held commands that are not going to be completed.
    pub fn forget(&mut self, ids: &mut Vec<u16>) {
        for id in ids.drain(..) {
            self.free(id);
        }
    }

    fn free(&mut self, id: u16) {
        self.ids[usize::from(id / 64)] &= !(1u64 << (id % 64));
    }

    fn end(&mut self, id: u16) {
        self.free(id);
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Completes a command that does not hold its number, because another one has it.
    pub fn complete_unnumbered(&self, id: u16, status: Status, result: u64, link: &Link, out: &mut Vec<u8>) {
        link.complete(self.completion(id, status, result), out);
    }

    pub fn complete(&mut self, id: u16, status: Status, result: u64, link: &Link, out: &mut Vec<u8>) {
        self.end(id);
        link.complete(self.completion(id, status, result), out);
    }

    /// Completes a command with data, without a completion where the host allows it: it does not ask
    /// how far its queue is (section 3.3.2.1 of the transport specification).
    pub fn give(&mut self, id: u16, data: &[u8], link: &Link, out: &mut Vec<u8>) {
        let success = !self.flow_control && !data.is_empty();
        if !data.is_empty() {
            link.give(id, data, success, out);
        }
        self.given(id, success, link, out);
    }

    /// The same with a part of the drive's content: first byte and number of bytes.
    pub fn give_content(&mut self, id: u16, wanted: (u64, u64), link: &Link, out: &mut Output, drive: &dyn Drive) {
        let success = !self.flow_control;
        link.give_content(id, wanted, success, out, drive);
        self.given(id, success, link, &mut out.bytes);
    }

    fn given(&mut self, id: u16, success: bool, link: &Link, out: &mut Vec<u8>) {
        if success {
            self.end(id);
        } else {
            self.complete(id, status::SUCCESS, 0, link, out);
        }
    }

    /// Completes a command with what it came to.
    pub fn finish(&mut self, command: &Submission, outcome: Outcome, link: &Link, out: &mut Vec<u8>) {
        match outcome {
            Outcome::Done(result) => {
                self.complete(command.id(), status::SUCCESS, result, link, out);
            }
            Outcome::Refused(status, result) => {
                self.complete(command.id(), status, result, link, out);
            }
            Outcome::Data(mut data) => {
                data.truncate(command.room().unwrap_or(0));
                self.give(command.id(), &data, link, out);
            }
            Outcome::Later => {}
        }
    }

    fn completion(&self, id: u16, status: Status, result: u64) -> Completion {
        let head = if self.flow_control { self.head } else { 0 };
        Completion { result, head, queue: self.id, id, status }
    }

    /// Aborts what the drive has of a command of the controller's queue on another connection of this
    /// number; whether there was anything.
    pub fn abort_of(&self, connection: u32, id: u16, drive: &mut dyn Drive) -> bool {
        let mut tags = PARTS.map(|part| part.tag(self.transport, connection, id)).into_iter();
        tags.any(|tag| drive.abort(tag))
    }

    /// Asks the host for data that there is memory for.
    pub fn ask(&mut self, link: &Link, out: &mut Vec<u8>) {
        while let Some(ask) = self.transfers.next() {
            link.ask(ask.command, ask.transfer, ask.length_bytes, out);
        }
    }
}

impl IoQueue for Queue {
    fn submit(&mut self, number: u16, part: Part, wanted: Wanted, data: &[u8], drive: &mut dyn Drive) {
        self.in_flight += 1;
        if wanted.op == Op::Read {
            self.reading_bytes += wanted.length_bytes;
        }
        let command = Command {
            tag: part.tag(self.transport, self.number, number),
            op: wanted.op,
            offset_bytes: wanted.offset_bytes,
            length_bytes: wanted.length_bytes,
            fua: wanted.fua,
        };
        drive.submit(command, data);
    }

    fn answered(&mut self, answer: &Answer) -> (u16, Part) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Command { op, length_bytes, tag, .. } = answer.command;
        if op == Op::Read {
            self.reading_bytes = self.reading_bytes.saturating_sub(length_bytes);
        }
        (tag.command as u16, Part::of(answer))
    }

    fn keep(&mut self, number: u16, data: &[u8]) {
        let copy = self.transfers.copy(data);
        self.comparisons.insert(number, copy);
    }

    fn compare(&mut self, number: u16, content: &[u8]) -> Option<bool> {
        let compared = self.comparisons.remove(&number)?;
        self.transfers.forget(&compared);
        Some(compared.data == content)
    }

    fn ranges(&mut self) -> &mut BTreeMap<u16, Ranges> {
        &mut self.ranges
    }
}
