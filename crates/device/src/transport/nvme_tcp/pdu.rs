//! Protocol data units: how they are framed, and what is wrong with those that are not (NVMe/TCP
//! Transport Specification 1.0, section 3.6). All numbers are little-endian.

pub use crate::transport::nvme::{IN_CAPSULE_BYTES, u16_at, u32_at, u64_at};

pub mod kind {
    pub const IC_REQ: u8 = 0;
    pub const IC_RESP: u8 = 1;
    pub const H2C_TERM_REQ: u8 = 2;
    pub const C2H_TERM_REQ: u8 = 3;
    pub const CAPSULE_CMD: u8 = 4;
    pub const CAPSULE_RESP: u8 = 5;
    pub const H2C_DATA: u8 = 6;
    pub const C2H_DATA: u8 = 7;
    pub const R2T: u8 = 9;
}

/// Flags of the common header.
pub mod flag {
    pub const HEADER_DIGEST: u8 = 1;
    pub const DATA_DIGEST: u8 = 2;
    pub const LAST: u8 = 4;
    pub const SUCCESS: u8 = 8;
}

/// Bytes of the header that all have in common.
pub const COMMON_BYTES: usize = 8;
/// Bytes of an initialization request and response.
pub const IC_BYTES: usize = 128;
/// Bytes of a command capsule's header: the common one and a submission queue entry.
pub const COMMAND_BYTES: usize = 72;
/// Bytes of the headers of all others.
pub const SHORT_BYTES: usize = 24;

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;

/// Data of the longest `H2CData`.
pub const MAX_H2C_DATA_BYTES: usize = 128 << 10;
/// Longest copy of a header in a termination request.
const MAX_TERM_BYTES: usize = SHORT_BYTES + 128;

/// The digest of headers and data as it is sent: CRC-32C, its least significant byte first (section 3.3.1).
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// Why a connection cannot go on (section 3.6.2.4), and where in the header it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fatal {
    pub status: u16,
    /// The offset of the field that is wrong, or the digest that came.
    pub information: u32,
}

impl Fatal {
    /// A field of the header has a value that is not allowed.
    pub fn field(at: u32) -> Self {
        Self { status: 1, information: at }
    }

    /// This came at a time when it must not.
    pub const SEQUENCE: Self = Self { status: 2, information: 0 };
    /// Data beyond what was asked for.
    pub const OUT_OF_RANGE: Self = Self { status: 4, information: 0 };
    /// More data at a time than was agreed on.
    pub const LIMIT: Self = Self { status: 5, information: 0 };
    /// The version, at its offset, is not supported.
    pub const UNSUPPORTED: Self = Self { status: 6, information: 8 };
}

/// Which digests were agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digests {
    pub header: bool,
    pub data: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pdu<'a> {
    pub kind: u8,
    pub flags: u8,
    /// The whole header without its digest.
    pub header: &'a [u8],
    pub data: &'a [u8],
    /// Whether its data are what their digest says.
    pub intact: bool,
    /// Bytes of all of it.
    pub bytes: usize,
}

/// Reads the unit at the beginning of `bytes`; if it is not there as a whole, how long it has to be.
pub fn frame(bytes: &[u8], digests: Digests) -> Result<Result<Pdu<'_>, usize>, Fatal> {
    if bytes.len() < COMMON_BYTES {
        return Ok(Err(COMMON_BYTES));
    }
    let whole = check_lengths(bytes, digests)?;
    if bytes.len() < whole {
        return Ok(Err(whole));
    }
    let (kind, flags, header_bytes) = (bytes[0], bytes[1], usize::from(bytes[2]));
    let (header, rest) = bytes[..whole].split_at(header_bytes);
    if digests.header && has_digests(kind) {
        let came = &rest[..DIGEST_BYTES];
        if came != digest(header) {
            return Err(Fatal { status: 3, information: u32_at(came, 0) });
        }
    }
    let with_digest = header_bytes + if digests.header { DIGEST_BYTES } else { 0 };
    let offset = usize::from(bytes[3]);
    let (data, intact) = if !has_digests(kind) || whole <= with_digest {
        (&[][..], true)
    } else if flags & flag::DATA_DIGEST == 0 {
        // Agreed on and yet left out, the data are not what they should be.
        (&bytes[offset..whole], !digests.data)
    } else {
        let (data, came) = bytes[offset..whole].split_at(whole - offset - DIGEST_BYTES);
        (data, came == digest(data))
    };
    Ok(Ok(Pdu { kind, flags, header, data, intact, bytes: whole }))
}

fn has_digests(kind: u8) -> bool {
    !matches!(kind, kind::IC_REQ | kind::H2C_TERM_REQ)
}

/// Looks at the common header: the length of the whole.
fn check_lengths(bytes: &[u8], digests: Digests) -> Result<usize, Fatal> {
    let (kind, flags, header, offset) = (bytes[0], bytes[1], usize::from(bytes[2]), usize::from(bytes[3]));
    let whole = u32_at(bytes, 4) as usize;
    let (wanted, allowed, most_data) = match kind {
        kind::IC_REQ => (IC_BYTES, 0, 0),
        kind::H2C_TERM_REQ => (SHORT_BYTES, 0, MAX_TERM_BYTES),
        kind::CAPSULE_CMD => (COMMAND_BYTES, flag::HEADER_DIGEST | flag::DATA_DIGEST, IN_CAPSULE_BYTES),
        kind::H2C_DATA => (SHORT_BYTES, flag::HEADER_DIGEST | flag::DATA_DIGEST | flag::LAST, MAX_H2C_DATA_BYTES),
        _ => return Err(Fatal::field(0)),
    };
    let agrees = !has_digests(kind) || (flags & flag::HEADER_DIGEST != 0) == digests.header;
    if flags & !allowed != 0 || !agrees || (flags & flag::DATA_DIGEST != 0 && !digests.data) {
        return Err(Fatal::field(1));
    }
    if header != wanted {
        return Err(Fatal::field(2));
    }
    let with_digest = header + if digests.header && has_digests(kind) { DIGEST_BYTES } else { 0 };
    if whole < with_digest || whole > usize::from(u8::MAX) + most_data + DIGEST_BYTES {
        return Err(Fatal::field(4));
    }
    // Data begin where the header says, whole words from its own end on.
    let has_data = whole > with_digest && kind != kind::H2C_TERM_REQ;
    let digest_bytes = if flags & flag::DATA_DIGEST != 0 { DIGEST_BYTES } else { 0 };
    if has_data && (offset < with_digest || offset % 4 != 0 || offset + digest_bytes > whole) {
        return Err(Fatal::field(3));
    }
    Ok(whole)
}

/// Appends a request to end the connection, with the header that it is about.
pub fn terminate(fatal: Fatal, about: &[u8], out: &mut Vec<u8>) {
    let about = &about[..about.len().min(128)];
    let mut header = [0; SHORT_BYTES];
    header[0] = kind::C2H_TERM_REQ;
    header[2] = SHORT_BYTES as u8;
    header[4..8].copy_from_slice(&((SHORT_BYTES + about.len()) as u32).to_le_bytes());
    header[8..10].copy_from_slice(&fatal.status.to_le_bytes());
    header[10..14].copy_from_slice(&fatal.information.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(about);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_are_those_of_rfc_3720() {
        // RFC 3720, appendix B.4, in the order in which they are sent.
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        assert_eq!(digest(&rising), [0x4e, 0x79, 0xdd, 0x46]);
    }
}
