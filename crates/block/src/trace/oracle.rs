//! libCacheSim's binary traces of cache requests, `oracleGeneral`: ids of objects, which for block traces are addresses.
//!
//! Records of 24 bytes, little-endian: time in seconds (4), id (8), size in bytes (4), when the object is requested again,
//! as a number of requests (8; -1 or 2^63 - 1 is never). Block traces were converted with ids of bytes (those of MSR and
//! Alibaba) or of sectors (those of `CloudPhysics`), and without kinds: which it is cannot be seen, so it is asked.
//! Not kept: when an object is requested again. Volumes were added to the ids, or left out.
//! Layout: "How to read `OracleGeneral` trace" in libCacheSim's FAQ, and its `oracleGeneralBin.h`.

use super::decimal::Unit::Seconds;
use super::fields::{ticks, units};
use super::format::{COMMAS, Form, Format};
use super::options::{CsvColumns, KindCode};
use super::records::{self, RecordParser, little};
use crate::{Error, Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "oraclegeneral",
    about: "libCacheSim's oracleGeneral, of block traces",
    endings: &[".oraclegeneral", ".oraclegeneral.bin"],
    form: Form::Binary,
    columns: "seconds, id, size in bytes, number of the next request of the id",
    resolution_ns: Seconds.nanoseconds(),
    devices_up_to: 0,
    reader: |format, input, options| Ok(records::source(format, input, Parser::of(&options.csv)?, options)),
    writer: None,
    probe: |format, head| records::probe(format, head, Parser { unit_bytes: 1, kind: Kind::Read, strict: true }),
    ..COMMAS
};

struct Parser {
    unit_bytes: u64,
    kind: Kind,
    /// For a sniffer: whether numbers of next requests have to be likely.
    strict: bool,
}

impl Parser {
    fn of(given: &CsvColumns) -> Result<Self, Error> {
        let kind = match given.kinds {
            KindCode::Reads => Some(Kind::Read),
            KindCode::Writes => Some(Kind::Write),
            _ => None,
        };
        match (given.offset_unit_bytes, kind) {
            (Some(unit_bytes), Some(kind)) => Ok(Self { unit_bytes, kind, strict: false }),
            _ => Err(Error::Option {
                name: "offset-unit or kinds",
                value: "not given, and oraclegeneral says neither".into(),
                wanted: "--offset-unit 1 (ids are bytes: MSR, Alibaba) or 512 (sectors: CloudPhysics), and --kinds reads or writes"
                    .into(),
            }),
        }
    }
}

/// More requests than any trace has.
const MOST_REQUESTS: i64 = 1 << 40;

impl RecordParser for Parser {
    const HEAD_BYTES: usize = 24;

    fn bytes(&mut self, _head: &[u8]) -> Result<usize, Fault> {
        Ok(Self::HEAD_BYTES)
    }

    #[inline(always)]
    fn request(&mut self, record: &[u8]) -> Result<Option<Request>, Fault> {
        let next = i64::from_ne_bytes(little::<8>(record, 16).to_ne_bytes());
        if self.strict && !matches!(next, -1 | i64::MAX | 1..=MOST_REQUESTS) {
            let wanted = "the number of a later request, or -1 for none";
            return Err(Fault::field("next access", next.to_string().as_bytes(), wanted));
        }
        Ok(Some(Request {
            at_ns: ticks("time", little::<4>(record, 0), Seconds.nanoseconds())?,
            offset_bytes: units("id", little::<8>(record, 4), self.unit_bytes)?,
            length_bytes: little::<4>(record, 12),
            device: 0,
            kind: self.kind,
        }))
    }
}
