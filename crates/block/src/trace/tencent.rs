//! Block traces of Tencent's cloud (2018), in the SNIA's repository.
//!
//! Seconds, first sector, sectors, 0 (read) or 1 (write), volume, divided by commas, no header.
//! Many requests share a second: what happens within one is not known.

use super::decimal::Unit;
use super::fields::{Commas, SECTOR_BYTES, device, sector_request};
use super::format::{Form, Format, READ_WRITE};
use super::sink::{Encoder, EncodingSink, joined};
use super::text::{LineParser, TextSource, probe};
use crate::{Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "tencent",
    about: "block traces of Tencent's cloud",
    endings: &[],
    form: Form::Text,
    columns: "seconds, first sector, sectors, 0 (read) or 1 (write), volume",
    resolution_ns: 1_000_000_000,
    offset_grain_bytes: SECTOR_BYTES,
    length_grain_bytes: SECTOR_BYTES,
    devices_up_to: u32::MAX,
    kinds: READ_WRITE,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(TextSource::new(format, input, Parser, options))),
    writer: |format, output, options| Ok(EncodingSink::boxed(format, output, options, "", Lines)),
    probe: |format, head| probe(format, head, Parser),
};

const COLUMNS: &str = "5: timestamp, first sector, sectors, type, volume";

struct Parser;

impl LineParser for Parser {
    #[inline(always)]
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        let mut fields = Commas::new(line);
        let at_ns = fields.whole_time("timestamp", Unit::Seconds)?;
        let first = fields.whole("first sector")?;
        let count = fields.whole("sectors")?;
        let kind = match fields.text("type")? {
            b"0" => Kind::Read,
            b"1" => Kind::Write,
            other => return Err(Fault::field("type", other, "0 (read) or 1 (write)")),
        };
        let device = device("volume", fields.whole("volume")?)?;
        fields.end(COLUMNS)?;
        sector_request(at_ns, device, first, count, kind).map(Some)
    }
}

struct Lines;

impl Encoder for Lines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        let numbers = [
            request.at_ns / 1_000_000_000,
            request.offset_bytes / SECTOR_BYTES,
            request.length_bytes / SECTOR_BYTES,
            u64::from(request.kind == Kind::Write),
            u64::from(request.device),
        ];
        joined(out, b',', &numbers);
        out.push(b'\n');
        Ok(())
    }
}
