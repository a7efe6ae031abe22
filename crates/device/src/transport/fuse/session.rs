//! One mounted file, without the descriptor: requests of the kernel come in, commands of the drive and replies go out.
//!
//! Programs may ask for any range of bytes, as of any file. The drive has whole blocks, so other ranges are widened:
//! what is read in excess is not handed on, and what is written in excess is the present content. No other command can
//! change that in between, since one thread does all.

use std::ops::Range;

use slab::Slab;

use super::abi::{self, Request, opcode};
use super::metadata::{self, MAX_DATA_BYTES};
use super::page_cache::CachedRanges;
use crate::command::{Command, Drive, Op, Status, Tag};

/// More zeroes than two blocks have.
const ZEROES: [u8; 8192] = [0; 8192];

const O_DSYNC: u32 = libc::O_DSYNC as u32;

/// Modes of fallocate(2).
const KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
const PUNCH_HOLE: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32;
const ZERO_RANGE: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;

/// A request for which the drive has commands.
#[derive(Debug, Clone)]
struct Waiting {
    unique: u64,
    request: FileRequest,
    /// Commands that the drive has not answered.
    left: usize,
    /// The first error of a command.
    status: Status,
}

/// The reply to a request that is done.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// A header alone, or with a few bytes.
    Short(Vec<u8>),
    /// A header, and then this range of the drive's content.
    Content([u8; abi::OUT_HEADER], Range<u64>),
}

pub struct FuseSession {
    transport: u32,
    owner: (u32, u32),
    /// Requests in flight. Their commands carry their places.
    waiting: Slab<Waiting>,
    widened: Vec<u8>,
    /// Ranges that the page cache may hold. `None` where they could not be dropped from there.
    pub cached: Option<CachedRanges>,
}

impl FuseSession {
    /// A file of the transport with this number; `owner` are a user and a group.
    pub fn new(transport: u32, owner: (u32, u32)) -> Self {
        Self { transport, owner, waiting: Slab::new(), widened: Vec::new(), cached: Some(CachedRanges::default()) }
    }

    /// Commands that the drive has and did not answer.
    pub fn in_flight(&self) -> usize {
        self.waiting.iter().map(|(_, waiting)| waiting.left).sum()
    }

    /// Whether the page cache waits for this command of the file.
    pub fn caches(&self, command: &Command) -> bool {
        self.waiting.get(command.tag.command as usize).is_some_and(|waiting| waiting.request.caches)
    }

