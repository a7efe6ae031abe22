//! `DiskSim`'s ascii traces: one request a line, five columns divided by white space.
//!
//! Arrival in milliseconds, device, first sector, sectors, flags (hexadecimal, as `DiskSim` reads
//! them; bit 0 set is a read). Only bit 0 is kept. Devices are numbers; trims and flushes are not
//! known to it. Layout: `iotrace_ascii_get_ioreq_event` of `DiskSim` 4.0.

use super::decimal::Unit;
use super::fields::{SECTOR_BYTES, Spaces, device, sector_request};
use super::format::{Form, Format, READ_WRITE};
use super::sink::{Encoder, EncodingSink, decimal, whole};
use super::text::{LineParser, TextSource, probe};
use crate::{Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "disksim",
    about: "DiskSim's ascii traces",
    endings: &[".disksim", ".dis", ".ascii"],
    form: Form::Text,
    columns: "arrival ms, device, first sector, sectors, flags (bit 0: 1 = read)",
    resolution_ns: 1,
    offset_grain_bytes: SECTOR_BYTES,
    length_grain_bytes: SECTOR_BYTES,
    devices_up_to: u32::MAX,
    kinds: READ_WRITE,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(TextSource::new(format, input, Parser { strict: false }, options))),
    writer: |format, output, options| Ok(EncodingSink::boxed(format, output, options, "", Lines)),
    probe: |format, head| probe(format, head, Parser { strict: true }),
};

const COLUMNS: &str = "5: arrival (ms), device, first sector, sectors, flags";

struct Parser {
    /// Times must have a decimal point, which tells the format from those that count nanoseconds.
    strict: bool,
}

impl LineParser for Parser {
    #[inline(always)]
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        let mut fields = Spaces::new(line);
        let start = fields.remaining();
        let at_ns = fields.time("arrival", Unit::Milliseconds)?;
        if self.strict {
            with_point(start, fields.remaining())?;
        }
        let device = device("device", fields.whole("device")?)?;
        let first = fields.whole("first sector")?;
        let count = fields.whole("sectors")?;
        let kind = if hexadecimal(fields.text("flags")?)? & 1 == 1 { Kind::Read } else { Kind::Write };
        fields.end(COLUMNS)?;
        sector_request(at_ns, device, first, count, kind).map(Some)
    }
}

fn with_point(before: &[u8], after: &[u8]) -> Result<(), Fault> {
    let time = &before[..before.len() - after.len()];
    if time.contains(&b'.') {
        return Ok(());
    }
    let wanted = "milliseconds with a decimal point (without one they could be nanoseconds)";
    Err(Fault::field("arrival", time.trim_ascii(), wanted))
}

#[inline(always)]
fn hexadecimal(field: &[u8]) -> Result<u32, Fault> {
    if let [digit @ (b'0' | b'1')] = field {
        return Ok(u32::from(digit - b'0'));
    }
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| all_digits)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or_else(|| Fault::field("flags", field, "a hexadecimal number below 2^32"))
}

struct Lines;

impl Encoder for Lines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        decimal(out, request.at_ns, 6);
        for number in [
            u64::from(request.device),
            request.offset_bytes / SECTOR_BYTES,
            request.length_bytes / SECTOR_BYTES,
            u64::from(request.kind == Kind::Read),
        ] {
            out.push(b' ');
            whole(out, number);
        }
        out.push(b'\n');
        Ok(())
    }
}
