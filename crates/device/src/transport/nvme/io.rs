//! Commands of I/O queues (NVM Command Set Specification 1.0, section 3.2).

use std::collections::BTreeMap;

use super::MAX_TRANSFER_BYTES;
use super::entry::{Outcome, Submission};
use super::opcode::io as opcode;
use super::status::{self, Status};
use super::{u32_at, u64_at};
use crate::command::{Answer, Drive, DriveInfo, Op, Status as Ended, Tag};
use crate::namespace::NamespaceDrive;

pub const EVERY_NAMESPACE: u32 = u32::MAX;

/// Bytes of one range of a Dataset Management command.
const RANGE_BYTES: usize = 16;

const FORCE_UNIT_ACCESS: u32 = 1 << 30;
const DEALLOCATE: u32 = 1 << 25;

/// What an answer of the drive is a part of: bits 16 and up of its command's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It is the whole command.
    Whole,
    Range,
    /// What is read is compared.
    Compare,
    /// What is read goes nowhere.
    Verify,
    /// A flush that a shutdown waits for; its command is complete.
    Shutdown,
    /// It is an append, whose place its host is told.
    Append,
}

pub const PARTS: [Part; 6] = [Part::Whole, Part::Range, Part::Compare, Part::Verify, Part::Shutdown, Part::Append];

impl Part {
    /// The tag of such a part of a command.
    pub fn tag(self, transport: u32, queue: u32, id: u16) -> Tag {
        Tag { transport, queue, command: u64::from(id) | ((self as u64) << 16) }
    }

    pub fn of(answer: &Answer) -> Self {
        PARTS[(answer.command.tag.command >> 16) as usize % PARTS.len()]
    }
}

/// A command of several ranges.
#[derive(Debug)]
pub struct Ranges {
    /// Ranges that are not answered.
    pub left: usize,
    /// The first that went wrong.
    pub status: Status,
}

/// What is wanted of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub op: Op,
    pub offset_bytes: u64,
    pub length_bytes: u64,
    /// Durable before it is answered.
    pub fua: bool,
}

/// The queue of commands, as far as they need one. Their numbers are the transport's.
pub trait IoQueue {
    /// Gives a command, or a part of it, to the drive.
    fn submit(&mut self, number: u16, part: Part, wanted: Wanted, data: &[u8], drive: &mut dyn Drive);

    /// Counts an answer off: whose it is.
    fn answered(&mut self, answer: &Answer) -> (u16, Part);

    /// Keeps what a command compares with what is read.
    fn keep(&mut self, number: u16, data: &[u8]);

    /// Whether what is read is what the command compares it with. `None` if there is no such command.
    fn compare(&mut self, number: u16, content: &[u8]) -> Option<bool>;

    /// Commands of several ranges, by their numbers.
    fn ranges(&mut self) -> &mut BTreeMap<u16, Ranges>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// A part of the content is its answer: first byte and number of bytes.
    Content(u64, u64),
    /// An append: its first block.
    Appended(u64),
    Status(Status),
}

/// What a command's data have to be, before they are waited for.
pub fn data_bytes(command: &Submission, drive: &dyn Drive) -> Result<usize, Status> {
    let facts = || match drive.namespace(command.namespace()) {
        Some(namespace) => Ok(namespace.facts),
        None => Err(status::INVALID_NAMESPACE),
    };
    match command.opcode() {
        opcode::WRITE | opcode::COMPARE => Ok(extent(command, facts()?)?.1 as usize),
        opcode::DATASET_MANAGEMENT => {
            facts()?;
            Ok(((command.word(10) as usize & 0xff) + 1) * RANGE_BYTES)
        }
        _ => Err(status::INVALID_OPCODE),
    }
}

/// Begins a command. `durable` makes every write so: the host turned the write cache off.
pub fn begin(
    queue: &mut impl IoQueue,
    command: &Submission,
    data: &[u8],
    durable: bool,
    drive: &mut dyn Drive,
) -> Outcome {
    match try_begin(queue, command, data, durable, drive) {
        Ok(outcome) => outcome,
        Err(status) => status.into(),
    }
}

