//! Commands of I/O queues: what they ask of the drive (NVM Command Set Specification 1.0, section 3.2). Those that a zoned
//! namespace has of its own are in `zones`; what becomes of a command later is in `command_table`.

use super::command_table::{CommandTable, Request};
use super::entry::{Outcome, Submission, placed};
use super::opcode::io as opcode;
use super::status::{self, Status};
use super::{EVERY_NAMESPACE, MAX_SOURCES, MAX_TRANSFER_BYTES, u16_at, u32_at, u64_at, zones};
use crate::command::{Drive, DriveInfo, Op};
use crate::namespace::NamespaceDrive;

/// Bytes of one range of a Dataset Management command.
const RANGE_BYTES: usize = 16;

/// Bytes of one source range of a Copy command (format 0).
const SOURCE_BYTES: usize = 32;

const FORCE_UNIT_ACCESS: u32 = 1 << 30;
const DEALLOCATE: u32 = 1 << 25;

/// How long a command's data have to be, before they are waited for.
pub fn data_bytes(command: &Submission, drive: &dyn Drive) -> Result<usize, Status> {
    let facts =
        || drive.namespace(command.namespace()).map(|namespace| namespace.facts).ok_or(status::INVALID_NAMESPACE);
    match command.opcode() {
        opcode::WRITE | opcode::COMPARE | opcode::ZONE_APPEND => Ok(extent(command, facts()?)?.1 as usize),
        opcode::DATASET_MANAGEMENT => facts().map(|_| ((command.word(10) as usize & 0xff) + 1) * RANGE_BYTES),
        opcode::COPY => facts().map(|_| ((command.word(12) as usize & 0xff) + 1) * SOURCE_BYTES),
        opcode::ZONE_MANAGEMENT_SEND => Ok(0),
        _ => Err(status::INVALID_OPCODE),
    }
}

/// A command that begins.
pub struct Io<'a> {
    pub table: &'a mut CommandTable,
    pub command: &'a Submission,
    pub data: &'a [u8],
    /// Every write is durable: the host turned the write cache off.
    pub durable: bool,
}

