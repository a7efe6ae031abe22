//! Traces: what is read and written, in which form.
//!
//! One row of [`FORMATS`] a format; those that are no tables have a file of their own. A format is told by name
//! ([`format()`]) or found by what a trace begins with ([`sniff`]); [`read`] gives a [`Source`] and [`write()`] a
//! [`Sink`]. Reading is strict: what is not as the format says is an error with its line or byte, never a guess. What
//! the columns mean and what each format cannot hold: `docs/traces.md`.

mod blkparse;
mod blktrace;
pub mod columns;
mod csv;
mod decimal;
mod fields;
mod format;
mod formats;
mod gate;
mod iolog;
mod lines;
mod options;
mod oracle;
mod order;
mod records;
mod regex;
mod scsi;
mod sink;
mod sniff;
mod table;
mod text;
mod vscsi;

pub use decimal::Unit;
pub use format::{Form, Format};
pub use formats::FORMATS;
pub use gate::SNIFF_BYTES;
pub use options::{BlkEvent, CsvColumns, KindCode, Loss, OutOfOrder, ReadOptions, WriteOptions, ZeroLength};
pub use sink::Sink;
pub use sniff::{Sniffed, sniff, sniff_tolerant};

use std::io::{Read, Write};

use crate::{Error, Source};

/// The format of that name.
pub fn format(name: &str) -> Result<&'static Format, Error> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| format::unknown(name, FORMATS))
}

/// Reads a trace that is packed into nothing any more (see [`container`](crate::container)).
pub fn read<R: Read + Send + 'static>(
    format: &'static Format,
    input: R,
    options: &ReadOptions,
) -> Result<Box<dyn Source + Send>, Error> {
    let in_file_order = (format.reader)(format, Box::new(input), options)?;
    order::ordered(in_file_order, options.out_of_order)
}

/// Writes a trace. [`Sink::finish`] must be called at the end.
pub fn write<'a>(
    format: &'static Format,
    output: impl Write + 'a,
    options: &WriteOptions,
) -> Result<Box<dyn Sink + 'a>, Error> {
    let writer = format.writer.ok_or_else(|| Error::Option {
        name: "format",
        value: format!("{}, which is only read", format.name),
        wanted: FORMATS.iter().filter(|each| each.is_written()).map(|each| each.name).collect::<Vec<_>>().join(", "),
    })?;
    Ok(writer(format, Box::new(output), options))
}
