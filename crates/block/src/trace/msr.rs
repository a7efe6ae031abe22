//! Traces of MSR Cambridge's servers, as the SNIA's repository has them.
//!
//! Windows file time (100 ns since 1601), host, disk, `Read` or `Write`, offset and size in bytes, response time in 100
//! ns. The disk is the device; a trace has one host, and its name and the response times are not kept.

use super::fields::{Commas, device};
use super::format::{Form, Format, READ_WRITE};
use super::sink::{Encoder, EncodingSink, joined, whole};
use super::text::{LineParser, TextSource, probe};
use crate::{Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "msr",
    about: "MSR Cambridge traces",
    endings: &[".msr"],
    form: Form::Text,
    columns: "file time in 100 ns, host, disk, Read or Write, offset and size in bytes, response in 100 ns",
    resolution_ns: TICK_NS,
    offset_grain_bytes: 1,
    length_grain_bytes: 1,
    devices_up_to: u32::MAX,
    kinds: READ_WRITE,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(TextSource::new(format, input, Parser::default(), options))),
    writer: |format, output, options| Ok(EncodingSink::boxed(format, output, options, "", Lines)),
    probe: |format, head| probe(format, head, Parser::default()),
};

/// Step of a Windows file time.
const TICK_NS: u64 = 100;
const COLUMNS: &str = "7: file time, host, disk, Read or Write, offset, size, response time";

#[derive(Default)]
struct Parser {
    host: Vec<u8>,
}

impl LineParser for Parser {
    #[inline(always)]
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        let mut fields = Commas::new(line);
        let ticks = fields.whole("file time")?;
        let host = fields.text("host")?;
        if host != self.host {
            self.first_host(host)?;
        }
        let device = device("disk", fields.whole("disk")?)?;
        let kind = match fields.text("type")? {
            b"Read" => Kind::Read,
            b"Write" => Kind::Write,
            other => return Err(Fault::field("type", other, "Read or Write")),
        };
        let offset_bytes = fields.whole("offset")?;
        let length_bytes = fields.whole("size")?;
        fields.whole("response time")?;
        fields.end(COLUMNS)?;
        let at_ns = ticks.checked_mul(TICK_NS).ok_or_else(|| too_late(ticks))?;
        Ok(Some(Request { at_ns, offset_bytes, length_bytes, device, kind }))
    }
}

impl Parser {
    /// Keeps the name of the first host. Disks of a second one would be taken for the first one's.
    #[cold]
    fn first_host(&mut self, host: &[u8]) -> Result<(), Fault> {
        if self.host.is_empty() {
            self.host = host.to_vec();
            return Ok(());
        }
        let wanted = "the host of the first line (one trace has one host)";
        Err(Fault::field("host", host, wanted))
    }
}

#[cold]
fn too_late(ticks: u64) -> Fault {
    let limit = "times must be below 2^64 ns (584 years)";
    Fault::overflow("file time", ticks.to_string().as_bytes(), limit)
}

struct Lines;

impl Encoder for Lines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        whole(out, request.at_ns / TICK_NS);
        out.extend_from_slice(b",host,");
        whole(out, u64::from(request.device));
        out.extend_from_slice(if request.kind == Kind::Read { b",Read,".as_slice() } else { b",Write," });
        joined(out, b',', &[request.offset_bytes, request.length_bytes, 0]);
        out.push(b'\n');
        Ok(())
    }
}