    /// Takes one request as it was read from the kernel. What can be answered at once is appended
    /// to `out`, as one reply; all else becomes commands of the drive.
    pub fn received(&mut self, bytes: &[u8], drive: &mut dyn Drive, out: &mut Vec<u8>) {
        // A request that is not whole has no number to reply to.
        let Some(request) = Request::parse(bytes) else {
            return;
        };
        let result = match request.opcode {
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => return,
            opcode::READ | opcode::WRITE | opcode::FSYNC | opcode::FALLOCATE => {
                match self.begin(request, drive) {
                    Ok(true) => return,
                    // Nothing of it lies in the file.
                    Ok(false) if request.opcode == opcode::WRITE => Ok(written(0).to_vec()),
                    Ok(false) => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            }
            _ => metadata::reply_body(request, self.owner, drive.facts()),
        };
        match result {
            Ok(body) => reply(out, request.unique, &body),
            Err(error) => out.extend(abi::out_header(request.unique, error, 0)),
        }
    }

    /// A command of this file has ended: the reply to its request, if it was the last of it.
    pub fn answered(&mut self, command: &Command, status: Status) -> Option<Reply> {
        let place = command.tag.command as usize;
        let waiting = self.waiting.get_mut(place)?;
        waiting.left -= 1;
        if waiting.status == Status::Done {
            waiting.status = status;
        }
        if waiting.left > 0 {
            return None;
        }
        let Waiting { unique, request: FileRequest { op, range, .. }, status, .. } = self.waiting.remove(place);
        let (error, length) = (errno_of(status), range.end - range.start);
        Some(match op {
            Op::Read if error == 0 => Reply::Content(abi::out_header(unique, 0, length as usize), range),
            Op::Write if error == 0 => {
                let mut out = Vec::new();
                reply(&mut out, unique, &written(length as u32));
                Reply::Short(out)
            }
            _ => Reply::Short(abi::out_header(unique, error, 0).into()),
        })
    }

    /// Submits the commands of a request. Returns false if its range lies beyond the end, so that there are none.
    fn begin(&mut self, request: Request<'_>, drive: &mut dyn Drive) -> Result<bool, i32> {
        let (size, block) = (drive.facts().size_bytes, u64::from(drive.facts().block_bytes));
        let file_request = FileRequest::read(request, size)?;
        let changes = matches!(file_request.op, Op::Write | Op::Trim | Op::WriteZeroes);
        if changes && drive.facts().read_only {
            return Err(libc::EROFS);
        }
        if file_request.op == Op::Write && file_request.range.start >= size {
            return Err(libc::ENOSPC);
        }
        if file_request.op != Op::Flush && file_request.range.is_empty() {
            return Ok(false);
        }
        if file_request.caches {
            let cached = self.cached.as_mut().ok_or(libc::EOPNOTSUPP)?;
            cached.insert(file_request.range.clone());
        }
        let Range { start, end } = file_request.range;
        // Whole blocks are trimmed or zeroed. Of other blocks, the part that the program named is overwritten with zeroes.
        let (first, last) = match file_request.op {
            Op::Trim | Op::WriteZeroes => (start.next_multiple_of(block), end / block * block),
            _ => (start, end),
        };
        let parts = if first < last || file_request.op == Op::Flush {
            [(Op::Write, start..first), (file_request.op, first..last), (Op::Write, last..end)]
        } else {
            [(Op::Write, start..end), (Op::Write, end..end), (Op::Write, end..end)]
        };
        if changes {
            load_ends(&file_request.range, block, drive)?;
        }
        let parts = parts.iter().filter(|(op, range)| *op == Op::Flush || !range.is_empty());
        let (op, fua) = (file_request.op, file_request.durable);
        let tag = self.place(request.unique, file_request, parts.clone().count());
        for (part_op, range) in parts {
            // Up to whole blocks.
            let offset_bytes = range.start / block * block;
            let length_bytes = range.end.div_ceil(block) * block - offset_bytes;
            let command = Command { tag, op: *part_op, offset_bytes, length_bytes, fua };
            let length = (range.end - range.start) as usize;
            match (part_op, op) {
                (Op::Write, Op::Write) => {
                    self.write(command, range, request.data.get(..length).unwrap_or_default(), drive);
                }
                (Op::Write, _) => self.write(command, range, &ZEROES[..length], drive),
                _ => drive.submit(command, &[]),
            }
        }
        Ok(true)
    }

    /// Writes data to a range, and around it, up to whole blocks, what is there.
    fn write(&mut self, command: Command, range: &Range<u64>, data: &[u8], drive: &mut dyn Drive) {
        if command.length_bytes == data.len() as u64 {
            return drive.submit(command, data);
        }
        let end = command.offset_bytes + command.length_bytes;
        let mut whole = std::mem::take(&mut self.widened);
        whole.clear();
        let before = drive.content(command.offset_bytes, range.start - command.offset_bytes);
        whole.extend_from_slice(before);
        whole.extend_from_slice(data);
        whole.extend_from_slice(drive.content(range.end, end - range.end));
        drive.submit(command, &whole);
        self.widened = whole;
    }

    /// A place for a request of this number of commands.
    fn place(&mut self, unique: u64, request: FileRequest, commands: usize) -> Tag {
        let place = self.waiting.insert(Waiting { unique, request, left: commands, status: Status::Done });
        Tag { transport: self.transport, queue: 0, command: place as u64 }
    }
}

/// What a program asks of the file's content, cut to the file's size.
#[derive(Debug, Clone)]
struct FileRequest {
    op: Op,
    range: Range<u64>,
    durable: bool,
    /// Whether the kernel reads the range into the page cache.
    caches: bool,
}

impl FileRequest {
    /// Reads a request to a file of this size.
    fn read(request: Request<'_>, size: u64) -> Result<Self, i32> {
        let fields = request.fields;
        let (op, range, durable, caches) = match request.opcode {
            opcode::READ => {
                let range = within(fields.u64(8)?, fields.u32(16)?.into(), size);
                if range.end - range.start > u64::from(MAX_DATA_BYTES) {
                    return Err(libc::EINVAL);
                }
                (Op::Read, range, false, fields.u32(20)? & abi::READ_HAS_OWNER == 0)
            }
            opcode::WRITE => {
                let (offset, length) = (fields.u64(8)?, fields.u32(16)?);
                if request.data.len() != length as usize {
                    return Err(libc::EINVAL);
                }
                (Op::Write, within(offset, length.into(), size), fields.u32(32)? & O_DSYNC != 0, false)
            }
            // `fuse_fallocate_in`. The size is fixed: what the kernel would take for growth is refused.
            opcode::FALLOCATE => {
                let (offset, length, mode) = (fields.u64(8)?, fields.u64(16)?, fields.u32(24)?);
                let op = match mode & !KEEP_SIZE {
                    PUNCH_HOLE => Op::Trim,
                    ZERO_RANGE => Op::WriteZeroes,
                    _ => return Err(libc::EOPNOTSUPP),
                };
                let grows = offset.checked_add(length).is_none_or(|end| end > size);
                if grows && mode & KEEP_SIZE == 0 {
                    return Err(libc::EFBIG);
                }
                (op, within(offset, length, size), false, false)
            }
            _ => (Op::Flush, 0..0, false, false),
        };
        Ok(Self { op, range, durable, caches })
    }
}

fn within(offset: u64, length: u64, size: u64) -> Range<u64> {
    offset.min(size)..offset.checked_add(length).map_or(size, |end| end.min(size))
}

/// The blocks that a range begins and ends within are about to be looked at.
fn load_ends(range: &Range<u64>, block: u64, drive: &mut dyn Drive) -> Result<(), i32> {
    for at in [range.start, range.end] {
        if at % block != 0 {
            let loaded = drive.load(at / block * block, block);
            loaded.map_err(errno_of)?;
        }
    }
    Ok(())
}

fn written(bytes: u32) -> [u8; 8] {
    let mut body = [0; 8];
    body[..4].copy_from_slice(&bytes.to_ne_bytes());
    body
}

fn reply(out: &mut Vec<u8>, unique: u64, body: &[u8]) {
    out.extend(abi::out_header(unique, 0, body.len()));
    out.extend(body);
}

fn errno_of(status: Status) -> i32 {
    match status {
        Status::Done => 0,
        Status::OutOfRange | Status::Zone(_) => libc::EINVAL,
        Status::ReadOnly => libc::EROFS,
        Status::NoSpace => libc::ENOSPC,
        Status::Failed | Status::Media | Status::PowerLost | Status::Aborted => libc::EIO,
    }
}
