//! The lines that `MQSim` and `SSDSim` share: five whole numbers divided by white space.

use super::decimal::Unit;
use super::fields::{SECTOR_BYTES, Spaces, device, sector_request};
use super::sink::{Encoder, joined};
use super::text::LineParser;
use crate::{Fault, Kind, Request};

const COLUMNS: &str = "5: arrival (ns), device, first sector, sectors, 1 (read) or 0 (write)";

pub(super) struct NanosecondParser;

impl LineParser for NanosecondParser {
    #[inline(always)]
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        let mut fields = Spaces::new(line);
        let at_ns = fields.whole_time("arrival", Unit::Nanoseconds)?;
        let device = device("device", fields.whole("device")?)?;
        let first = fields.whole("first sector")?;
        let count = fields.whole("sectors")?;
        let kind = match fields.text("type")? {
            b"1" => Kind::Read,
            b"0" => Kind::Write,
            other => return Err(Fault::field("type", other, "1 (read) or 0 (write)")),
        };
        fields.end(COLUMNS)?;
        sector_request(at_ns, device, first, count, kind).map(Some)
    }
}

pub(super) struct NanosecondLines;

impl Encoder for NanosecondLines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        let numbers = [
            request.at_ns,
            u64::from(request.device),
            request.offset_bytes / SECTOR_BYTES,
            request.length_bytes / SECTOR_BYTES,
            u64::from(request.kind == Kind::Read),
        ];
        joined(out, b' ', &numbers);
        out.push(b'\n');
        Ok(())
    }
}
