//! One mounted file, without the descriptor: requests of the kernel come in, commands of the drive and replies go out.
//!
//! Programs may ask for any range of bytes, as of any file. The drive has whole blocks, so other ranges are widened:
//! what is read in excess is not handed on, and what is written in excess is the present content. No other command can
//! change that in between, since one thread does all.

use std::ops::Range;

use slab::Slab;

use super::abi::{self, Fields, Request, opcode};
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
    op: Op,
    /// Whether the page cache waits for it.
    caches: bool,
    /// Bytes that the program asked for.
    wanted: Range<u64>,
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
    in_flight: usize,
    widened: Vec<u8>,
    /// Ranges that the page cache may hold. `None` where they could not be dropped from there.
    pub cached: Option<CachedRanges>,
}

impl FuseSession {
    /// A file of the transport with this number; `owner` are a user and a group.
    pub fn new(transport: u32, owner: (u32, u32)) -> Self {
        Self {
            transport,
            owner,
            waiting: Slab::new(),
            in_flight: 0,
            widened: Vec::new(),
            cached: Some(CachedRanges::default()),
        }
    }

    /// Commands that the drive has and did not answer.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether the page cache waits for this command of the file.
    pub fn caches(&self, command: &Command) -> bool {
        self.waiting.get(command.tag.command as usize).is_some_and(|request| request.caches)
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
        let request = self.waiting.get_mut(place)?;
        self.in_flight -= 1;
        request.left -= 1;
        if request.status == Status::Done {
            request.status = status;
        }
        if request.left > 0 {
            return None;
        }
        let done = self.waiting.remove(place);
        let error = errno_of(done.status);
        let length = done.wanted.end - done.wanted.start;
        Some(match done.op {
            _ if error != 0 => Reply::Short(abi::out_header(done.unique, error, 0).into()),
            Op::Read => {
                let header = abi::out_header(done.unique, 0, length as usize);
                Reply::Content(header, done.wanted)
            }
            Op::Write => {
                let mut out = Vec::new();
                reply(&mut out, done.unique, &written(length as u32));
                Reply::Short(out)
            }
            _ => Reply::Short(abi::out_header(done.unique, 0, 0).into()),
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
        if changes {
            load_ends(&file_request.range, block, drive)?;
        }
        match file_request.op {
            Op::Trim | Op::WriteZeroes => {
                self.zero(request.unique, &file_request, block, drive);
            }
            Op::Write => {
                let tag = self.place(request.unique, &file_request, 1);
                let length = (file_request.range.end - file_request.range.start) as usize;
                let data = request.data().get(..length);
                let command = command_of(tag, &file_request, Op::Write, &widen(&file_request.range, block));
                self.write(command, &file_request.range, data.unwrap_or_default(), drive);
            }
            op => {
                let tag = self.place(request.unique, &file_request, 1);
                drive.submit(command_of(tag, &file_request, op, &widen(&file_request.range, block)), &[]);
            }
        }
        Ok(true)
    }

    /// Trims or zeroes whole blocks. Of other blocks, the part that the program named is overwritten with zeroes.
    fn zero(&mut self, unique: u64, file_request: &FileRequest, block: u64, drive: &mut dyn Drive) {
        let Range { start, end } = file_request.range;
        let (first, last) = (start.next_multiple_of(block), end / block * block);
        let parts = if first < last {
            [(Op::Write, start..first), (file_request.op, first..last), (Op::Write, last..end)]
        } else {
            [(Op::Write, start..end), (file_request.op, 0..0), (file_request.op, 0..0)]
        };
        let parts = parts.iter().filter(|(_, range)| !range.is_empty());
        let tag = self.place(unique, file_request, parts.clone().count());
        for (op, range) in parts {
            let command = command_of(tag, file_request, *op, &widen(range, block));
            if *op == Op::Write {
                let zeroes = &ZEROES[..(range.end - range.start) as usize];
                self.write(command, range, zeroes, drive);
            } else {
                drive.submit(command, &[]);
            }
        }
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
    fn place(&mut self, unique: u64, file_request: &FileRequest, commands: usize) -> Tag {
        self.in_flight += commands;
        let place = self.waiting.insert(Waiting {
            unique,
            op: file_request.op,
            caches: file_request.caches,
            wanted: file_request.range.clone(),
            left: commands,
            status: Status::Done,
        });
        Tag { transport: self.transport, queue: 0, command: place as u64 }
    }
}

/// What a program asks of the file's content, cut to the file's size.
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
        match request.opcode {
            opcode::READ | opcode::WRITE => Self::transfer(request, size).ok_or(libc::EINVAL),
            opcode::FALLOCATE => Self::allocation(request.fields(), size),
            _ => Ok(Self { op: Op::Flush, range: 0..0, durable: false, caches: false }),
        }
    }

    fn transfer(request: Request<'_>, size: u64) -> Option<Self> {
        let fields = request.fields();
        let (offset, length) = (fields.u64(8)?, fields.u32(16)?);
        let range = within(offset, length.into(), size);
        if request.opcode == opcode::READ {
            let caches = fields.u32(20)? & abi::READ_HAS_OWNER == 0;
            return (range.end - range.start <= u64::from(MAX_DATA_BYTES)).then_some(Self {
                op: Op::Read,
                range,
                durable: false,
                caches,
            });
        }
        let durable = fields.u32(32)? & O_DSYNC != 0;
        (request.data().len() == length as usize).then_some(Self { op: Op::Write, range, durable, caches: false })
    }

    /// `fuse_fallocate_in`. The size is fixed: what the kernel would take for growth is refused.
    fn allocation(fields: Fields<'_>, size: u64) -> Result<Self, i32> {
        let read = || Some((fields.u64(8)?, fields.u64(16)?, fields.u32(24)?));
        let (offset, length, mode) = read().ok_or(libc::EINVAL)?;
        let op = match mode & !KEEP_SIZE {
            PUNCH_HOLE => Op::Trim,
            ZERO_RANGE => Op::WriteZeroes,
            _ => return Err(libc::EOPNOTSUPP),
        };
        let grows = offset.checked_add(length).is_none_or(|end| end > size);
        if grows && mode & KEEP_SIZE == 0 {
            return Err(libc::EFBIG);
        }
        Ok(Self { op, range: within(offset, length, size), durable: false, caches: false })
    }
}

fn within(offset: u64, length: u64, size: u64) -> Range<u64> {
    offset.min(size)..offset.checked_add(length).map_or(size, |end| end.min(size))
}

fn command_of(tag: Tag, file_request: &FileRequest, op: Op, blocks: &Range<u64>) -> Command {
    Command { tag, op, offset_bytes: blocks.start, length_bytes: blocks.end - blocks.start, fua: file_request.durable }
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

fn widen(range: &Range<u64>, block: u64) -> Range<u64> {
    if range.is_empty() {
        return range.start..range.start;
    }
    range.start / block * block..range.end.div_ceil(block) * block
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
