//! Binary traces of virtual disks, as `VMware`'s `vscsiStats` writes them (the `CloudPhysics` traces).
//!
//! Records of one length, little-endian. Version 1 has 32 bytes: serial number (4), length in bytes
//! (4), scatter-gather elements (4), command (2), version (2), first sector (8), microseconds (8).
//! Version 2 has 40: command (2), version (2), serial number (4), length (4), elements (4), first
//! sector (8), microseconds (8), response time (8). The version's high byte is its number; all
//! records have the first one's. Kept are time, command, range. Written is version 1.

use std::io::Read;

use super::ReadOptions;
use super::fields::{SECTOR_BYTES, sectors};
use super::format::SECTORS;
use super::format::{ALL_KINDS, Form, Format};
use super::gate::{Fill, Gate, Head, Misfit, Probed, Reader, SNIFF_BYTES};
use super::lines::Buffered;
use super::scsi;
use super::sink::{Encoder, EncodingSink};
use crate::{BATCH, Error, Fault, Request};

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
    reader: |format, input, options| Ok(Box::new(Reader::new(Records::new(format, input, options)))),
    writer: |format, output, options| EncodingSink::boxed(format, output, options, "", Version1 { serial: 0 }),
    probe,
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
        u16::from_le_bytes(part(record, self.version))
    }

    fn request(&self, record: &[u8]) -> Result<Request, Fault> {
        if self.version_of(record) != u16::from(self.number) << 8 {
            return Err(Fault::form(record, "a record of the version of the first one"));
        }
        let kind = scsi::kind(u32::from(u16::from_le_bytes(part(record, self.command))))?;
        let micros = u64::from_le_bytes(part(record, self.time));
        let at_ns = micros.checked_mul(1_000).ok_or_else(|| {
            let limit = "times must be below 2^64 ns (584 years)";
            Fault::overflow("timestamp", micros.to_string().as_bytes(), limit)
        })?;
        let mut request = Request { at_ns, kind, ..Request::default() };
        if kind != crate::Kind::Flush {
            request.offset_bytes = sectors("first sector", u64::from_le_bytes(part(record, self.sector)))?;
            request.length_bytes = u64::from(u32::from_le_bytes(part(record, self.length)));
        }
        Ok(request)
    }
}

fn part<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

struct Records<R> {
    format: &'static Format,
    input: Buffered<R>,
    /// Where in the trace the next record is.
    position: u64,
    layout: Option<Layout>,
    gate: Gate,
}

impl<R: Read> Records<R> {
    fn new(format: &'static Format, input: R, options: &ReadOptions) -> Self {
        Self { format, input: Buffered::new(input), position: 0, layout: None, gate: Gate::new(options) }
    }

    fn layout(&mut self) -> Result<Option<Layout>, Error> {
        if self.layout.is_none() && self.input.has(SHORTEST)? {
            self.layout = Some(Layout::of(self.input.bytes()).map_err(|fault| fault.at_byte(0))?);
        }
        Ok(self.layout)
    }

    /// The end, which must not be within a record.
    fn end(&self, wanted: usize) -> Result<bool, Error> {
        match self.input.bytes().len() {
            0 => self.gate.end(self.format, format!("{} bytes", self.position)).map(|()| true),
            seen => Err(Fault::Truncated { seen, wanted }.at_byte(self.position)),
        }
    }
}

impl<R: Read> Fill for Records<R> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<bool, Error> {
        let layout = self.layout()?;
        let bytes = layout.map_or(SHORTEST, |layout| layout.bytes);
        while batch.len() < BATCH {
            let (true, Some(layout)) = (self.input.has(bytes)?, layout) else {
                return self.end(bytes);
            };
            let request = layout.request(self.input.take(bytes));
            match request.and_then(|request| Ok(self.gate.admits(&request)?.then_some(request))) {
                Ok(request) => batch.extend(request),
                Err(fault) if !self.gate.forgives() => return Err(fault.at_byte(self.position)),
                Err(_) => {}
            }
            self.position += bytes as u64;
        }
        Ok(false)
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }
}

fn probe(format: &'static Format, probed: Head<'_>) -> Result<Probed, Misfit> {
    let head = probed.bytes;
    let cut = head.len() >= SNIFF_BYTES && head.len() >= SHORTEST;
    let whole = match Layout::of(if head.len() < SHORTEST { &[0; SHORTEST] } else { head }) {
        Ok(layout) if cut => head.len() / layout.bytes * layout.bytes,
        _ => head.len(),
    };
    Reader::new(Records::new(format, &head[..whole], probed.options)).probe()
}

struct Version1 {
    serial: u32,
}

impl Encoder for Version1 {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Ok(length) = u32::try_from(request.length_bytes) else {
            return Err(Fault::Inexpressible {
                format: FORMAT.name,
                what: format!("a length of {} bytes, only below 2^32", request.length_bytes),
            });
        };
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
