//! Commands of I/O queues (NVM Command Set Specification 1.0, section 3.2).

use super::MAX_TRANSFER_BYTES;
use super::entry::{Outcome, Submission};
use super::link::Link;
use super::opcode::io as opcode;
use super::pdu::{u32_at, u64_at};
use super::queue::{Part, Queue, Ranges, Wanted};
use super::status::{self, Status};
use crate::command::{Answer, Drive, Facts, Op, Status as Ended};
use crate::transport::socket::Output;

/// The only namespace.
pub const NAMESPACE: u32 = 1;
/// All namespaces.
pub const EVERY_NAMESPACE: u32 = u32::MAX;

/// Bytes of one range of a Dataset Management command.
const RANGE_BYTES: usize = 16;

const FORCE_UNIT_ACCESS: u32 = 1 << 30;
const DEALLOCATE: u32 = 1 << 25;

/// What a command's data have to be, before they are waited for.
///
/// # Errors
/// The command is refused without them.
pub fn data_bytes(command: &Submission, facts: &Facts) -> Result<usize, Status> {
    match command.opcode() {
        opcode::WRITE | opcode::COMPARE => Ok(extent(command, facts)?.1 as usize),
        opcode::DATASET_MANAGEMENT => {
            check_namespace(command)?;
            Ok(((command.word(10) as usize & 0xff) + 1) * RANGE_BYTES)
        }
        _ => Err(status::INVALID_OPCODE),
    }
}

