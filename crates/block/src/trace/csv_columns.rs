//! What the columns of a CSV trace are, by their names.

use super::{CsvColumns, Unit};
use crate::Fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Time(Unit),
    Kind,
    /// An offset, in units of so many bytes.
    Offset(u64),
    /// A length, in units of so many bytes.
    Length(u64),
    Device,
    Ignored,
}

/// The column of faults that a header's names have.
pub(super) const COLUMN_NAME: &str = "column name";

const SECTOR: u64 = super::fields::SECTOR_BYTES;
const NAMES: &str = "names with a time, a kind, an offset and a length, each once: \
                     time_s|ms|us|ns, kind|op, offset|lba|lbn|sector, length|size|sectors";

/// The roles of columns that are so called.
pub(super) fn roles<'a>(names: impl Iterator<Item = &'a [u8]>, given: &CsvColumns) -> Result<Vec<Role>, Fault> {
    let mut roles = Vec::new();
    for name in names {
        let name = name.trim_ascii();
        let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
        roles.push(role(&lower, given).map_err(|wanted| Fault::field(COLUMN_NAME, name, wanted))?);
    }
    let once = |is: fn(&Role) -> bool| roles.iter().filter(|role| is(role)).count() == 1;
    let complete = once(|role| matches!(role, Role::Time(_)))
        && once(|role| *role == Role::Kind)
        && once(|role| matches!(role, Role::Offset(_)))
        && once(|role| matches!(role, Role::Length(_)))
        && roles.iter().filter(|role| **role == Role::Device).count() <= 1;
    if complete { Ok(roles) } else { Err(incomplete()) }
}

fn incomplete() -> Fault {
    Fault::form(b"the header", NAMES)
}

fn role(name: &str, given: &CsvColumns) -> Result<Role, &'static str> {
    let offset = |bytes| Role::Offset(given.offset_unit_bytes.unwrap_or(bytes));
    let length = |bytes| Role::Length(given.length_unit_bytes.unwrap_or(bytes));
    Ok(match name {
        "op" | "kind" | "type" | "opcode" | "rw" => Role::Kind,
        "offset" | "offset_bytes" => offset(1),
        "lba" | "lbn" | "sector" | "offset_sectors" | "first_sector" => offset(SECTOR),
        "size" | "length" | "bytes" | "size_bytes" | "length_bytes" => length(1),
        "sectors" | "size_sectors" | "length_sectors" => length(SECTOR),
        "device" | "disk" | "volume" | "asu" | "device_id" => Role::Device,
        _ => match time_unit(name) {
            None => Role::Ignored,
            Some(None) => Role::Time(
                given.time_unit.ok_or("a time with its unit, such as time_us (or the unit with --time-unit)")?,
            ),
            Some(Some(unit)) => Role::Time(unit),
        },
    })
}

/// Whether a column is a time's, and the unit that its name has.
#[allow(clippy::option_option, reason = "no time, a time without unit, a time with one")]
fn time_unit(name: &str) -> Option<Option<Unit>> {
    let rest =
        name.strip_prefix("timestamp").or_else(|| name.strip_prefix("time")).or_else(|| name.strip_prefix("at"))?;
    match rest {
        "" if name != "at" => Some(None),
        "_s" => Some(Some(Unit::Seconds)),
        "_ms" => Some(Some(Unit::Milliseconds)),
        "_us" => Some(Some(Unit::Microseconds)),
        "_ns" => Some(Some(Unit::Nanoseconds)),
        _ => None,
    }
}
