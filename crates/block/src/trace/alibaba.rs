//! Block traces of Alibaba's cloud (2020).
//!
//! Device, `R` or `W`, offset and length in bytes, microseconds, divided by commas, no header.

use super::decimal::Unit;
use super::fields::{Commas, device};
use super::format::{Form, Format, READ_WRITE};
use super::sink::{Encoder, EncodingSink, joined, whole};
use super::text::{LineParser, TextSource, probe};
use crate::{Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "alibaba",
    about: "block traces of Alibaba's cloud",
    endings: &[],
    form: Form::Text,
    columns: "device, R or W, offset and length in bytes, microseconds",
    resolution_ns: 1_000,
    offset_grain_bytes: 1,
    length_grain_bytes: 1,
    devices_up_to: u32::MAX,
    kinds: READ_WRITE,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(TextSource::new(format, input, Parser, options))),
    writer: |format, output, options| Ok(EncodingSink::boxed(format, output, options, "", Lines)),
    probe: |format, head| probe(format, head, Parser),
};

const COLUMNS: &str = "5: device, R or W, offset, length, timestamp";

struct Parser;

impl LineParser for Parser {
    #[inline(always)]
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        let mut fields = Commas::new(line);
        let device = device("device", fields.whole("device")?)?;
        let kind = match fields.text("opcode")? {
            b"R" => Kind::Read,
            b"W" => Kind::Write,
            other => return Err(Fault::field("opcode", other, "R or W")),
        };
        let offset_bytes = fields.whole("offset")?;
        let length_bytes = fields.whole("length")?;
        let at_ns = fields.time("timestamp", Unit::Microseconds)?;
        fields.end(COLUMNS)?;
        Ok(Some(Request { at_ns, offset_bytes, length_bytes, device, kind }))
    }
}

struct Lines;

impl Encoder for Lines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        whole(out, u64::from(request.device));
        out.extend_from_slice(if request.kind == Kind::Read { b",R," } else { b",W," });
        let at_us = request.at_ns / 1_000;
        joined(out, b',', &[request.offset_bytes, request.length_bytes, at_us]);
        out.push(b'\n');
        Ok(())
    }
}
