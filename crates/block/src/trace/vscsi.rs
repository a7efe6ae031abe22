//! Binary traces of virtual disks, as `VMware`'s `vscsiStats` writes them (the `CloudPhysics` traces).
//!
//! Records of one length, little-endian. Version 1 has 32 bytes: serial number (4), length in bytes
//! (4), scatter-gather elements (4), command (2), version (2), first sector (8), microseconds (8).
//! Version 2 has 40: command (2), version (2), serial number (4), length (4), elements (4), first
//! sector (8), microseconds (8), response time (8). The version's high byte is its number; all
//! records have the first one's. Kept are time, command, range. Written is version 1.

use std::io::Read;

use super::fields::{SECTOR_BYTES, sectors};
use super::format::{ALL_KINDS, Form, Format};
use super::gate::Gate;
use super::lines::read_some;
use super::scsi;
use super::sink::{Encoder, EncodingSink};
use super::sniff::{Misfit, SNIFF_BYTES};
use super::{BadLines, ReadOptions};
use crate::{BATCH, Error, Fault, Request, Source};

pub(super) const FORMAT: Format = Format {
    name: "vscsi",
    about: "binary traces of VMware's virtual disks, such as CloudPhysics'",
    endings: &[".vscsi"],
    form: Form::Binary,
    columns: "serial, length in bytes, elements, SCSI command, version, first sector, microseconds",
    resolution_ns: 1_000,
    offset_grain_bytes: SECTOR_BYTES,
    length_grain_bytes: 1,
    devices_up_to: 0,
    kinds: ALL_KINDS,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(Records::new(format, input, options))),
    writer: |format, output, options| {
        let encoder = Version1 { serial: 0 };
        Ok(EncodingSink::boxed(format, output, options, "", encoder))
    },
    probe,
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
        let kind = scsi::kind(u64::from(u16::from_le_bytes(part(record, self.command))))?;
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
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where in the trace `start` is.
    position: u64,
    layout: Option<Layout>,
    gate: Gate,
    bad_records_left: u64,
    pending: Option<Error>,
    over: bool,
}

impl<R: Read> Records<R> {
    fn new(format: &'static Format, input: R, options: &ReadOptions) -> Self {
        Self {
            format,
            input,
            buffer: vec![0; 256 * 1024],
            start: 0,
            end: 0,
            position: 0,
            layout: None,
            gate: Gate::new(options),
            bad_records_left: match options.bad_lines {
                BadLines::Refuse => 0,
                BadLines::SkipAtMost(records) => records,
            },
            pending: None,
            over: false,
        }
    }

    /// Whether so many bytes are there, after reading on.
    fn has(&mut self, bytes: usize) -> Result<bool, Error> {
        while self.end - self.start < bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            match read_some(&mut self.input, &mut self.buffer[self.end..])? {
                0 => return Ok(false),
                read => self.end += read,
            }
        }
        Ok(true)
    }

    fn layout(&mut self) -> Result<Option<Layout>, Error> {
        if self.layout.is_none() && self.has(SHORTEST)? {
            let record = &self.buffer[self.start..self.end];
            self.layout = Some(Layout::of(record).map_err(|fault| fault.at_byte(0))?);
        }
        Ok(self.layout)
    }

    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let layout = self.layout()?;
        let bytes = layout.map_or(SHORTEST, |layout| layout.bytes);
        while batch.len() < BATCH {
            let (true, Some(layout)) = (self.has(bytes)?, layout) else {
                return self.ended(bytes);
            };
            let record = &self.buffer[self.start..self.start + bytes];
            let admitted =
                layout.request(record).and_then(|request| Ok(self.gate.admits(&request)?.then_some(request)));
            match admitted {
                Ok(request) => batch.extend(request),
                Err(_) if self.bad_records_left > 0 => self.bad_records_left -= 1,
                Err(fault) => return Err(fault.at_byte(self.position)),
            }
            self.start += bytes;
            self.position += bytes as u64;
        }
        Ok(())
    }

    fn ended(&mut self, bytes: usize) -> Result<(), Error> {
        self.over = true;
        let seen = self.end - self.start;
        if seen > 0 {
            let wanted = bytes;
            return Err(Fault::Truncated { seen, wanted }.at_byte(self.position));
        }
        if self.gate.given == 0 {
            return Err(Error::Nothing { format: self.format.name, seen: format!("{} bytes", self.position) });
        }
        Ok(())
    }
}

impl<R: Read> Source for Records<R> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        if self.over {
            return Ok(());
        }
        if let Err(error) = self.fill(batch) {
            self.over = true;
            if batch.is_empty() {
                return Err(error);
            }
            self.pending = Some(error);
        }
        Ok(())
    }
}

fn probe(format: &'static Format, head: &[u8]) -> Result<u64, Misfit> {
    let cut = head.len() >= SNIFF_BYTES && head.len() >= SHORTEST;
    let whole = match Layout::of(if head.len() < SHORTEST { &[0; SHORTEST] } else { head }) {
        Ok(layout) if cut => head.len() / layout.bytes * layout.bytes,
        _ => head.len(),
    };
    let mut records = Records::new(format, &head[..whole], &ReadOptions::default());
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        match records.next_batch(&mut batch) {
            Err(error) => return Err((records.gate.given, error)),
            Ok(()) if batch.is_empty() => return Ok(records.gate.given),
            Ok(()) => {}
        }
    }
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
