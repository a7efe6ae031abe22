//! One mounted file, without the descriptor: requests of the kernel come in, commands of the drive
//! and replies go out.
//!
//! Programs may ask for any range of bytes, as of any file. The drive knows whole blocks, so a range
//! that is not is widened: what is read too much is not handed on, and what is written too much is
//! the present content, which no other command can change between, since one thread does all.

use std::ops::Range;

use super::abi::{self, Fields, MAJOR, MINOR, ROOT, Request, allocate, attribute, init, opcode};
use crate::command::{Command, Drive, Facts, Op, Status, Tag};

/// Bytes of data in one request at most.
pub const MAX_DATA_BYTES: u32 = 1 << 20;
const PAGE_BYTES: u32 = 4096;
/// Requests that the kernel has under way for programs that do not wait: more than any queue.
const BACKGROUND: u16 = 4096;
/// Short, so that a drive that was killed is seen to be gone.
const ATTRIBUTES_HOLD_S: u64 = 1;
const MODE: u32 = 0o100_600;
const O_DSYNC: u32 = 0o10_000;

pub mod errno {
    //! Numbers of errors (Linux UAPI, errno-base.h).
    pub const IO: i32 = 5;
    pub const INVALID: i32 = 22;
    pub const NO_SPACE: i32 = 28;
    pub const READ_ONLY: i32 = 30;
    pub const NOT_IMPLEMENTED: i32 = 38;
    pub const NOT_SUPPORTED: i32 = 95;
}

/// What a command in flight is answered with.
#[derive(Debug, Clone)]
struct Waiting {
    unique: u64,
    /// Bytes that the program asked for.
    wanted: Range<u64>,
}

/// The reply to a command that is done.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// A header alone, or with a few bytes.
    Short(Vec<u8>),
    /// A header, and then this range of the drive's content.
    Content([u8; abi::OUT_HEADER], Range<u64>),
}

/// One mounted file.
pub struct Session {
    transport: u32,
    owner: (u32, u32),
    /// Commands in flight at their places, and the places that are free.
    waiting: Vec<Option<Waiting>>,
    free: Vec<u32>,
    widened: Vec<u8>,
}

impl Session {
    /// A file of the transport with this number; `owner` are a user and a group.
    pub fn new(transport: u32, owner: (u32, u32)) -> Self {
        Self {
            transport,
            owner,
            waiting: Vec::new(),
            free: Vec::new(),
            widened: Vec::new(),
        }
    }

    /// Takes one request as it was read from the kernel. What can be answered at once is appended
    /// to `out`, as one reply; all else becomes a command of the drive.
    pub fn received(&mut self, bytes: &[u8], drive: &mut dyn Drive, out: &mut Vec<u8>) {
        let Some(request) = Request::parse(bytes) else {
            return; // nobody could be answered
        };
        match request.opcode {
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => {}
            opcode::READ | opcode::WRITE | opcode::FSYNC | opcode::FALLOCATE => {
                match self.submit(request, drive) {
                    Ok(true) => {}
                    Ok(false) => reply(out, request.unique, &[]),
                    Err(error) => refuse(out, request.unique, error),
                }
            }
            _ => match self.told(request, drive.facts()) {
                Ok(body) => reply(out, request.unique, &body),
                Err(error) => refuse(out, request.unique, error),
            },
        }
    }

    /// The reply to a command of this file that has ended.
    pub fn answered(&mut self, command: &Command, status: Status) -> Option<Reply> {
        let place = usize::try_from(command.tag.command).ok()?;
        let done = self.waiting.get_mut(place)?.take()?;
        self.free.push(place as u32);
        let error = errno_of(status);
        let length = done.wanted.end - done.wanted.start;
        Some(match command.op {
            _ if error != 0 => Reply::Short(abi::out_header(done.unique, error, 0).into()),
            Op::Read => {
                let header = abi::out_header(done.unique, 0, length as usize);
                Reply::Content(header, done.wanted)
            }
            Op::Write => {
                let mut body = (length as u32).to_ne_bytes().to_vec();
                body.extend([0; 4]);
                let mut out = Vec::new();
                reply(&mut out, done.unique, &body);
                Reply::Short(out)
            }
            _ => Reply::Short(abi::out_header(done.unique, 0, 0).into()),
        })
    }

