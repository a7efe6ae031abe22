//! Numbers and layouts of the protocol (the NBD project's own document), all big-endian. What they mean is the matter of
//! the handshake and the session.

/// First words of the server.
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT": second words, and the beginning of every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The beginning of every answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The beginning of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The beginning of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The beginning of a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request without its data.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an option without its data.
pub const OPTION_BYTES: usize = 16;
/// Data of the longest request: what the document tells clients to assume.
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;

/// Handshake flags of both sides.
pub mod hello {
    /// The negotiation goes on after an option that is not known.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zeroes after `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of answers to options.
pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = 0x8000_0001;
    pub const ERR_INVALID: u32 = 0x8000_0003;
    pub const ERR_TLS_REQD: u32 = 0x8000_0005;
    pub const ERR_UNKNOWN: u32 = 0x8000_0006;
}

/// Subjects of answers of type [`reply::INFO`].
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

pub mod can {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const FLUSH: u16 = 1 << 2;
    pub const FUA: u16 = 1 << 3;
    pub const TRIM: u16 = 1 << 5;
    pub const WRITE_ZEROES: u16 = 1 << 6;
    pub const DF: u16 = 1 << 7;
    pub const MULTI_CONN: u16 = 1 << 8;
    pub const CACHE: u16 = 1 << 10;
    pub const FAST_ZERO: u16 = 1 << 11;
}

pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

pub mod flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 2;
    pub const DF: u16 = 4;
    pub const REQ_ONE: u16 = 8;
    pub const FAST_ZERO: u16 = 16;
}

pub mod error {
    pub const PERM: u32 = 1;
    pub const IO: u32 = 5;
    pub const INVALID: u32 = 22;
    pub const NO_SPACE: u32 = 28;
    pub const OVERFLOW: u32 = 75;
    pub const NOT_SUPPORTED: u32 = 95;
    pub const SHUTDOWN: u32 = 108;
}

pub mod chunk {
    pub const DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 0x8001;
}

/// The context in which clients may ask what is allocated, and what its numbers mean.
pub mod allocation {
    pub const NAME: &[u8] = b"base:allocation";
    /// The beginning of the names of its family, which stands for all of them in lists.
    pub const FAMILY: &[u8] = b"base:";
    /// The number that answers carry.
    pub const ID: u32 = 1;
    /// Flags of an extent that reads as zeroes and is not allocated.
    pub const HOLE: u32 = 1 | 2;
}

/// A number at the place `at`, which must be there.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).map_or(0, u16::from_be_bytes)
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// A request without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub flags: u16,
    pub kind: u16,
    /// The client's own number, which the reply gives back.
    pub cookie: u64,
    pub offset_bytes: u64,
    pub length_bytes: u32,
}

impl Request {
    /// `None` if the bytes do not begin as requests do. They are [`REQUEST_BYTES`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        (u32_at(bytes, 0) == REQUEST_MAGIC).then(|| Self {
            flags: u16_at(bytes, 4),
            kind: u16_at(bytes, 6),
            cookie: u64_at(bytes, 8),
            offset_bytes: u64_at(bytes, 16),
            length_bytes: u32_at(bytes, 24),
        })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.length_bytes.to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}