fn try_begin(
    queue: &mut impl IoQueue,
    command: &Submission,
    data: &[u8],
    durable: bool,
    drive: &mut dyn Drive,
) -> Result<Outcome, Status> {
    if command.is_fused() {
        return Err(status::INVALID_FIELD);
    }
    match command.opcode() {
        opcode::FLUSH if command.namespace() == EVERY_NAMESPACE => {
            flush(queue, command.id(), Part::Whole, drive);
            return Ok(Outcome::Later);
        }
        code if opcode::ALL.contains(&code) => {}
        _ => return Err(status::INVALID_OPCODE),
    }
    // From here on no address lies beyond the namespace.
    let drive = NamespaceDrive::new(drive, command.namespace());
    let drive = &mut drive.ok_or(status::INVALID_NAMESPACE)?;
    let facts = drive.facts();
    let whole = |op| -> Result<Wanted, Status> {
        let (offset_bytes, length_bytes) = extent(command, facts)?;
        let fua = op != Op::Read && (durable || command.word(12) & FORCE_UNIT_ACCESS != 0);
        Ok(Wanted { op, offset_bytes, length_bytes, fua })
    };
    let (part, wanted) = match command.opcode() {
        opcode::FLUSH => {
            flush(queue, command.id(), Part::Whole, drive);
            return Ok(Outcome::Later);
        }
        opcode::READ => {
            let wanted = whole(Op::Read)?;
            command.check_room(wanted.length_bytes)?;
            (Part::Whole, wanted)
        }
        opcode::WRITE => (Part::Whole, whole(Op::Write)?),
        opcode::WRITE_ZEROES if command.word(12) & DEALLOCATE != 0 => (Part::Whole, whole(Op::Trim)?),
        opcode::WRITE_ZEROES => (Part::Whole, whole(Op::WriteZeroes)?),
        opcode::VERIFY => (Part::Verify, whole(Op::Read)?),
        opcode::COMPARE => {
            let wanted = whole(Op::Read)?;
            queue.keep(command.id(), data);
            (Part::Compare, wanted)
        }
        opcode::DATASET_MANAGEMENT => return deallocate(queue, command, data, durable, drive),
        _ => return Err(status::INVALID_OPCODE),
    };
    let writes = matches!(wanted.op, Op::Write | Op::WriteZeroes | Op::Trim);
    if writes && facts.read_only {
        return Err(status::WRITE_PROTECTED);
    }
    let data = if wanted.op == Op::Write { data } else { &[] };
    queue.submit(command.id(), part, wanted, data, drive);
    Ok(Outcome::Later)
}

/// All that was answered is to be durable.
pub fn flush(queue: &mut impl IoQueue, id: u16, part: Part, drive: &mut dyn Drive) {
    let wanted = Wanted { op: Op::Flush, offset_bytes: 0, length_bytes: 0, fua: false };
    queue.submit(id, part, wanted, &[], drive);
}

/// Where a command's blocks lie within its namespace: first byte and number of bytes.
pub(super) fn extent(command: &Submission, facts: &DriveInfo) -> Result<(u64, u64), Status> {
    let blocks = u64::from(command.word(12) & 0xffff) + 1;
    let place = placed(command.double_word(10), blocks, facts)?;
    // Write Zeroes carries no data, and no limit is its (fields MDTS and VSL).
    if command.opcode() != opcode::WRITE_ZEROES && place.1 > MAX_TRANSFER_BYTES as u64 {
        return Err(status::INVALID_FIELD);
    }
    Ok(place)
}

fn placed(first: u64, blocks: u64, facts: &DriveInfo) -> Result<(u64, u64), Status> {
    let block = u64::from(facts.block_bytes.max(1));
    let end = first.checked_add(blocks).ok_or(status::LBA_OUT_OF_RANGE)?;
    if end > facts.size_bytes / block {
        return Err(status::LBA_OUT_OF_RANGE);
    }
    Ok((first * block, blocks * block))
}