    fn told(&self, request: Request<'_>, facts: &Facts) -> Result<Vec<u8>, i32> {
        let fields = request.fields();
        match request.opcode {
            opcode::INIT => greet(fields),
            opcode::GETATTR => Ok(self.attributes(facts)),
            opcode::SETATTR => {
                resized(fields, facts).ok_or(errno::INVALID)?;
                Ok(self.attributes(facts))
            }
            opcode::OPEN => open(fields, facts),
            opcode::STATFS => Ok(statistics(facts)),
            opcode::RELEASE | opcode::FLUSH | opcode::DESTROY => Ok(Vec::new()),
            _ => Err(errno::NOT_IMPLEMENTED),
        }
    }

    /// Whether there was anything to do: of a range beyond the end there is not.
    fn submit(&mut self, request: Request<'_>, drive: &mut dyn Drive) -> Result<bool, i32> {
        let fields = request.fields();
        let size = drive.facts().size_bytes;
        let asked = Asked::read(request.opcode, fields, size).ok_or(errno::INVALID)?;
        if matches!(asked.op, Op::Write | Op::Trim | Op::WriteZeroes) {
            if drive.facts().read_only {
                return Err(errno::READ_ONLY);
            }
            if asked.range.start >= size {
                return Err(errno::NO_SPACE);
            }
        }
        if asked.op != Op::Flush && asked.range.is_empty() {
            return Ok(false);
        }
        let blocks = widen(&asked.range, u64::from(drive.facts().block_bytes));
        let command = Command {
            tag: self.place(request.unique, asked.range.clone()),
            op: asked.op,
            offset_bytes: blocks.start,
            length_bytes: blocks.end - blocks.start,
            fua: asked.durable,
        };
        if asked.op == Op::Write {
            let length = (asked.range.end - asked.range.start) as usize;
            let data = fields.from(abi::WRITE_IN).get(..length);
            self.write(command, &asked.range, data.unwrap_or_default(), drive);
        } else {
            drive.submit(command, &[]);
        }
        Ok(true)
    }

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

    fn place(&mut self, unique: u64, wanted: Range<u64>) -> Tag {
        let waiting = Some(Waiting { unique, wanted });
        let place = if let Some(place) = self.free.pop() {
            self.waiting[place as usize] = waiting;
            place
        } else {
            self.waiting.push(waiting);
            (self.waiting.len() - 1) as u32
        };
        Tag {
            transport: self.transport,
            queue: 0,
            command: u64::from(place),
        }
    }

    /// `fuse_attr_out`: how long it holds, then what stat(2) tells.
    fn attributes(&self, facts: &Facts) -> Vec<u8> {
        let size = facts.size_bytes;
        let mut body = Vec::with_capacity(104);
        for long in [ATTRIBUTES_HOLD_S, 0, ROOT, size, size / 512, 0, 0, 0] {
            body.extend(long.to_ne_bytes());
        }
        let (user, group) = self.owner;
        for short in [0, 0, 0, MODE, 1, user, group, 0, PAGE_BYTES, 0] {
            body.extend(short.to_ne_bytes());
        }
        body
    }
}

/// What a program asks of the file.
struct Asked {
    op: Op,
    /// Bytes, within the file.
    range: Range<u64>,
    durable: bool,
}

impl Asked {
    /// None when the request is shorter than its kind, or for a mode that there is not.
    fn read(opcode: u32, fields: Fields<'_>, size: u64) -> Option<Self> {
        let within = |offset: u64, length: u64| {
            offset.min(size)..offset.checked_add(length).map_or(size, |end| end.min(size))
        };
        let (op, range, durable) = match opcode {
            opcode::READ => {
                let range = within(fields.u64(8)?, u64::from(fields.u32(16)?));
                (range.end - range.start <= u64::from(MAX_DATA_BYTES)).then_some(())?;
                (Op::Read, range, false)
            }
            opcode::WRITE => {
                let length = fields.u32(16)?;
                (fields.from(abi::WRITE_IN).len() == length as usize).then_some(())?;
                let durable = fields.u32(32)? & O_DSYNC != 0;
                (Op::Write, within(fields.u64(8)?, length.into()), durable)
            }
            opcode::FALLOCATE => {
                let range = within(fields.u64(8)?, fields.u64(16)?);
                let op = match fields.u32(24)? & !allocate::KEEP_SIZE {
                    allocate::PUNCH_HOLE => Op::Trim,
                    allocate::ZERO_RANGE => Op::WriteZeroes,
                    _ => return None,
                };
                (op, range, false)
            }
            _ => (Op::Flush, 0..0, false),
        };
        Some(Self { op, range, durable })
    }
}

