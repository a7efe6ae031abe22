//! Messages as hosts make them, by hand, so that tests can make them wrong: units of NVMe over TCP, and of NBD in a
//! module of its own.

#![allow(dead_code)] // each test file uses what it needs

pub mod nbd;

use ioassay_device::client::nvme;
pub use ioassay_device::client::nvme::{ENABLED, Entry, configure, connect, property};

/// A unit: its header is `header` after the common eight bytes, and digests as asked for.
pub fn unit(kind: u8, flags: u8, header: &[u8], data: &[u8], digests: (bool, bool)) -> Vec<u8> {
    let header_bytes = 8 + header.len();
    let with_digest = header_bytes + if digests.0 { 4 } else { 0 };
    let offset = if data.is_empty() { 0 } else { with_digest };
    let data_digest = digests.1 && !data.is_empty();
    let whole = with_digest + data.len() + if data_digest { 4 } else { 0 };
    let flags = flags | u8::from(digests.0) | (u8::from(data_digest) << 1);
    let mut bytes = vec![kind, flags, header_bytes as u8, offset as u8];
    bytes.extend_from_slice(&(whole as u32).to_le_bytes());
    bytes.extend_from_slice(header);
    if digests.0 {
        let digest = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&digest.to_le_bytes());
    }
    bytes.extend_from_slice(data);
    if data_digest {
        bytes.extend_from_slice(&crc32c::crc32c(data).to_le_bytes());
    }
    bytes
}

pub fn initialize(alignment: u8, digests: u8) -> Vec<u8> {
    let mut header = [0; 120];
    (header[2], header[3]) = (alignment, digests);
    unit(0, 0, &header, &[], (false, false))
}

/// A command as a unit.
pub trait Capsule {
    fn capsule(&self, data: &[u8], digests: (bool, bool)) -> Vec<u8>;

    fn alone(&self) -> Vec<u8> {
        self.capsule(&[], (false, false))
    }
}

impl Capsule for Entry {
    fn capsule(&self, data: &[u8], digests: (bool, bool)) -> Vec<u8> {
        unit(4, 0, &self.0, data, digests)
    }
}

pub fn event(id: u16) -> Vec<u8> {
    Entry::new(0x0c, id).alone()
}

pub fn set(feature: u32, value: u32) -> Entry {
    Entry::new(9, 3).word(10, feature).word(11, value)
}

pub fn get(feature: u32) -> Entry {
    Entry::new(0x0a, 3).word(10, feature)
}

pub fn connect_data(controller: u16, subsystem: &str, host: &str) -> Vec<u8> {
    nvme::connect_data(controller, subsystem, host, [1; 16])
}

/// Data for a command that asked for them.
pub fn data(command: u16, transfer: u16, offset: u32, last: bool, data: &[u8]) -> Vec<u8> {
    let mut header = [0; 16];
    header[0..2].copy_from_slice(&command.to_le_bytes());
    header[2..4].copy_from_slice(&transfer.to_le_bytes());
    header[4..8].copy_from_slice(&offset.to_le_bytes());
    header[8..12].copy_from_slice(&(data.len() as u32).to_le_bytes());
    unit(6, if last { 4 } else { 0 }, &header, data, (false, false))
}

/// What a controller sent, one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    Initialized { digests: u8, most_data: u32 },
    Completed { id: u16, status: u16, result: u64, head: u16 },
    Data { id: u16, data: Vec<u8>, success: bool },
    Asks { id: u16, transfer: u16, length: u32 },
    Ends { status: u16, about: u32 },
}

/// All that a controller sent. Digests are taken for right.
pub fn units(mut bytes: &[u8]) -> Vec<Unit> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | (u32::from(u16_at(at + 2)) << 16);
        let whole = u32_at(4) as usize;
        all.push(match bytes[0] {
            1 => Unit::Initialized { digests: bytes[11], most_data: u32_at(12) },
            3 => Unit::Ends { status: u16_at(8), about: u32_at(10) },
            5 => Unit::Completed {
                id: u16_at(20),
                status: u16_at(22) >> 1,
                result: u64::from(u32_at(8)) | (u64::from(u32_at(12)) << 32),
                head: u16_at(16),
            },
            7 => {
                let start = usize::from(bytes[3]);
                let data = bytes[start..start + u32_at(16) as usize].to_vec();
                Unit::Data { id: u16_at(8), data, success: bytes[1] & 8 != 0 }
            }
            9 => Unit::Asks { id: u16_at(8), transfer: u16_at(10), length: u32_at(16) },
            other => panic!("a controller does not send units of type {other}"),
        });
        bytes = &bytes[whole..];
    }
    all
}

/// Number, status and result of each command that is complete.
pub fn completions(said: &[Unit]) -> Vec<(u16, u16, u64)> {
    let complete = said.iter().filter_map(|said| match *said {
        Unit::Completed { id, status, result, .. } => Some((id, status, result)),
        _ => None,
    });
    complete.collect()
}

/// Those of the command that is complete, which is all that was sent.
pub fn completed(said: &[Unit]) -> (u16, u16, u64) {
    assert_eq!((said.len(), completions(said).len()), (1, 1), "{said:?}");
    completions(said)[0]
}

/// The data of a command that is complete, or its status.
pub fn fetched(said: &[Unit]) -> Result<Vec<u8>, u16> {
    match said {
        [Unit::Data { data, .. }, Unit::Completed { status: 0, .. }] => Ok(data.clone()),
        [Unit::Completed { status, .. }] => Err(*status),
        other => panic!("{other:?}"),
    }
}

/// Why the connection ends, which is the last that was sent.
pub fn end_of(said: &[Unit]) -> (u16, u32) {
    match said.last() {
        Some(&Unit::Ends { status, about }) => (status, about),
        other => panic!("{other:?}"),
    }
}

pub fn status_of(said: &[Unit]) -> u16 {
    completed(said).1
}