impl Io<'_> {
    pub fn begin(mut self, drive: &mut dyn Drive) -> Result<Outcome, Status> {
        let command = self.command;
        if command.is_fused() {
            return Err(status::INVALID_FIELD);
        }
        let (code, is_zoned) = (command.opcode(), drive.zones().is_some());
        if code == opcode::FLUSH && command.namespace() == EVERY_NAMESPACE {
            self.submit(Request::FLUSH, &[], drive);
            return Ok(Outcome::Later);
        }
        if !(opcode::ALL.contains(&code) || is_zoned && opcode::ZONED.contains(&code)) {
            return Err(status::INVALID_OPCODE);
        }
        // From here on no address lies beyond the namespace.
        let drive = NamespaceDrive::new(drive, command.namespace());
        let drive = &mut drive.ok_or(status::INVALID_NAMESPACE)?;
        let facts = drive.facts();
        let whole = |op| -> Result<Request, Status> {
            let (offset_bytes, length_bytes) = extent(command, facts)?;
            Ok(Request { op, offset_bytes, length_bytes, fua: op != Op::Read && self.is_durable() })
        };
        let request = match code {
            opcode::FLUSH => Request::FLUSH,
            opcode::READ => {
                let request = whole(Op::Read)?;
                command.check_room(request.length_bytes)?;
                request
            }
            opcode::WRITE => whole(Op::Write)?,
            // Zeroes that are deallocated do not move a write pointer.
            opcode::WRITE_ZEROES if command.word(12) & DEALLOCATE != 0 && !is_zoned => whole(Op::Trim)?,
            opcode::WRITE_ZEROES => whole(Op::WriteZeroes)?,
            opcode::VERIFY | opcode::COMPARE => whole(Op::Read)?,
            opcode::DATASET_MANAGEMENT => return self.deallocate(drive),
            opcode::COPY => return self.copy(drive),
            opcode::ZONE_APPEND => zones::place(command, whole(Op::Write)?, drive)?,
            opcode::ZONE_MANAGEMENT_SEND => zones::action(command, drive)?,
            _ => return zones::report(command, drive),
        };
        if !matches!(request.op, Op::Read | Op::Flush) && facts.read_only {
            return Err(status::WRITE_PROTECTED);
        }
        let data = if request.op == Op::Write { self.data } else { &[] };
        self.submit(request, data, drive);
        Ok(Outcome::Later)
    }

    fn is_durable(&self) -> bool {
        self.durable || self.command.word(12) & FORCE_UNIT_ACCESS != 0
    }

    fn submit(&mut self, request: Request, data: &[u8], drive: &mut dyn Drive) {
        self.table.submit(self.command.id(), request, data, drive);
    }

    /// Every range becomes a request of its own.
    fn deallocate(&mut self, drive: &mut dyn Drive) -> Result<Outcome, Status> {
        if self.command.word(11) & 4 == 0 {
            return Ok(Outcome::Done(0)); // hints alone, which may be ignored
        }
        if drive.facts().read_only {
            return Err(status::WRITE_PROTECTED);
        }
        let ranges = (self.command.word(10) as usize & 0xff) + 1;
        let ranges = self.data.chunks_exact(RANGE_BYTES).take(ranges);
        let places = ranges.map(|range| placed(u64_at(range, 8), u32_at(range, 4).into(), drive.facts()));
        let mut places = places.collect::<Result<Vec<_>, Status>>()?;
        places.retain(|&(_, length_bytes)| length_bytes > 0);
        if places.is_empty() {
            return Ok(Outcome::Done(0));
        }
        for (offset_bytes, length_bytes) in places {
            let request = Request { op: Op::Trim, offset_bytes, length_bytes, fua: self.durable };
            self.submit(request, &[], drive);
        }
        Ok(Outcome::Later)
    }

    /// Copy of source ranges (section 3.2.2), which may overlap each other and the destination: what is written is what
    /// they had before. The drive reads them and writes at the same time, as one that copies page by page; a Copy that
    /// fails may have written.
    fn copy(&mut self, drive: &mut dyn Drive) -> Result<Outcome, Status> {
        let (word, facts) = (self.command.word(12), drive.facts());
        let (sources, format) = ((word & 0xff) + 1, (word >> 8) & 0xf);
        if format != 0 {
            return Err(status::INVALID_FIELD);
        }
        if facts.read_only {
            return Err(status::WRITE_PROTECTED);
        }
        let sources = self.data.chunks_exact(SOURCE_BYTES).take(sources as usize);
        let sources = sources.map(|source| (u64_at(source, 8), u64::from(u16_at(source, 16)) + 1));
        let blocks: u64 = sources.clone().map(|(_, blocks)| blocks).sum();
        if sources.len() > MAX_SOURCES as usize || blocks * u64::from(facts.block_bytes) > MAX_TRANSFER_BYTES as u64 {
            return Err(status::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        let (offset_bytes, length_bytes) = placed(self.command.double_word(10), blocks, facts)?;
        let sources = sources.map(|(first, blocks)| placed(first, blocks, facts));
        let sources = sources.collect::<Result<Vec<_>, Status>>()?;
        let mut content = Vec::with_capacity(length_bytes as usize);
        for &(offset_bytes, length_bytes) in &sources {
            drive.load(offset_bytes, length_bytes).map_err(|error| status::of_answer(error, Op::Read))?;
            content.extend_from_slice(drive.content(offset_bytes, length_bytes));
        }
        for (offset_bytes, length_bytes) in sources {
            self.submit(Request { op: Op::Read, offset_bytes, length_bytes, fua: false }, &[], drive);
        }
        let request = Request { op: Op::Write, offset_bytes, length_bytes, fua: self.is_durable() };
        self.submit(request, &content, drive);
        Ok(Outcome::Later)
    }
}

/// Where a command's blocks lie within its namespace: first byte and number of bytes.
fn extent(command: &Submission, facts: &DriveInfo) -> Result<(u64, u64), Status> {
    let blocks = u64::from(command.word(12) & 0xffff) + 1;
    let place = placed(command.double_word(10), blocks, facts)?;
    // Write Zeroes carries no data, and no limit is its (fields MDTS and VSL).
    if command.opcode() != opcode::WRITE_ZEROES && place.1 > MAX_TRANSFER_BYTES as u64 {
        return Err(status::INVALID_FIELD);
    }
    Ok(place)
}
