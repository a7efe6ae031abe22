//! The transmission: requests become commands of the drive, and their answers replies.

use super::handshake::Agreement;
use super::wire::{
    CHUNK_MAGIC, MAX_PAYLOAD_BYTES, REQUEST_BYTES, Request, SIMPLE_REPLY_MAGIC, allocation, chunk, command, error, flag,
};
use crate::command::{Answer, Command, Drive, DriveInfo, Op, Status, Tag};
use crate::transport::socket::{End, Output, Received, Then};

/// Requests that one client may have in flight; the kernel's client has 128.
const MAX_IN_FLIGHT: usize = 1024;

/// Bytes that reads in flight may bring; one read that is longer goes alone.
const MAX_READING_BYTES: u64 = 8 << 20;

/// Unsent answers from which on questions for extents wait: those are answered at once, and answers are
/// longer than questions.
const MAX_UNSENT_BYTES: usize = 128 << 10;

/// Extents in one answer; the client asks again for what is left.
const MAX_EXTENTS: usize = 1024;

/// A client that reads and writes.
#[derive(Debug)]
pub struct Transmission {
    transport: u32,
    queue: u32,
    pub agreement: Agreement,
    /// Commands that the drive has.
    pub in_flight: usize,
    reading_bytes: u64,
}

/// What a request asks for.
enum Meaning {
    /// A command for the drive, and whether it is to be durable (FUA).
    Command(Op, bool),
    /// What is allocated, which is answered at once.
    Extents,
}

impl Transmission {
    pub fn new(transport: u32, queue: u32) -> Self {
        Self { transport, queue, agreement: Agreement::default(), in_flight: 0, reading_bytes: 0 }
    }

    /// Takes requests. The drive is the namespace.
    pub fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, drive: &mut dyn Drive) -> Received {
        let mut consumed = 0;
        let then = loop {
            let rest = &bytes[consumed..];
            let Some(head) = rest.get(..REQUEST_BYTES) else {
                break Then::Wants(REQUEST_BYTES);
            };
            let Some(request) = Request::decode(head) else {
                break Then::Ends(End::Now);
            };
            let carries = request.kind == command::WRITE;
            if carries && request.length_bytes > MAX_PAYLOAD_BYTES {
                break Then::Ends(End::Now);
            }
            let whole = REQUEST_BYTES + if carries { request.length_bytes as usize } else { 0 };
            let Some(data) = rest.get(REQUEST_BYTES..whole) else {
                break Then::Wants(whole);
            };
            if request.kind == command::DISC {
                break Then::Ends(End::WhenAnswered);
            }
            let is_long = request.kind == command::BLOCK_STATUS && out.len() > MAX_UNSENT_BYTES;
            if is_long || self.is_full(&request) {
                break Then::Blocked;
            }
            consumed += whole;
            self.submit(&request, data, out, drive);
        };
        Received { consumed, then }
    }

    fn is_full(&self, request: &Request) -> bool {
        let reads = if request.kind == command::READ { u64::from(request.length_bytes) } else { 0 };
        let too_long = self.reading_bytes > 0 && self.reading_bytes + reads > MAX_READING_BYTES;
        self.in_flight >= MAX_IN_FLIGHT || (reads > 0 && too_long)
    }

    fn submit(&mut self, request: &Request, data: &[u8], out: &mut Vec<u8>, drive: &mut dyn Drive) {
        match meaning(request, self.agreement, drive.facts()) {
            Ok(Meaning::Command(op, fua)) => {
                self.in_flight += 1;
                if op == Op::Read {
                    self.reading_bytes += u64::from(request.length_bytes);
                }
                let flush = op == Op::Flush;
                let command = Command {
                    tag: Tag { transport: self.transport, queue: self.queue, command: request.cookie },
                    op,
                    offset_bytes: if flush { 0 } else { request.offset_bytes },
                    length_bytes: if flush { 0 } else { request.length_bytes.into() },
                    fua,
                };
                drive.submit(command, data);
            }
            Ok(Meaning::Extents) => extents(request, out, drive),
            Err(code) => self.reply(request.kind, request.cookie, code, out),
        }
    }

    /// Appends a reply without data.
    fn reply(&self, kind: u16, cookie: u64, code: u32, out: &mut Vec<u8>) {
        let in_chunks = matches!(kind, command::READ | command::BLOCK_STATUS);
        if !(self.agreement.structured && in_chunks) {
            simple(out, code, cookie);
        } else if code == 0 {
            begin_chunk(out, chunk::NONE, cookie, 0);
        } else {
            begin_chunk(out, chunk::ERROR, cookie, 6);
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(&0u16.to_be_bytes()); // no text
        }
    }

    /// Appends the reply to an answered command of the whole drive.
    pub fn answer(&mut self, answer: Answer, out: &mut Output, drive: &dyn Drive) {
        self.dropped(answer);
        let Command { tag, op, offset_bytes, length_bytes, .. } = answer.command;
        if op != Op::Read || answer.status != Status::Done {
            let kind = if op == Op::Read { command::READ } else { command::WRITE };
            let code = code_of(answer.status, op);
            return self.reply(kind, tag.command, code, &mut out.bytes);
        }
        if self.agreement.structured {
            begin_chunk(&mut out.bytes, chunk::OFFSET_DATA, tag.command, length_bytes as u32 + 8);
            let namespace = drive.namespace(self.agreement.namespace);
            let start_bytes = namespace.map_or(0, |namespace| namespace.start_bytes);
            let offset_in_export = offset_bytes - start_bytes;
            out.bytes.extend_from_slice(&offset_in_export.to_be_bytes());
        } else {
            simple(&mut out.bytes, 0, tag.command);
        }
        out.content((offset_bytes, length_bytes), false, drive);
    }

    pub fn dropped(&mut self, answer: Answer) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if answer.command.op == Op::Read {
            self.reading_bytes = self.reading_bytes.saturating_sub(answer.command.length_bytes);
        }
    }
}

