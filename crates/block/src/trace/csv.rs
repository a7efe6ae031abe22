//! Any trace that is a table: columns by name, divided by commas, with a header or names given.
//!
//! Needs a time, a kind, an offset and a length; a device may be there, all else is passed over.
//! Quoted fields are not known. Written are the columns of [`HEADER`].

use super::csv_columns::{Role, roles};
use super::fields::{Commas, device};
use super::format::{ALL_KINDS, Form, Format};
use super::options::{CsvColumns, KindCode};
use super::scsi;
use super::sink::{Encoder, EncodingSink, joined, name, whole};
use super::text::{LineParser, TextSource, probe};
use crate::{Error, Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "csv",
    about: "tables with named columns, divided by commas",
    endings: &[".csv"],
    form: Form::Text,
    columns: "time, kind, offset, length and perhaps device, by name",
    resolution_ns: 1,
    offset_grain_bytes: 1,
    length_grain_bytes: 1,
    devices_up_to: u32::MAX,
    kinds: ALL_KINDS,
    same_as: None,
    reader: |format, input, options| {
        let parser = Parser::new(&options.csv)?;
        Ok(Box::new(TextSource::new(format, input, parser, options)))
    },
    writer: |format, output, options| Ok(EncodingSink::boxed(format, output, options, HEADER, Lines)),
    probe: |format, head| probe(format, head, Parser::of_header(CsvColumns::default())),
};

const HEADER: &str = "time_ns,kind,offset_bytes,length_bytes,device\n";

struct Parser {
    given: CsvColumns,
    roles: Vec<Role>,
    header_to_come: bool,
}

impl Parser {
    fn of_header(given: CsvColumns) -> Self {
        Self { given, roles: Vec::new(), header_to_come: true }
    }

    fn new(given: &CsvColumns) -> Result<Self, Error> {
        for (name, unit) in [("unit of offsets", given.offset_unit_bytes), ("unit of lengths", given.length_unit_bytes)]
        {
            if unit == Some(0) {
                return Err(option(name, "0".into(), "at least 1 byte".into()));
            }
        }
        let mut parser = Self::of_header(given.clone());
        if !given.names.is_empty() {
            let names = given.names.iter().map(String::as_bytes);
            parser.roles =
                roles(names, given).map_err(|fault| option("columns", given.names.join(","), fault.to_string()))?;
            parser.header_to_come = given.skip_header;
        }
        Ok(parser)
    }

    #[inline(always)]
    fn kind(&self, field: &[u8]) -> Result<Kind, Fault> {
        match (self.given.kinds, field) {
            // The words that are written here come first: the others are looked up in lower case.
            (KindCode::Words, b"read" | b"R") | (KindCode::ReadIsOne, b"1") | (KindCode::WriteIsOne, b"0") => {
                Ok(Kind::Read)
            }
            (KindCode::Words, b"write" | b"W") | (KindCode::ReadIsOne, b"0") | (KindCode::WriteIsOne, b"1") => {
                Ok(Kind::Write)
            }
            (KindCode::Words, _) => word(field),
            (KindCode::Scsi, _) => scsi::hexadecimal(field),
            _ => Err(Fault::field("kind", field, "0 or 1")),
        }
    }
}

fn option(name: &'static str, value: String, wanted: String) -> Error {
    Error::Option { name, value, wanted }
}

impl LineParser for Parser {
    #[inline(always)]
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        if self.header_to_come {
            self.header_to_come = false;
            if self.roles.is_empty() {
                self.roles = roles(line.split(|&byte| byte == b','), &self.given)?;
            }
            return Ok(None);
        }
        let mut fields = Commas::new(line);
        let mut request = Request::default();
        for role in &self.roles {
            match *role {
                Role::Time(unit) => request.at_ns = fields.time("time", unit)?,
                Role::Kind => request.kind = self.kind(fields.text("kind")?)?,
                Role::Offset(unit) => {
                    request.offset_bytes = bytes("offset", fields.whole("offset")?, unit)?;
                }
                Role::Length(unit) => {
                    request.length_bytes = bytes("length", fields.whole("length")?, unit)?;
                }
                Role::Device => request.device = device("device", fields.whole("device")?)?,
                Role::Ignored => fields.pass(),
            }
        }
        if fields.read() != self.roles.len() || fields.more() {
            return Err(fields.columns(&format!("{} as in the header", self.roles.len())));
        }
        if request.kind == Kind::Flush {
            (request.offset_bytes, request.length_bytes) = (0, 0);
        }
        Ok(Some(request))
    }
}

#[inline(always)]
fn bytes(column: &'static str, number: u64, unit: u64) -> Result<u64, Fault> {
    number.checked_mul(unit).ok_or_else(|| {
        let limit = "it must be below 2^64 bytes";
        Fault::overflow(column, number.to_string().as_bytes(), limit)
    })
}

fn word(field: &[u8]) -> Result<Kind, Fault> {
    let mut lower = [0; 8];
    let Some(lower) = lower.get_mut(..field.len()) else {
        return Err(unknown_word(field));
    };
    lower.copy_from_slice(field);
    lower.make_ascii_lowercase();
    match &*lower {
        b"r" | b"rs" | b"read" => Ok(Kind::Read),
        b"w" | b"ws" | b"write" => Ok(Kind::Write),
        b"d" | b"t" | b"trim" | b"discard" | b"unmap" => Ok(Kind::Trim),
        b"f" | b"flush" | b"sync" => Ok(Kind::Flush),
        _ => Err(unknown_word(field)),
    }
}

#[cold]
fn unknown_word(field: &[u8]) -> Fault {
    let wanted = "read, write, trim or flush (numbers are told by --kinds)";
    Fault::field("kind", field, wanted)
}

struct Lines;

impl Encoder for Lines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        whole(out, request.at_ns);
        out.push(b',');
        out.extend_from_slice(name(request.kind).as_bytes());
        out.push(b',');
        let device = u64::from(request.device);
        joined(out, b',', &[request.offset_bytes, request.length_bytes, device]);
        out.push(b'\n');
        Ok(())
    }
}
