//! The commands of a queue that are not complete: their identifiers, their requests to the drive, and limits of both.
//!
//! Deliberately absent: what commands mean, which is in `queue` and `io`.

use slab::Slab;

use super::entry::{Completion, Submission};
use super::status::{self, Status};
use crate::command::{Answer, Command, Drive, Op, Tag};

/// Requests that the drive may have of one queue: more than entries, because one command may have 256 ranges.
pub const MAX_IN_FLIGHT: usize = 4096;

/// Bytes that reads in flight may bring; one read that is longer goes alone.
const MAX_READING_BYTES: u64 = 8 << 20;

/// The command of the tag of a shutdown's flush, which belongs to no command of the host.
pub(super) const SHUTDOWN: u64 = 1 << 16;

/// A request of a command to the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub op: Op,
    pub offset_bytes: u64,
    pub length_bytes: u64,
    /// Durable before it is answered.
    pub fua: bool,
}

impl Request {
    /// Makes durable all that was answered.
    pub const FLUSH: Self = Self { op: Op::Flush, offset_bytes: 0, length_bytes: 0, fua: false };
}

/// A command that is not complete.
#[derive(Debug)]
struct Pending {
    command: Submission,
    /// Requests of the command that the drive has not answered.
    requests: u32,
    /// The first error of a request.
    status: Status,
}

/// The commands of one queue that are not complete.
#[derive(Debug, Default)]
pub struct CommandTable {
    /// The number of the queue; 0 for the admin queue.
    pub id: u16,
    pub entries: u16,
    pub transport: u32,
    /// The number of the queue in tags.
    tag: u32,
    /// How far the queue was read.
    pub head: u16,
    /// Commands that take an entry: all but held event requests.
    pub outstanding: usize,
    /// Requests that the drive has.
    pub in_flight: usize,
    reading_bytes: u64,
    /// For each identifier its place among the pending commands, plus one; 0 if it is free.
    places: Vec<u16>,
    pending: Slab<Pending>,
}

impl CommandTable {
    /// The table of queue `id`. Tags of its commands carry the transport's number and `tag`.
    pub fn new(transport: u32, tag: u32, id: u16, entries: u16) -> Self {
        Self { id, entries: entries.max(1), transport, tag, places: vec![0; 1 << 16], ..Self::default() }
    }

    /// Whether the drive has so much to do for it that further commands have to wait.
    pub fn is_full(&self) -> bool {
        self.reading_bytes >= MAX_READING_BYTES || self.in_flight >= MAX_IN_FLIGHT
    }

    /// Takes the next command of the queue; refused if its identifier is another's.
    pub fn begin(&mut self, command: Submission) -> Result<(), Status> {
        self.head = (self.head + 1) % self.entries;
        let place_of = &mut self.places[usize::from(command.id())];
        if *place_of != 0 {
            return Err(status::ID_CONFLICT);
        }
        let place = self.pending.insert(Pending { command, requests: 0, status: status::SUCCESS });
        *place_of = place as u16 + 1;
        self.outstanding += 1;
        Ok(())
    }

    /// Frees the identifiers of held event requests that are not going to be completed.
    pub fn forget(&mut self, ids: &mut Vec<u16>) {
        for id in ids.drain(..) {
            self.outstanding += 1;
            self.end(id);
        }
    }

    fn pending(&mut self, id: u16) -> Option<&mut Pending> {
        let place = self.places[usize::from(id)].checked_sub(1)?;
        self.pending.get_mut(place.into())
    }

    /// A command is about to be completed.
    pub(super) fn end(&mut self, id: u16) -> Option<Submission> {
        let place = std::mem::take(&mut self.places[usize::from(id)]).checked_sub(1)?;
        self.outstanding = self.outstanding.saturating_sub(1);
        Some(self.pending.try_remove(place.into())?.command)
    }

    /// Gives a request of a command to the drive.
    pub fn submit(&mut self, id: u16, request: Request, data: &[u8], drive: &mut dyn Drive) {
        if let Some(pending) = self.pending(id) {
            pending.requests += 1;
        }
        self.submit_tagged(id.into(), request, data, drive);
    }

    /// A shutdown begins: all that was answered is to be durable.
    pub fn begin_shutdown(&mut self, drive: &mut dyn Drive) {
        self.submit_tagged(SHUTDOWN, Request::FLUSH, &[], drive);
    }

    fn submit_tagged(&mut self, command: u64, request: Request, data: &[u8], drive: &mut dyn Drive) {
        let Request { op, offset_bytes, length_bytes, fua } = request;
        self.in_flight += 1;
        if op == Op::Read {
            self.reading_bytes += length_bytes;
        }
        let tag = Tag { transport: self.transport, queue: self.tag, command };
        drive.submit(Command { tag, op, offset_bytes, length_bytes, fua }, data);
    }

    /// Counts a request off: the command that ends with it, and how.
    pub fn answered(&mut self, answer: &Answer) -> Option<(Submission, Status)> {
        let Command { op, length_bytes, tag, .. } = answer.command;
        self.in_flight = self.in_flight.saturating_sub(1);
        if op == Op::Read {
            self.reading_bytes = self.reading_bytes.saturating_sub(length_bytes);
        }
        let id = u16::try_from(tag.command).ok()?;
        let pending = self.pending(id)?;
        if pending.status == status::SUCCESS {
            pending.status = status::of_answer(answer.status, op);
        }
        pending.requests = pending.requests.saturating_sub(1);
        if pending.requests > 0 {
            return None;
        }
        let status = pending.status;
        Some((self.end(id)?, status))
    }

    /// Aborts all that the drive has of it.
    pub fn abort_all(&self, drive: &mut dyn Drive) {
        for (_, pending) in self.pending.iter().filter(|(_, pending)| pending.requests > 0) {
            let command = pending.command.id().into();
            drive.abort(Tag { transport: self.transport, queue: self.tag, command });
        }
    }

    pub fn completion(&self, id: u16, status: Status, result: u64) -> Completion {
        Completion { result, head: self.head, queue: self.id, id, status }
    }
}