/// Begins a command. `durable` makes every write so: the host turned the write cache off.
pub fn begin(
    queue: &mut Queue,
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
    queue: &mut Queue,
    command: &Submission,
    data: &[u8],
    durable: bool,
    drive: &mut dyn Drive,
) -> Result<Outcome, Status> {
    if command.is_fused() {
        return Err(status::INVALID_FIELD);
    }
    let facts = drive.facts();
    let whole = |op| -> Result<Wanted, Status> {
        let (offset_bytes, length_bytes) = extent(command, facts)?;
        let fua = op != Op::Read && (durable || command.word(12) & FORCE_UNIT_ACCESS != 0);
        Ok(Wanted {
            op,
            offset_bytes,
            length_bytes,
            fua,
        })
    };
    let (part, wanted) = match command.opcode() {
        opcode::FLUSH => {
            if command.namespace() != EVERY_NAMESPACE {
                check_namespace(command)?;
            }
            flush(queue, command.id(), Part::Whole, drive);
            return Ok(Outcome::Later);
        }
        opcode::READ => {
            let wanted = whole(Op::Read)?;
            if command.room()? as u64 != wanted.length_bytes {
                return Err(status::SGL_LENGTH_INVALID);
            }
            (Part::Whole, wanted)
        }
        opcode::WRITE => (Part::Whole, whole(Op::Write)?),
        opcode::WRITE_ZEROES if command.word(12) & DEALLOCATE != 0 => {
            (Part::Whole, whole(Op::Trim)?)
        }
        opcode::WRITE_ZEROES => (Part::Whole, whole(Op::WriteZeroes)?),
        opcode::VERIFY => (Part::Verify, whole(Op::Read)?),
        opcode::COMPARE => {
            let wanted = whole(Op::Read)?;
            let copy = queue.transfers.copy(data);
            queue.comparisons.insert(command.id(), copy);
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
pub fn flush(queue: &mut Queue, id: u16, part: Part, drive: &mut dyn Drive) {
    let wanted = Wanted {
        op: Op::Flush,
        offset_bytes: 0,
        length_bytes: 0,
        fua: false,
    };
    queue.submit(id, part, wanted, &[], drive);
}

fn check_namespace(command: &Submission) -> Result<(), Status> {
    if command.namespace() == NAMESPACE {
        Ok(())
    } else {
        Err(status::INVALID_NAMESPACE)
    }
}

/// Where a command's blocks lie: first byte and number of bytes.
fn extent(command: &Submission, facts: &Facts) -> Result<(u64, u64), Status> {
    check_namespace(command)?;
    let blocks = u64::from(command.word(12) & 0xffff) + 1;
    let place = placed(command.double_word(10), blocks, facts)?;
    // Write Zeroes carries no data, and no limit is its (fields MDTS and VSL).
    if command.opcode() != opcode::WRITE_ZEROES && place.1 > MAX_TRANSFER_BYTES as u64 {
        return Err(status::INVALID_FIELD);
    }
    Ok(place)
}

fn placed(first: u64, blocks: u64, facts: &Facts) -> Result<(u64, u64), Status> {
    let block = u64::from(facts.block_bytes.max(1));
    let end = first.checked_add(blocks).ok_or(status::LBA_OUT_OF_RANGE)?;
    if end > facts.size_bytes / block {
        return Err(status::LBA_OUT_OF_RANGE);
    }
    Ok((first * block, blocks * block))
}

/// Every range becomes a command of its own; they are completed together.
fn deallocate(
    queue: &mut Queue,
    command: &Submission,
    data: &[u8],
    durable: bool,
    drive: &mut dyn Drive,
) -> Result<Outcome, Status> {
    check_namespace(command)?;
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
    queue.ranges.insert(
        command.id(),
        Ranges {
            left: places.len(),
            status: status::SUCCESS,
        },
    );
    for (offset_bytes, length_bytes) in places {
        let wanted = Wanted {
            op: Op::Trim,
            offset_bytes,
            length_bytes,
            fua: durable,
        };
        queue.submit(command.id(), Part::Range, wanted, &[], drive);
    }
    Ok(Outcome::Later)
}

/// The drive answered: how the command ended, if it did; an error is its status.
pub fn answer(
    queue: &mut Queue,
    answer: &Answer,
    link: &Link,
    out: &mut Output,
    drive: &dyn Drive,
) -> Option<Status> {
    let (id, part) = queue.answered(answer);
    let mut ended = status_of(answer.status, answer.command.op);
    let content = || drive.content(answer.command.offset_bytes, answer.command.length_bytes);
    match part {
        Part::Whole if answer.command.op == Op::Read && ended == status::SUCCESS => {
            let wanted = (answer.command.offset_bytes, answer.command.length_bytes);
            queue.give_content(id, wanted, link, out, drive);
            return None;
        }
        Part::Range => {
            let ranges = queue.ranges.get_mut(&id)?;
            ranges.left = ranges.left.saturating_sub(1);
            if ranges.status == status::SUCCESS {
                ranges.status = ended;
            }
            if ranges.left > 0 {
                return None;
            }
            ended = ranges.status;
            queue.ranges.remove(&id);
        }
        Part::Compare => {
            let compared = queue.comparisons.remove(&id)?;
            if ended == status::SUCCESS && compared.data != content() {
                ended = status::COMPARE_FAILURE;
            }
            queue.transfers.forget(&compared);
        }
        Part::Whole | Part::Verify | Part::Shutdown => {}
    }
    queue.complete(id, ended, 0, link, &mut out.bytes);
    (ended != status::SUCCESS).then_some(ended)
}

fn status_of(ended: Ended, op: Op) -> Status {
    match ended {
        Ended::Done => status::SUCCESS,
        Ended::OutOfRange => status::LBA_OUT_OF_RANGE,
        Ended::ReadOnly => status::WRITE_PROTECTED,
        Ended::NoSpace => status::CAPACITY_EXCEEDED,
        Ended::PowerLost => status::POWER_LOST,
        Ended::Aborted => status::ABORT_REQUESTED,
        Ended::Failed => match op {
            Op::Read => status::READ_ERROR,
            Op::Write | Op::WriteZeroes => status::WRITE_FAULT,
            Op::Flush | Op::Trim => status::INTERNAL_ERROR,
        },
    }
}