/// Every range becomes a command of its own; they are completed together.
fn deallocate(
    queue: &mut impl IoQueue,
    command: &Submission,
    data: &[u8],
    durable: bool,
    drive: &mut dyn Drive,
) -> Result<Outcome, Status> {
    if command.word(11) & 4 == 0 {
        return Ok(Outcome::Done(0)); // hints alone, which may be ignored
    }
    if drive.facts().read_only {
        return Err(status::WRITE_PROTECTED);
    }
    let mut places = Vec::new();
    let ranges = (command.word(10) as usize & 0xff) + 1;
    for range in data.chunks_exact(RANGE_BYTES).take(ranges) {
        let blocks = u64::from(u32_at(range, 4));
        let place = placed(u64_at(range, 8), blocks, drive.facts())?;
        if blocks > 0 {
            places.push(place);
        }
    }
    if places.is_empty() {
        return Ok(Outcome::Done(0));
    }
    queue.ranges().insert(command.id(), Ranges { left: places.len(), status: status::SUCCESS });
    for (offset_bytes, length_bytes) in places {
        let wanted = Wanted { op: Op::Trim, offset_bytes, length_bytes, fua: durable };
        queue.submit(command.id(), Part::Range, wanted, &[], drive);
    }
    Ok(Outcome::Later)
}

/// The drive answered: which command ended and how, if one did.
pub fn answer(queue: &mut impl IoQueue, answer: &Answer, drive: &dyn Drive) -> Option<(u16, Completed)> {
    let (id, part) = queue.answered(answer);
    let mut ended = status_of(answer.status, answer.command.op);
    let (offset_bytes, length_bytes) = (answer.command.offset_bytes, answer.command.length_bytes);
    match part {
        Part::Whole if answer.command.op == Op::Read && ended == status::SUCCESS => {
            return Some((id, Completed::Content(offset_bytes, length_bytes)));
        }
        Part::Range => {
            let ranges = queue.ranges().get_mut(&id)?;
            ranges.left = ranges.left.saturating_sub(1);
            if ranges.status == status::SUCCESS {
                ranges.status = ended;
            }
            if ranges.left > 0 {
                return None;
            }
            ended = ranges.status;
            queue.ranges().remove(&id);
        }
        Part::Compare => {
            let alike = queue.compare(id, drive.content(offset_bytes, length_bytes))?;
            if ended == status::SUCCESS && !alike {
                ended = status::COMPARE_FAILURE;
            }
        }
        Part::Append if ended == status::SUCCESS => {
            let block = u64::from(drive.facts().block_bytes.max(1));
            let at = answer.command.offset_bytes / block;
            return Some((id, Completed::Appended(at)));
        }
        Part::Whole | Part::Verify | Part::Shutdown | Part::Append => {}
    }
    Some((id, Completed::Status(ended)))
}

fn failure(op: Op) -> Status {
    match op {
        Op::Read => status::READ_ERROR,
        Op::Write | Op::WriteZeroes => status::WRITE_FAULT,
        Op::Flush | Op::Trim | Op::Zone(..) => status::INTERNAL_ERROR,
    }
}

fn status_of(ended: Ended, op: Op) -> Status {
    match ended {
        Ended::Done => status::SUCCESS,
        Ended::OutOfRange => status::LBA_OUT_OF_RANGE,
        Ended::ReadOnly => status::WRITE_PROTECTED,
        Ended::NoSpace => status::CAPACITY_EXCEEDED,
        Ended::PowerLost => status::POWER_LOST,
        Ended::Aborted => status::ABORT_REQUESTED,
        Ended::Failed => failure(op),
        Ended::Media => failure(op).final_one(),
        Ended::Zone(error) => status::of_zone(error),
    }
}
