//! Any trace that is a table: columns by name, divided by commas, with a header or names given.
//!
//! Needs a time, a kind, an offset and a length; a device may be there, all else is passed over.
//! Quoted fields are not known. Written are the columns of [`HEADER`].

use super::format::COMMAS;
use super::format::{ALL_KINDS, Format};
use super::lines::Line;
use super::options::{CsvColumns, KindCode};
use super::sink::EncodingSink;
use super::table::{Column, Kinds, Point, TableEncoder, TableParser, word};
use super::text::{self, LineParser};
use super::{Unit, blkparse, scsi};
use crate::Kind::{Flush, Read, Trim, Write};
use crate::{Error, Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "csv",
    about: "tables with named columns, divided by commas",
    endings: &[".csv"],
    columns: "time, kind, offset, length and perhaps device, by name",
    table: &[time(Unit::Nanoseconds), Column::Kind(&WORDS), offset(1), length(1), DEVICE],
    kinds: ALL_KINDS,
    reader: |format, input, options| Ok(text::source(format, input, Parser::new(&options.csv)?, options)),
    writer: Some(|format, output, options| {
        let encoder = TableEncoder { columns: format.table, separator: b',' };
        EncodingSink::boxed(format, output, options, HEADER, encoder)
    }),
    probe: |format, head| text::probe(format, head, Parser::of_header(CsvColumns::default())),
    ..COMMAS
};

const HEADER: &str = "time_ns,kind,offset_bytes,length_bytes,device\n";

const fn time(unit: Unit) -> Column {
    Column::Time { name: "time", unit, point: Point::Absent }
}

const fn offset(unit_bytes: u64) -> Column {
    Column::Offset { name: "offset", unit_bytes }
}

const fn length(unit_bytes: u64) -> Column {
    Column::Length { name: "length", unit_bytes }
}

const DEVICE: Column = Column::Device("device");

/// The words that are written come first. Case does not matter, but costs time.
static WORDS: Kinds = Kinds {
    name: "kind",
    words: &[
        word("read", Read),
        word("write", Write),
        word("R", Read),
        word("W", Write),
        word("RS", Read),
        word("WS", Write),
        word("trim", Trim),
        word("D", Trim),
        word("T", Trim),
        word("discard", Trim),
        word("unmap", Trim),
        word("flush", Flush),
        word("F", Flush),
        word("sync", Flush),
    ],
    otherwise: |name, field| {
        let word = WORDS.words.iter().find(|word| word.text.as_bytes().eq_ignore_ascii_case(field));
        let expected = "read, write, trim or flush (numbers are told by --kinds)";
        word.map(|word| word.kind).ok_or_else(|| Fault::field(name, field, expected))
    },
};

static READ_IS_ONE: Kinds = Kinds { words: &[word("1", Read), word("0", Write)], ..WRITE_IS_ONE };

const WRITE_IS_ONE: Kinds = Kinds {
    name: "kind",
    words: &[word("1", Write), word("0", Read)],
    otherwise: |name, field| Err(Fault::field(name, field, "0 or 1")),
};

static RWBS: Kinds = Kinds {
    name: "kind",
    words: &[],
    otherwise: |name, field| match blkparse::kind_of(field)? {
        Some(kind) => Ok(kind),
        None if field.contains(&b'F') => Ok(Flush),
        None => Err(Fault::field(name, field, "letters that begin with R, W, D or F")),
    },
};

static SCSI: Kinds = Kinds { name: "kind", words: &[], otherwise: |_, field| scsi::hexadecimal(field) };

struct Parser {
    given: CsvColumns,
    table: TableParser<b','>,
    header_to_come: bool,
}

impl Parser {
    fn of_header(given: CsvColumns) -> Self {
        Self { given, table: TableParser::new(&[], String::new(), Read), header_to_come: true }
    }

    fn new(given: &CsvColumns) -> Result<Self, Error> {
        check_units(given)?;
        let mut parser = Self::of_header(given.clone());
        if !given.names.is_empty() {
            parser.name_columns(given.names.iter().map(String::as_bytes)).map_err(|fault| Error::Option {
                name: "columns",
                value: given.names.join(","),
                wanted: fault.to_string(),
            })?;
            parser.header_to_come = given.skip_header;
        }
        Ok(parser)
    }

    /// Takes the first line, which is a header, whether it is needed or not.
    #[cold]
    fn header(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        self.header_to_come = false;
        if self.given.names.is_empty() {
            self.name_columns(line.split(|&byte| byte == b','))?;
        }
        Ok(None)
    }

