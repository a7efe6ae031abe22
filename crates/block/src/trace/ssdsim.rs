//! `SSDSim`'s ascii traces: arrival in nanoseconds, ASU, first sector, sectors, type.
//!
//! The type is 1 for a read and 0 for a write. `MQSim`'s traces have the same columns with the same meaning.

use super::fields::SECTOR_BYTES;
use super::format::{Form, Format, READ_WRITE};
use super::nanosecond_lines::{NanosecondLines, NanosecondParser};
use super::sink::EncodingSink;
use super::text::{TextSource, probe};

pub(super) const FORMAT: Format = Format {
    name: "ssdsim",
    about: "SSDSim's ascii traces",
    endings: &[".ssdsim"],
    form: Form::Text,
    columns: "arrival in nanoseconds, device, first sector, sectors, 1 (read) or 0 (write)",
    resolution_ns: 1,
    offset_grain_bytes: SECTOR_BYTES,
    length_grain_bytes: SECTOR_BYTES,
    devices_up_to: u32::MAX,
    kinds: READ_WRITE,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(TextSource::new(format, input, NanosecondParser, options))),
    writer: |format, output, options| Ok(EncodingSink::boxed(format, output, options, "", NanosecondLines)),
    probe: |format, head| probe(format, head, NanosecondParser),
};