/// Appends what of a range is allocated, in extents; of as much of it as an answer holds.
fn extents(request: &Request, out: &mut Vec<u8>, drive: &dyn Drive) {
    let most = if request.flags & flag::REQ_ONE != 0 { 1 } else { MAX_EXTENTS };
    let mut at = request.offset_bytes;
    let end = at + u64::from(request.length_bytes);
    let mut descriptors = Vec::new();
    for _ in 0..most {
        if at == end {
            break;
        }
        let extent = drive.extent(at, end - at);
        at += extent.length_bytes;
        let flags = if extent.is_allocated { 0 } else { allocation::HOLE };
        descriptors.extend_from_slice(&(extent.length_bytes as u32).to_be_bytes());
        descriptors.extend_from_slice(&flags.to_be_bytes());
    }
    begin_chunk(out, chunk::BLOCK_STATUS, request.cookie, descriptors.len() as u32 + 4);
    out.extend_from_slice(&allocation::ID.to_be_bytes());
    out.extend_from_slice(&descriptors);
}

fn simple(out: &mut Vec<u8>, code: u32, cookie: u64) {
    let mut bytes = [0; 16];
    bytes[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&code.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// A reply's only chunk, of whose data `length` bytes follow.
fn begin_chunk(out: &mut Vec<u8>, kind: u16, cookie: u64, length: u32) {
    let mut bytes = [0; 20];
    bytes[0..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&chunk::DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..20].copy_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// What a request asks for, or the code of its reply at once: 0 if nothing is left to do.
fn meaning(request: &Request, agreement: Agreement, facts: &DriveInfo) -> Result<Meaning, u32> {
    let (op, flags) = match request.kind {
        command::READ if agreement.structured => (Op::Read, flag::DF),
        command::READ | command::CACHE => (Op::Read, 0),
        command::BLOCK_STATUS if agreement.allocation => (Op::Read, flag::REQ_ONE),
        command::WRITE => (Op::Write, 0),
        command::FLUSH => (Op::Flush, 0),
        command::TRIM => (Op::Trim, 0),
        command::WRITE_ZEROES => (Op::WriteZeroes, flag::NO_HOLE | flag::FAST_ZERO),
        _ => return Err(error::INVALID),
    };
    // FUA is allowed on everything, and without meaning where nothing is written.
    if request.flags & !(flags | flag::FUA) != 0 {
        return Err(error::INVALID);
    }
    if op == Op::Flush {
        return Ok(Meaning::Command(op, false));
    }
    if facts.read_only && op != Op::Read {
        return Err(error::PERM);
    }
    check_place(request, op, facts)?;
    let fua = request.flags & flag::FUA != 0 && op != Op::Read;
    match op {
        _ if request.kind == command::BLOCK_STATUS => {
            if request.length_bytes == 0 {
                Err(error::INVALID)
            } else {
                Ok(Meaning::Extents)
            }
        }
        _ if request.length_bytes == 0 || request.kind == command::CACHE => Err(0),
        // Zeroes are written as data is, so only leaving them out is faster than a write.
        Op::WriteZeroes if request.flags & flag::FAST_ZERO != 0 => match request.flags & flag::NO_HOLE {
            0 => Ok(Meaning::Command(Op::Trim, fua)),
            _ => Err(error::NOT_SUPPORTED),
        },
        op => Ok(Meaning::Command(op, fua)),
    }
}

/// Refuses a request that does not lie on whole blocks within the drive.
fn check_place(request: &Request, op: Op, facts: &DriveInfo) -> Result<(), u32> {
    let length = u64::from(request.length_bytes);
    let end = request.offset_bytes.checked_add(length);
    if end.is_none_or(|end| end > facts.size_bytes) {
        // The document's choice of errors.
        return Err(if matches!(op, Op::Write | Op::WriteZeroes) { error::NO_SPACE } else { error::INVALID });
    }
    let block = u64::from(facts.block_bytes.max(1));
    if request.offset_bytes % block != 0 || length % block != 0 {
        return Err(error::INVALID);
    }
    let too_long = request.kind == command::READ && request.length_bytes > MAX_PAYLOAD_BYTES;
    if too_long { Err(error::OVERFLOW) } else { Ok(()) }
}

fn code_of(status: Status, op: Op) -> u32 {
    match status {
        Status::Done => 0,
        Status::OutOfRange if matches!(op, Op::Write | Op::WriteZeroes) => error::NO_SPACE,
        Status::OutOfRange | Status::Zone(_) => error::INVALID,
        Status::ReadOnly => error::PERM,
        Status::NoSpace => error::NO_SPACE,
        Status::Failed | Status::Media | Status::Aborted => error::IO,
        Status::PowerLost => error::SHUTDOWN,
    }
}
