//! What Linux' `blktrace` records: a file for each processor, with a record for each event.
//!
//! A record is `struct blk_io_trace` of version 7 (48 bytes) or `struct blk_io_trace2` of version 8 (64 bytes), in the
//! byte order of the machine, and then so many bytes as it says (`linux/blktrace_api.h`). Which events are requests is
//! as in [`blkparse`](super::blkparse), so that blkparse's text of a trace gives the same, apart from times: they count
//! from the boot here, and from the first event there. Written is version 7, little-endian, with queueing alone.

use super::BlkEvent;
use super::blkparse::Events;
use super::fields::{SECTOR_BYTES, device, sectors};
use super::format::{ALL_KINDS, Form, Format, SECTORS};
use super::records::{self, RecordParser, big, length, little};
use super::sink::{Encoder, EncodingSink};
use crate::{Error, Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "blktrace",
    about: "binary traces of Linux' blktrace, all processors' files",
    endings: &[".blktrace", ".blktrace.0"],
    form: Form::Binary,
    columns: "magic, number, nanoseconds, first sector, bytes, action, process, device, processor, error, extra bytes",
    length_grain_bytes: 1,
    kinds: ALL_KINDS,
    by_processor: true,
    reader: |format, input, options| Ok(records::source(format, input, Parser::new(Some(options.event)), options)),
    writer: Some(|format, output, options| EncodingSink::boxed(format, output, options, "", Version7 { number: 0 })),
    probe: |format, head| records::probe(format, head, Parser::new(None)),
    ..SECTORS
};

/// Where the parts of a record lie that the versions have at different places.
struct Layout {
    version: u64,
    bytes: usize,
    action: usize,
    device: usize,
    extra: usize,
}

const LAYOUTS: [Layout; 2] = [
    Layout { version: 7, bytes: 48, action: 28, device: 36, extra: 46 },
    Layout { version: 8, bytes: 64, action: 32, device: 40, extra: 50 },
];

const MAGIC: u64 = 0x6561_7400;
const TIME: usize = 8;
const SECTOR: usize = 16;
const LENGTH: usize = 24;

/// The action without the flag that a cgroup's number follows.
const ACTION_MASK: u64 = 0xfeff;
const QUEUED: u64 = 1;
const ISSUED: u64 = 7;
const COMPLETED: u64 = 8;

/// Bits of the category of an event (`enum blktrace_cat`).
const READ: u64 = 1 << 16;
const WRITE: u64 = 1 << 17;
const FLUSH: u64 = 1 << 18;
const QUEUE: u64 = 1 << 20;
const PACKET: u64 = 1 << 25;
const NOTIFY: u64 = 1 << 26;
const DISCARD: u64 = 1 << 29;

struct Parser {
    events: Events,
    is_big: bool,
    layout: &'static Layout,
}

impl Parser {
    fn new(event: Option<BlkEvent>) -> Self {
        Self { events: Events::new(event), is_big: false, layout: &LAYOUTS[0] }
    }

    #[inline(always)]
    fn number<const N: usize>(&self, record: &[u8], at: usize) -> u64 {
        if self.is_big { big::<N>(record, at) } else { little::<N>(record, at) }
    }
}

impl RecordParser for Parser {
    const HEAD_BYTES: usize = 48;

    #[inline(always)]
    fn bytes(&mut self, head: &[u8]) -> Result<usize, Fault> {
        self.is_big = head[0] == (MAGIC >> 24) as u8;
        let magic = self.number::<4>(head, 0);
        let layout = LAYOUTS.iter().find(|layout| magic == MAGIC | layout.version);
        let wanted = "a record of blktrace's version 7 or 8 (0x65617407 or 0x65617408)";
        self.layout = layout.ok_or_else(|| Fault::form(&head[..4], wanted))?;
        // The extra bytes' number of version 8 stands behind the head of version 7.
        let extra = head.get(self.layout.extra..self.layout.extra + 2);
        Ok(self.layout.bytes + extra.map_or(0, |extra| self.number::<2>(extra, 0) as usize))
    }

    #[inline(always)]
    fn request(&mut self, record: &[u8]) -> Result<Option<Request>, Fault> {
        // The upper half of version 8's action has categories of zoned drives alone.
        let action = self.number::<4>(record, self.layout.action + if self.is_big { self.upper() } else { 0 });
        let event = match action & ACTION_MASK {
            QUEUED => BlkEvent::Queued,
            ISSUED => BlkEvent::Issued,
            COMPLETED => BlkEvent::Completed,
            _ => return Ok(None),
        };
        if action & (NOTIFY | PACKET) != 0 || !self.events.take(event) {
            return Ok(None);
        }
        let length_bytes = self.number::<4>(record, LENGTH);
        let kind = match (length_bytes, action) {
            (0, action) if action & FLUSH != 0 => Kind::Flush,
            (0, _) => return Ok(None),
            (_, action) if action & DISCARD != 0 => Kind::Trim,
            (_, action) if action & WRITE != 0 => Kind::Write,
            _ => Kind::Read,
        };
        let first = if kind == Kind::Flush { 0 } else { self.number::<8>(record, SECTOR) };
        Ok(Some(Request {
            at_ns: self.number::<8>(record, TIME),
            offset_bytes: sectors("first sector", first)?,
            length_bytes,
            device: device("device", self.number::<4>(record, self.layout.device))?,
            kind,
        }))
    }

    fn nothing(&self) -> Option<Error> {
        self.events.nothing()
    }
}

impl Parser {
    /// How far into a big-endian action its lower four bytes stand.
    fn upper(&self) -> usize {
        if self.layout.version == 8 { 4 } else { 0 }
    }
}

struct Version7 {
    number: u32,
}

impl Encoder for Version7 {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        let length = length(FORMAT.name, request)?;
        self.number = self.number.wrapping_add(1);
        let category = match request.kind {
            Kind::Read => READ,
            Kind::Write => WRITE,
            Kind::Trim => WRITE | DISCARD,
            Kind::Flush => WRITE | FLUSH,
        };
        out.extend_from_slice(&(MAGIC as u32 | 7).to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&request.at_ns.to_le_bytes());
        out.extend_from_slice(&(request.offset_bytes / SECTOR_BYTES).to_le_bytes());
        let (action, process, processor, error_and_extra) = ((QUEUED | QUEUE | category) as u32, 0, 0, 0);
        for number in [length, action, process, request.device, processor, error_and_extra] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }
}
