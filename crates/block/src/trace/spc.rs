//! Traces of the Storage Performance Council's form: Financial1, `WebSearch1` and their like.
//!
//! ASU (application storage unit), address in sectors, size in bytes, opcode, seconds, divided by
//! commas. The specification allows further fields behind these; they are passed over. Layout:
//! SPC Trace File Format Specification, revision 1.0.1.

use super::decimal::Unit;
use super::fields::{Commas, SECTOR_BYTES, device, sectors};
use super::format::{Form, Format, READ_WRITE};
use super::sink::{Encoder, EncodingSink, decimal, joined};
use super::text::{LineParser, TextSource, probe};
use crate::{Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "spc",
    about: "SPC traces such as Financial1 and WebSearch1",
    endings: &[".spc"],
    form: Form::Text,
    columns: "ASU, address in 512-byte sectors, size in bytes, opcode R or W, seconds",
    resolution_ns: 1,
    offset_grain_bytes: SECTOR_BYTES,
    length_grain_bytes: 1,
    devices_up_to: u32::MAX,
    kinds: READ_WRITE,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(TextSource::new(format, input, Parser, options))),
    writer: |format, output, options| Ok(EncodingSink::boxed(format, output, options, "", Lines)),
    probe: |format, head| probe(format, head, Parser),
};

struct Parser;

impl LineParser for Parser {
    #[inline(always)]
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        let mut fields = Commas::new(line);
        let device = device("ASU", fields.whole("ASU")?)?;
        let offset_bytes = sectors("address", fields.whole("address")?)?;
        let length_bytes = fields.whole("size")?;
        let kind = match fields.text("opcode")? {
            b"R" | b"r" => Kind::Read,
            b"W" | b"w" => Kind::Write,
            other => return Err(Fault::field("opcode", other, "R or W")),
        };
        let at_ns = fields.time("timestamp", Unit::Seconds)?;
        Ok(Some(Request { at_ns, offset_bytes, length_bytes, device, kind }))
    }
}

struct Lines;

impl Encoder for Lines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        let range = [request.offset_bytes / SECTOR_BYTES, request.length_bytes];
        joined(out, b',', &[u64::from(request.device), range[0], range[1]]);
        out.extend_from_slice(if request.kind == Kind::Read { b",R," } else { b",W," });
        decimal(out, request.at_ns, 9);
        out.push(b'\n');
        Ok(())
    }
}
