//! Formats whose lines are tables: what stands in each column, and one reader and one writer for all of them.
//!
//! The rows themselves are in [`formats`](super::formats). A format that no row of columns describes has a file of its
//! own.

use std::io::{Read, Write};

use super::decimal::Unit;
use super::fields::Fields;
use super::gate::{Head, Misfit, Probed};
use super::lines::Line;
use super::sink::{Encoder, EncodingSink, decimal, whole};
use super::text::{self, LineParser};
use super::{Format, ReadOptions, Sink, WriteOptions};
use crate::Names;
use crate::{Fault, Kind, Request, Source};

/// Bits of a minor device number in Linux' `dev_t` (`MINORBITS`), and how many major numbers there are.
pub(super) const MINOR_BITS: u32 = 20;
pub(super) const MAJORS: u32 = 1 << (32 - MINOR_BITS);

/// What stands in a column, and what it is called in messages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    /// A number of a unit of time, perhaps with a decimal fraction.
    Time {
        name: &'static str,
        unit: Unit,
        point: Point,
    },
    /// A whole number of steps of time.
    Ticks {
        name: &'static str,
        tick_ns: u64,
    },
    Kind(&'static Kinds),
    /// As [`Kind`](Self::Kind); a line where it is empty holds no request.
    KindOrNothing(&'static Kinds),
    /// Nanoseconds that passed before the time: the request began so much earlier, though not before 0.
    Elapsed(&'static str),
    /// The time in nanoseconds, where the line has the column: it takes the place of the one before.
    IfMore(&'static str),
    /// The beginning of the range, in units of so many bytes.
    Offset {
        name: &'static str,
        unit_bytes: u64,
    },
    /// The length of the range, in units of so many bytes.
    Length {
        name: &'static str,
        unit_bytes: u64,
    },
    Device(&'static str),
    /// The major number of a device, and behind it the minor one; together they are as Linux' `dev_t` is.
    Major(&'static str),
    Minor(&'static str),
    /// The name of a device; devices have numbers in the order in which they come.
    DeviceName,
    /// The name of a host, the same in all lines; it is not kept.
    Host,
    /// A whole number that is not kept.
    Number(&'static str),
    /// Anything or nothing; it is not kept.
    Ignored,
}

/// Whether a time is written with a decimal point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    Absent,
    Written,
    /// It is what tells the format from others: a sniffer demands it.
    Distinctive,
}

/// How a column says what a request does.
#[derive(Debug)]
pub(super) struct Kinds {
    pub name: &'static str,
    /// The first word of a kind is the one that is written.
    pub words: &'static [Word],
    /// What any other word means, or what is wrong with it.
    pub otherwise: fn(&'static str, &[u8]) -> Result<Kind, Fault>,
}

impl Kinds {
    #[inline(always)]
    fn read<const SEPARATOR: u8>(&self, fields: &mut Fields<'_, SEPARATOR>) -> Result<Kind, Fault> {
        match fields.byte() {
            Some(byte) => self.kind(&[byte]),
            None => self.kind(fields.text(self.name)?),
        }
    }

    #[inline(always)]
    fn kind(&self, field: &[u8]) -> Result<Kind, Fault> {
        let key = key(field);
        match self.words.iter().find(|word| word.key == key && word.text.len() == field.len()) {
            Some(word) => Ok(word.kind),
            None => (self.otherwise)(self.name, field),
        }
    }

    fn word(&self, kind: Kind) -> &'static str {
        self.words.iter().find(|word| word.kind == kind).map_or("", |word| word.text)
    }
}

/// A word for a kind of request, of up to eight bytes.
#[derive(Debug)]
pub(super) struct Word {
    pub text: &'static str,
    key: u64,
    pub kind: Kind,
}

pub(super) const fn word(text: &'static str, kind: Kind) -> Word {
    Word { text, key: key(text.as_bytes()), kind }
}

/// A field as a number, which is compared faster than text; 0 for a field that is no word.
#[inline(always)]
const fn key(field: &[u8]) -> u64 {
    if let [byte] = field {
        return *byte as u64;
    }
    let (mut key, mut at) = (0, 0);
    while at < field.len() && field.len() <= 8 {
        key |= (field[at] as u64) << (8 * at);
        at += 1;
    }
    key
}

/// The requests of a trace in a format whose columns `SEPARATOR` divides.
pub(super) fn source<const SEPARATOR: u8>(
    format: &'static Format,
    input: Box<dyn Read + Send>,
    options: &ReadOptions,
) -> Box<dyn Source + Send> {
    let mut parser = TableParser::<SEPARATOR>::of(format, false);
    parser.reader.names = options.names.clone();
    text::source(format, input, parser, options)
}

pub(super) fn sink<'a, const SEPARATOR: u8>(
    format: &'static Format,
    output: Box<dyn Write + 'a>,
    options: &WriteOptions,
) -> Box<dyn Sink + 'a> {
    EncodingSink::boxed(format, output, options, "", TableEncoder { columns: format.table, separator: SEPARATOR })
}

pub(super) fn probe<const SEPARATOR: u8>(format: &'static Format, head: Head<'_>) -> Result<Probed, Misfit> {
    text::probe(format, head, TableParser::<SEPARATOR>::of(format, true))
}

pub(super) struct TableParser<const SEPARATOR: u8> {
    columns: Vec<Column>,
    /// Whether further columns may follow.
    open_ended: bool,
    /// What the first line may be, before which nothing was parsed; then empty.
    header: &'static str,
    /// What requests are without a column that says it.
    kind: Kind,
    pub reader: ColumnReader,
}

/// Reads single columns.
#[derive(Default)]
pub(super) struct ColumnReader {
    /// The columns, for a message.
    expected: String,
    /// For a sniffer.
    strict: bool,
    /// Whether times are left as they are, those of completions.
    pub at_completion: bool,
    host: Vec<u8>,
    /// The device of the line before.
    device: (Vec<u8>, u32),
    pub names: Names,
}

impl<const SEPARATOR: u8> TableParser<SEPARATOR> {
    /// A parser of columns; requests are of that kind where none says it.
    pub(super) fn new(columns: &[Column], expected: String, kind: Kind) -> Self {
        let reader = ColumnReader { expected, ..ColumnReader::default() };
        Self { columns: columns.to_vec(), open_ended: false, header: "", kind, reader }
    }

    pub(super) fn of(format: &Format, strict: bool) -> Self {
        let expected = format!("{}: {}", format.table.len(), format.columns);
        let mut parser = Self::new(format.table, expected, Kind::Read);
        (parser.open_ended, parser.header, parser.reader.strict) = (format.open_ended, format.header, strict);
        parser
    }
}

impl<const SEPARATOR: u8> LineParser for TableParser<SEPARATOR> {
    #[inline(always)]
    fn parse(&mut self, line: Line<'_>) -> Result<Option<Request>, Fault> {
        if !self.header.is_empty() && is_header(&line, std::mem::take(&mut self.header)) {
            return Ok(None);
        }
        let mut fields = Fields::<SEPARATOR>::new(line);
        let mut request = Request { kind: self.kind, ..Request::default() };
        let mut is_request = true;
        for column in &self.columns {
            is_request &= self.reader.read(column, &mut fields, &mut request)?;
        }
        if fields.more() && !self.open_ended {
            return Err(fields.columns(&self.reader.expected));
        }
        Ok(is_request.then(|| without_range_of_flush(request)))
    }
}

/// A flush is of the whole device, whatever stands in the columns of its range.
#[inline(always)]
pub(super) fn without_range_of_flush(request: Request) -> Request {
    match request.kind {
        Kind::Flush => Request { offset_bytes: 0, length_bytes: 0, ..request },
        _ => request,
    }
}

impl ColumnReader {
    /// Reads a column; returns whether the line may still be a request.
    #[inline(always)]
    pub(super) fn read<const SEPARATOR: u8>(
        &mut self,
        column: &Column,
        fields: &mut Fields<'_, SEPARATOR>,
        request: &mut Request,
    ) -> Result<bool, Fault> {
        match *column {
            Column::Time { name, unit, point } => {
                let start = fields.remaining();
                request.at_ns = fields.time(name, unit)?;
                if self.strict && point == Point::Distinctive {
                    with_point(name, start, fields.remaining(), unit.digits())?;
                }
            }
            Column::Ticks { name, tick_ns } => request.at_ns = fields.ticks(name, tick_ns)?,
            Column::KindOrNothing(_) if fields.is_empty() => return Ok(!fields.pass()),
            Column::Kind(kinds) | Column::KindOrNothing(kinds) => request.kind = kinds.read(fields)?,
            Column::Elapsed(name) => {
                let before_ns = fields.whole(name)?;
                request.at_ns -= if self.at_completion { 0 } else { before_ns.min(request.at_ns) };
            }
            Column::IfMore(name) if fields.more() => {
                let at_ns = fields.whole(name)?;
                request.at_ns = if self.at_completion { request.at_ns } else { at_ns };
            }
            Column::IfMore(_) => {}
            Column::Offset { name, unit_bytes } => request.offset_bytes = fields.bytes(name, unit_bytes)?,
            Column::Length { name, unit_bytes } => request.length_bytes = fields.bytes(name, unit_bytes)?,
            Column::Device(name) => request.device = fields.device(name)?,
            Column::Major(name) => request.device = number_below(fields, name, MAJORS)? << MINOR_BITS,
            Column::Minor(name) => request.device |= number_below(fields, name, 1 << MINOR_BITS)?,
            Column::DeviceName => request.device = self.named_device(fields.text("device")?)?,
            Column::Host => {
                let host = fields.text("host")?;
                if host != self.host {
                    self.first_host(host)?;
                }
            }
            Column::Number(name) => _ = fields.whole(name)?,
            Column::Ignored if fields.pass() => {}
            Column::Ignored => return Err(fields.columns(&self.expected)),
        }
        Ok(true)
    }
}

/// A major or minor number of a device.
#[inline(always)]
fn number_below<const SEPARATOR: u8>(
    fields: &mut Fields<'_, SEPARATOR>,
    name: &'static str,
    end: u32,
) -> Result<u32, Fault> {
    let number = fields.whole(name)?;
    let limit = "major numbers are below 4096, minor ones below 1048576";
    let below = u32::try_from(number).ok().filter(|number| *number < end);
    below.ok_or_else(|| Fault::overflow(name, number.to_string().as_bytes(), limit))
}

/// What is expected of a time that may be of another unit than a format's.
pub(super) const OTHER_UNIT: &str = "a time of whole nanoseconds (it may be of a larger unit, such as seconds)";

#[cold]
fn with_point(column: &'static str, before: &[u8], after: &[u8], digits: usize) -> Result<(), Fault> {
    let time = before[..before.len() - after.len()].trim_ascii();
    let decimals = time
        .iter()
        .position(|byte| *byte == b'.')
        .map(|point| time[point..].iter().filter(|b| b.is_ascii_digit()).count());
    Err(match decimals {
        Some(decimals) if decimals <= digits => return Ok(()),
        Some(_) => Fault::field(column, time, OTHER_UNIT),
        None => Fault::field(column, time, "a time with a decimal point (without one it could be of another unit)"),
    })
}

/// Whether a line is a header, in whatever case and with whatever white space between its words.
#[cold]
fn is_header(line: &[u8], header: &str) -> bool {
    let line = String::from_utf8_lossy(line).to_ascii_lowercase();
    line.split_ascii_whitespace().eq(header.split_ascii_whitespace())
}

const MOST_DEVICES: u64 = 4096;

impl ColumnReader {
    /// The number of a device by its name; a new one gets the next, and a name that is a number is that number.
    fn named_device(&mut self, name: &[u8]) -> Result<u32, Fault> {
        if self.device.0 != name {
            let stated = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u32>().ok());
            let number = stated.map_or_else(|| self.names.number("device", name), u64::from);
            if stated.is_none() && number >= MOST_DEVICES {
                return Err(Fault::field("device", name, "one of at most 4096 names"));
            }
            self.device = (name.to_vec(), number as u32);
        }
        Ok(self.device.1)
    }

    /// Keeps the name of the first host. Disks of a second one would be taken for the first one's.
    #[cold]
    fn first_host(&mut self, host: &[u8]) -> Result<(), Fault> {
        if self.names.number("host", host) > 0 {
            return Err(Fault::field("host", host, "the host of the first line (one trace has one host)"));
        }
        self.host = host.to_vec();
        Ok(())
    }
}

pub(super) struct TableEncoder {
    pub columns: &'static [Column],
    pub separator: u8,
}

impl Encoder for TableEncoder {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        for (number, column) in self.columns.iter().enumerate() {
            if number > 0 {
                out.push(self.separator);
            }
            match *column {
                Column::Time { unit, point: Point::Absent, .. } => whole(out, request.at_ns / unit.nanoseconds()),
                Column::Time { unit, .. } => decimal(out, request.at_ns, unit.digits() as u32),
                Column::Ticks { tick_ns, .. } => whole(out, request.at_ns / tick_ns),
                Column::Kind(kinds) | Column::KindOrNothing(kinds) => {
                    out.extend_from_slice(kinds.word(request.kind).as_bytes());
                }
                Column::Offset { unit_bytes, .. } => whole(out, request.offset_bytes / unit_bytes),
                Column::Length { unit_bytes, .. } => whole(out, request.length_bytes / unit_bytes),
                Column::Device(_) | Column::DeviceName => whole(out, u64::from(request.device)),
                Column::Major(_) => whole(out, u64::from(request.device >> MINOR_BITS)),
                Column::Minor(_) => whole(out, u64::from(request.device % (1 << MINOR_BITS))),
                Column::Host => out.extend_from_slice(b"host"),
                Column::Number(_) | Column::Elapsed(_) | Column::IfMore(_) => whole(out, 0),
                // Between blanks nothing would be no column.
                Column::Ignored => out.extend_from_slice(if self.separator == b' ' { b"-" } else { b"" }),
            }
        }
        out.push(b'\n');
        Ok(())
    }
}
