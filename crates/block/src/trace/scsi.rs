//! SCSI commands that traces hold, and what they do (SCSI Block Commands, SBC-3).

use crate::{Fault, Kind};

const COMMANDS: &str = "a SCSI read (08, 28, 88, a8), write (0a, 2a, 8a, aa; 2e, 8e, ae), \
                        UNMAP (42) or SYNCHRONIZE CACHE (35, 91)";

#[inline(always)]
pub(super) fn kind(command: u32) -> Result<Kind, Fault> {
    match command {
        0x08 | 0x28 | 0x88 | 0xa8 => Ok(Kind::Read),
        0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Ok(Kind::Write),
        0x42 => Ok(Kind::Trim),
        0x35 | 0x91 => Ok(Kind::Flush),
        other => Err(unknown(other)),
    }
}

/// What a hexadecimal command does.
pub(super) fn hexadecimal(field: &[u8]) -> Result<Kind, Fault> {
    let of_a_byte = field.strip_prefix(b"0x").unwrap_or(field).len() <= 2;
    match super::fields::hexadecimal(field) {
        Some(command) if of_a_byte => kind(command),
        _ => Err(Fault::field("command", field, COMMANDS)),
    }
}

#[cold]
fn unknown(command: u32) -> Fault {
    Fault::field("command", format!("{command:02x}").as_bytes(), COMMANDS)
}

/// The command of ten bytes that does it.
pub(super) const fn command(kind: Kind) -> u16 {
    match kind {
        Kind::Read => 0x28,
        Kind::Write => 0x2a,
        Kind::Trim => 0x42,
        Kind::Flush => 0x35,
    }
}