    fn name_columns<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>) -> Result<(), Fault> {
        let columns = columns(names, &self.given)?;
        let expected = format!("{} as in the header", columns.len());
        self.table = TableParser::new(&columns, expected, kind_without_column(&self.given));
        Ok(())
    }
}

impl LineParser for Parser {
    #[inline(always)]
    fn parse(&mut self, line: Line<'_>) -> Result<Option<Request>, Fault> {
        if self.header_to_come {
            return self.header(&line);
        }
        self.table.parse(line)
    }
}

/// An error for a unit of no byte.
pub(super) fn check_units(given: &CsvColumns) -> Result<(), Error> {
    for (name, unit) in [("offset-unit", given.offset_unit_bytes), ("length-unit", given.length_unit_bytes)] {
        if unit == Some(0) {
            return Err(Error::Option { name, value: "0".into(), wanted: "at least 1 byte".into() });
        }
    }
    Ok(())
}

/// What requests are where no column says it.
pub(super) fn kind_without_column(given: &CsvColumns) -> Kind {
    if given.kinds == KindCode::Writes { Write } else { Read }
}

/// The column of faults that a header's names have.
pub(super) const COLUMN_NAME: &str = "column name";

const SECTOR: u64 = super::fields::SECTOR_BYTES;
const NAMES: &str = "names with a time, a kind, an offset and a length, each once: \
                     time_s|ms|us|ns, kind|op, offset|lba|lbn|sector, length|size|sectors";

/// The columns that are so called.
pub(super) fn columns<'a>(names: impl Iterator<Item = &'a [u8]>, given: &CsvColumns) -> Result<Vec<Column>, Fault> {
    let mut columns = Vec::new();
    for name in names {
        let name = name.trim_ascii();
        let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
        columns.push(column(&lower, given).map_err(|wanted| Fault::field(COLUMN_NAME, name, wanted))?);
    }
    let is_of_one_kind = matches!(given.kinds, KindCode::Reads | KindCode::Writes);
    let count = |is: fn(&Column) -> bool| columns.iter().filter(|column| is(column)).count();
    let complete = count(|column| matches!(column, Column::Time { .. })) == 1
        && count(|column| matches!(column, Column::Kind(_))) == usize::from(!is_of_one_kind)
        && count(|column| matches!(column, Column::Offset { .. })) == 1
        && count(|column| matches!(column, Column::Length { .. })) == 1
        && count(|column| matches!(column, Column::Device(_))) <= 1;
    if complete { Ok(columns) } else { Err(Fault::form(b"the header", NAMES)) }
}

fn column(name: &str, given: &CsvColumns) -> Result<Column, &'static str> {
    Ok(match name {
        "op" | "kind" | "type" | "opcode" | "rw" => Column::Kind(match given.kinds {
            KindCode::Words => &WORDS,
            KindCode::ReadIsOne => &READ_IS_ONE,
            KindCode::WriteIsOne => &WRITE_IS_ONE,
            KindCode::Scsi => &SCSI,
            KindCode::Rwbs => &RWBS,
            KindCode::Reads | KindCode::Writes => return Ok(Column::Ignored),
        }),
        "offset" | "offset_bytes" => offset(given.offset_unit_bytes.unwrap_or(1)),
        "lba" | "lbn" | "sector" | "offset_sectors" | "first_sector" => {
            offset(given.offset_unit_bytes.unwrap_or(SECTOR))
        }
        "size" | "length" | "bytes" | "size_bytes" | "length_bytes" => length(given.length_unit_bytes.unwrap_or(1)),
        "sectors" | "size_sectors" | "length_sectors" => length(given.length_unit_bytes.unwrap_or(SECTOR)),
        "device" | "disk" | "volume" | "asu" | "device_id" => DEVICE,
        "time" | "timestamp" => {
            time(given.time_unit.ok_or("a time with its unit, such as time_us (or the unit with --time-unit)")?)
        }
        _ => match name.rsplit_once('_') {
            Some(("time" | "timestamp" | "at", "s")) => time(Unit::Seconds),
            Some(("time" | "timestamp" | "at", "ms")) => time(Unit::Milliseconds),
            Some(("time" | "timestamp" | "at", "us")) => time(Unit::Microseconds),
            Some(("time" | "timestamp" | "at", "ns")) => time(Unit::Nanoseconds),
            _ => Column::Ignored,
        },
    })
}
