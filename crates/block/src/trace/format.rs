//! What a trace format is: its names, its limits, and the functions that read and write it.

use std::io::{Read, Write};

use super::fields::SECTOR_BYTES;
use super::gate::{Head, Misfit, Probed};
use super::table::{self, Column};
use super::{ReadOptions, Sink, WriteOptions};
use crate::{Error, Kind, Source};

/// Whether a format is lines of text or records of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Binary,
}

pub(super) type Reader =
    fn(&'static Format, Box<dyn Read + Send>, &ReadOptions) -> Result<Box<dyn Source + Send>, Error>;
pub(super) type Writer = for<'a> fn(&'static Format, Box<dyn Write + 'a>, &WriteOptions) -> Box<dyn Sink + 'a>;
/// Reads a head as strictly as the format can be.
pub(super) type Probe = for<'a> fn(&'static Format, Head<'a>) -> Result<Probed, Misfit>;

#[derive(Debug)]
pub struct Format {
    /// Its name, as `--format` takes it.
    pub name: &'static str,
    /// One line that says what it is.
    pub about: &'static str,
    /// How the names of its files often end, without compression's ending. Never decides alone.
    pub endings: &'static [&'static str],
    pub form: Form,
    /// Its columns, with units, as one line.
    pub columns: &'static str,
    /// What stands in each column, where a row of columns describes the format.
    pub(super) table: &'static [Column],
    /// The first line of some of its files, which names the columns; empty where there is none.
    pub(super) header: &'static str,
    /// Whether further columns may follow those of the table.
    pub(super) open_ended: bool,
    /// Smallest step of time that it keeps, in nanoseconds.
    pub resolution_ns: u64,
    /// What offsets are multiples of, in bytes.
    pub offset_grain_bytes: u64,
    /// What lengths are multiples of, in bytes.
    pub length_grain_bytes: u64,
    /// Largest device number it keeps; 0 where it knows no devices.
    pub devices_up_to: u32,
    /// The kinds of request that it can hold.
    pub kinds: &'static [Kind],
    /// Another format whose lines look alike and mean the same, which a sniffer prefers.
    pub same_as: Option<&'static str>,
    /// Whether a trace is several files, one for each processor, which are merged by time.
    pub by_processor: bool,
    pub(super) reader: Reader,
    /// None where the format holds what no request has.
    pub(super) writer: Option<Writer>,
    pub(super) probe: Probe,
}

impl Format {
    pub const fn is_written(&self) -> bool {
        self.writer.is_some()
    }
}

pub(super) const READ_WRITE: &[Kind] = &[Kind::Read, Kind::Write];
pub(super) const ALL_KINDS: &[Kind] = &[Kind::Read, Kind::Write, Kind::Trim, Kind::Flush];

/// The error for a name that no format has.
pub(super) fn unknown(name: &str, formats: &[Format]) -> Error {
    let name: String = name.chars().take(40).collect();
    let distance = |format: &Format| strsim::levenshtein(&name.to_lowercase(), format.name);
    let mut near: Vec<(usize, &str)> = formats.iter().map(|format| (distance(format), format.name)).collect();
    near.sort_unstable();
    let near_names: Vec<&str> =
        near.iter().filter(|(steps, near)| *steps <= 2.min(near.len() - 1)).map(|(_, name)| *name).collect();
    let all: Vec<&str> = formats.iter().map(|format| format.name).collect();
    let wanted = if near_names.is_empty() {
        format!("one of {}", all.join(", "))
    } else {
        format!("perhaps {}? There are {}", near_names.join(" or "), all.join(", "))
    };
    Error::Option { name: "format", value: format!("`{name}`"), wanted }
}

/// Columns between commas, in bytes.
pub(super) const COMMAS: Format = Format {
    name: "",
    about: "",
    endings: &[],
    form: Form::Text,
    columns: "",
    table: &[],
    header: "",
    open_ended: false,
    resolution_ns: 1,
    offset_grain_bytes: 1,
    length_grain_bytes: 1,
    devices_up_to: u32::MAX,
    kinds: READ_WRITE,
    same_as: None,
    by_processor: false,
    reader: |format, input, options| Ok(table::source::<b','>(format, input, options)),
    writer: Some(|format, output, options| table::sink::<b','>(format, output, options)),
    probe: table::probe::<b','>,
};

/// Columns between white space, in sectors.
pub(super) const SECTORS: Format = Format {
    offset_grain_bytes: SECTOR_BYTES,
    length_grain_bytes: SECTOR_BYTES,
    reader: |format, input, options| Ok(table::source::<b' '>(format, input, options)),
    writer: Some(|format, output, options| table::sink::<b' '>(format, output, options)),
    probe: table::probe::<b' '>,
    ..COMMAS
};
