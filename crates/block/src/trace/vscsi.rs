//! Binary traces of virtual disks, as `VMware`'s `vscsiStats` writes them (the `CloudPhysics` traces).
//!
//! Records of one length, little-endian. Version 1 has 32 bytes: serial number (4), length in bytes
//! (4), scatter-gather elements (4), command (2), version (2), first sector (8), microseconds (8).
//! Version 2 has 40: command (2), version (2), serial number (4), length (4), elements (4), first
//! sector (8), microseconds (8), response time (8). The version's high byte is its number; all
//! records have the first one's. Kept are time, command, range. Written is version 1.

use super::fields::{SECTOR_BYTES, sectors, ticks};
use super::format::{ALL_KINDS, Form, Format, SECTORS};
use super::records::{self, RecordParser, length, little};
use super::scsi;
use super::sink::{Encoder, EncodingSink};
use crate::{Fault, Request};

pub(super) const FORMAT: Format = Format {
    name: "vscsi",
    about: "binary traces of VMware's virtual disks, such as CloudPhysics'",
    endings: &[".vscsi"],
    form: Form::Binary,
    columns: "serial, length in bytes, elements, SCSI command, version, first sector, microseconds",
    resolution_ns: 1_000,
    length_grain_bytes: 1,
    devices_up_to: 0,
    kinds: ALL_KINDS,
    reader: |format, input, options| Ok(records::source(format, input, Parser { layout: None }, options)),
    writer: Some(|format, output, options| EncodingSink::boxed(format, output, options, "", Version1 { serial: 0 })),
    probe: |format, head| records::probe(format, head, Parser { layout: None }),
    ..SECTORS
};

/// Where the parts of a record lie.
#[derive(Clone, Copy)]
struct Layout {
    bytes: usize,
    length: usize,
    command: usize,
    version: usize,
    sector: usize,
    time: usize,
    number: u8,
}

const LAYOUTS: [Layout; 2] = [
    Layout { bytes: 32, length: 4, command: 12, version: 14, sector: 16, time: 24, number: 1 },
    Layout { bytes: 40, length: 8, command: 0, version: 2, sector: 16, time: 24, number: 2 },
];

/// Shortest record: as much is needed to tell the version.
const SHORTEST: usize = 32;

impl Layout {
    /// The layout whose version number stands where it has it.
    fn of(record: &[u8]) -> Result<Self, Fault> {
        let fits = |layout: &&Self| layout.version_of(record) == u16::from(layout.number) << 8;
        let mut fitting = LAYOUTS.iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(layout), None) => Ok(*layout),
            _ => Err(Fault::form(
                &record[..SHORTEST],
                "a record of version 1 or 2 (version 0x0100 at byte 14 or 0x0200 at byte 2)",
            )),
        }
    }

    fn version_of(&self, record: &[u8]) -> u16 {
        little::<2>(record, self.version) as u16
    }

    fn request(&self, record: &[u8]) -> Result<Request, Fault> {
        if self.version_of(record) != u16::from(self.number) << 8 {
            return Err(Fault::form(record, "a record of the version of the first one"));
        }
        let kind = scsi::kind(little::<2>(record, self.command) as u32)?;
        let at_ns = ticks("timestamp", little::<8>(record, self.time), 1_000)?;
        let mut request = Request { at_ns, kind, ..Request::default() };
        if kind != crate::Kind::Flush {
            request.offset_bytes = sectors("first sector", little::<8>(record, self.sector))?;
            request.length_bytes = little::<4>(record, self.length);
        }
        Ok(request)
    }
}

struct Parser {
    layout: Option<Layout>,
}

impl RecordParser for Parser {
    const HEAD_BYTES: usize = SHORTEST;

    #[inline(always)]
    fn bytes(&mut self, head: &[u8]) -> Result<usize, Fault> {
        if self.layout.is_none() {
            self.layout = Some(Layout::of(head)?);
        }
        Ok(self.layout.map_or(SHORTEST, |layout| layout.bytes))
    }

    #[inline(always)]
    fn request(&mut self, record: &[u8]) -> Result<Option<Request>, Fault> {
        self.layout.map(|layout| layout.request(record)).transpose()
    }
}

struct Version1 {
    serial: u32,
}

impl Encoder for Version1 {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        let length = length(FORMAT.name, request)?;
        self.serial = self.serial.wrapping_add(1);
        out.extend_from_slice(&self.serial.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&1_u32.to_le_bytes());
        out.extend_from_slice(&scsi::command(request.kind).to_le_bytes());
        out.extend_from_slice(&0x0100_u16.to_le_bytes());
        out.extend_from_slice(&(request.offset_bytes / SECTOR_BYTES).to_le_bytes());
        out.extend_from_slice(&(request.at_ns / 1_000).to_le_bytes());
        Ok(())
    }
}
