//! Commands as an NVMe host encodes them, for the clients of both transports, probes and tests.
//!
//! Tests make wrong ones of them, so nothing is checked here.

use std::borrow::Cow;

use super::Request;
use crate::transport::nvme::u64_at;

const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// A controller's configuration: enabled, with entries of 64 and 16 bytes.
pub const ENABLED: u32 = 0x0046_0001;

/// Where a data pointer leads: into the capsule, or to units of their own.
pub const IN_CAPSULE: u8 = 0x01;
pub const IN_UNITS: u8 = 0x5a;

/// A submission queue entry.
#[derive(Debug, Clone, Copy)]
pub struct Entry(pub [u8; 64]);

impl Entry {
    /// A command without data, with a pointer as fabrics have it.
    pub fn new(opcode: u8, id: u16) -> Self {
        let mut entry = [0; 64];
        (entry[0], entry[1], entry[39]) = (opcode, 0x40, IN_UNITS);
        entry[2..4].copy_from_slice(&id.to_le_bytes());
        Self(entry)
    }

    pub fn namespace(self, namespace: u32) -> Self {
        self.word(1, namespace)
    }

    pub fn word(mut self, number: usize, value: u32) -> Self {
        self.0[4 * number..4 * number + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// Words `number` and the next as one.
    pub fn double_word(self, number: usize, value: u64) -> Self {
        self.word(number, value as u32).word(number + 1, (value >> 32) as u32)
    }

    /// A scatter-gather descriptor of this kind.
    pub fn pointer(mut self, kind: u8, offset: u64, length: u32) -> Self {
        self.0[39] = kind;
        self.double_word(6, offset).word(8, length)
    }

    /// Physical region pages: the first, and the second or a list of those behind it.
    pub fn pages(mut self, pages: (u64, u64)) -> Self {
        self.0[1] = 0;
        self.double_word(6, pages.0).double_word(8, pages.1)
    }

    /// A command of fabrics of this type.
    pub fn fabrics(mut self, kind: u8) -> Self {
        self.0[4] = kind;
        self
    }

    pub fn blocks(self, first: u64, count: u32) -> Self {
        self.namespace(1).double_word(10, first).word(12, count.wrapping_sub(1))
    }
}

/// Connects a queue.
pub fn connect(queue: u16, entries: u16, keep_alive_ms: u32) -> Entry {
    let entry = Entry::new(0x7f, 0).namespace(1).pointer(IN_CAPSULE, 0, 1024);
    let entry = entry.word(10, u32::from(queue) << 16).word(11, u32::from(entries - 1));
    entry.word(12, keep_alive_ms)
}

pub fn connect_data(controller: u16, subsystem: &str, host: &str, host_id: [u8; 16]) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[..16].copy_from_slice(&host_id);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    for (at, text) in [(256, subsystem), (512, host)] {
        let bytes = text.len().min(255);
        data[at..at + bytes].copy_from_slice(&text.as_bytes()[..bytes]);
    }
    data
}

/// Reads a property of four bytes.
pub fn property(offset: u32) -> Entry {
    Entry::new(0x7f, 2).namespace(4).word(11, offset)
}

/// Sets the controller's configuration.
pub fn configure(to: u32) -> Entry {
    Entry::new(0x7f, 1).word(11, 0x14).word(12, to)
}

/// Size and block size of a namespace in bytes, as Identify has them.
pub fn size_and_block_bytes(described: &[u8]) -> (u64, u32) {
    let block_bytes = 1_u32 << (described.get(130).copied().unwrap_or(0) & 31);
    (u64_at(described, 0).saturating_mul(block_bytes.into()), block_bytes)
}

/// The command for a request, without the pointer to its data; how many bytes it reads, and those that it sends.
pub fn encode<'a>(request: &Request<'a>, id: u16, namespace: u32, block_bytes: u32) -> (Entry, usize, Cow<'a, [u8]>) {
    let over = |opcode: u8, offset_bytes: u64, length_bytes: u32| {
        let entry = Entry::new(opcode, id).blocks(offset_bytes / u64::from(block_bytes), length_bytes / block_bytes);
        entry.namespace(namespace)
    };
    match *request {
        Request::Flush => (Entry::new(0x00, id).namespace(namespace), 0, Cow::default()),
        Request::Read { offset_bytes, length_bytes } => {
            (over(0x02, offset_bytes, length_bytes), length_bytes as usize, Cow::default())
        }
        Request::Write { offset_bytes, data, fua } => {
            let blocks = data.len() as u32 / block_bytes;
            let fua = if fua { FORCE_UNIT_ACCESS } else { 0 };
            let entry = over(0x01, offset_bytes, data.len() as u32);
            (entry.word(12, blocks.wrapping_sub(1) | fua), 0, data.into())
        }
        Request::WriteZeroes { offset_bytes, length_bytes } => {
            (over(0x08, offset_bytes, length_bytes), 0, Cow::default())
        }
        Request::Trim { offset_bytes, length_bytes } => {
            let blocks = u64::from(length_bytes / block_bytes);
            let range = [blocks << 32, offset_bytes / u64::from(block_bytes)].map(u64::to_le_bytes).concat();
            (Entry::new(0x09, id).namespace(namespace).word(11, 4), 0, range.into())
        }
    }
}