fn widen(range: &Range<u64>, block: u64) -> Range<u64> {
    if range.is_empty() {
        return range.start..range.start;
    }
    range.start / block * block..range.end.div_ceil(block) * block
}

/// `fuse_init_out`; the kernel and we speak the older of the two minor versions.
fn greet(fields: Fields<'_>) -> Result<Vec<u8>, i32> {
    let major = fields.u32(0).ok_or(errno::INVALID)?;
    let minor = fields.u32(4).ok_or(errno::INVALID)?;
    let offered = fields.u32(12).ok_or(errno::INVALID)?;
    if major != MAJOR || minor < 31 {
        return Err(errno::NOT_SUPPORTED);
    }
    let wanted = init::ASYNC_READ | init::BIG_WRITES | init::ASYNC_DIO | init::MAX_PAGES;
    let mut body = Vec::with_capacity(64);
    for number in [MAJOR, MINOR.min(minor), MAX_DATA_BYTES, wanted & offered] {
        body.extend(number.to_ne_bytes());
    }
    for number in [BACKGROUND, BACKGROUND / 4 * 3] {
        body.extend(number.to_ne_bytes());
    }
    for number in [MAX_DATA_BYTES, 1] {
        body.extend(number.to_ne_bytes());
    }
    body.extend(((MAX_DATA_BYTES / PAGE_BYTES) as u16).to_ne_bytes());
    body.resize(64, 0);
    Ok(body)
}

/// Whether a change of attributes leaves the size as it is. As with a block device, opening it with
/// `O_TRUNC` changes nothing, and making it another size is an error.
fn resized(fields: Fields<'_>, facts: &Facts) -> Option<()> {
    let valid = fields.u32(0)?;
    let size = fields.u64(16)?;
    let by_path_to_nothing = valid & attribute::HANDLE == 0 && size == 0;
    let kept = valid & attribute::SIZE == 0 || size == facts.size_bytes || by_path_to_nothing;
    kept.then_some(())
}

/// `fuse_open_out`.
fn open(fields: Fields<'_>, facts: &Facts) -> Result<Vec<u8>, i32> {
    let writes = fields.u32(0).ok_or(errno::INVALID)? & 0b11 != 0;
    if writes && facts.read_only {
        return Err(errno::READ_ONLY);
    }
    let mut body = vec![0; 8];
    body.extend(abi::OPEN_DIRECT.to_ne_bytes());
    body.extend([0; 4]);
    Ok(body)
}

/// `fuse_statfs_out`: a full file system with one file.
fn statistics(facts: &Facts) -> Vec<u8> {
    let mut body = Vec::with_capacity(80);
    let blocks = facts.size_bytes / u64::from(PAGE_BYTES);
    for long in [blocks, 0, 0, 1, 0] {
        body.extend(long.to_ne_bytes());
    }
    for short in [PAGE_BYTES, 255, PAGE_BYTES] {
        body.extend(short.to_ne_bytes());
    }
    body.resize(80, 0);
    body
}

fn reply(out: &mut Vec<u8>, unique: u64, body: &[u8]) {
    out.extend(abi::out_header(unique, 0, body.len()));
    out.extend(body);
}

fn refuse(out: &mut Vec<u8>, unique: u64, error: i32) {
    out.extend(abi::out_header(unique, error, 0));
}

fn errno_of(status: Status) -> i32 {
    match status {
        Status::Done => 0,
        Status::OutOfRange => errno::INVALID,
        Status::ReadOnly => errno::READ_ONLY,
        Status::NoSpace => errno::NO_SPACE,
        Status::Failed | Status::PowerLost => errno::IO,
    }
}

#[cfg(test)]
mod tests;
