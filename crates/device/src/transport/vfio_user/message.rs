//! Messages of vfio-user (the specification in QEMU's documentation, `docs/interop/vfio-user.rst`): their
//! headers, numbers, and structures. All numbers are of this machine's order, which is little-endian.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::transport::nvme::{u16_at, u32_at};

pub const HEADER_BYTES: usize = 16;

/// Data of the longest access to a region: clients are told so.
pub const MOST_DATA_BYTES: usize = 4096;

/// Bytes of the longest message: data, and structures before them.
pub const MOST_MESSAGE_BYTES: usize = HEADER_BYTES + MOST_DATA_BYTES + 256;

/// Descriptors that may come with a message: clients are told so.
pub const MOST_DESCRIPTORS: usize = 64;

pub const MINOR_VERSION: u16 = 1;

pub mod command {
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const DEVICE_GET_INFO: u16 = 4;
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub const DEVICE_SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const DEVICE_RESET: u16 = 13;
}

pub mod flag {
    pub const TYPE: u32 = 0xf;
    pub const REPLY: u32 = 1;
    pub const NO_REPLY: u32 = 1 << 4;
    pub const ERROR: u32 = 1 << 5;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The client's number of the message.
    pub id: u16,
    pub command: u16,
    pub bytes: usize,
    pub flags: u32,
}

impl Header {
    /// The header at the beginning of a message; `None` for one that no client may send: too short, too
    /// long, or a reply.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let header = Self {
            id: u16_at(bytes, 0),
            command: u16_at(bytes, 2),
            bytes: u32_at(bytes, 4) as usize,
            flags: u32_at(bytes, 8),
        };
        let fits = (HEADER_BYTES..=MOST_MESSAGE_BYTES).contains(&header.bytes);
        (fits && header.flags & flag::TYPE == 0).then_some(header)
    }
}

/// A message to be sent, or its body.
#[derive(Debug, Default)]
pub struct Message {
    pub bytes: Vec<u8>,
    /// A descriptor that goes with it.
    pub descriptor: Option<OwnedFd>,
}

impl Message {
    /// The reply to a message: its body, or what went wrong.
    pub fn reply(to: &Header, done: Result<Self, Errno>) -> Self {
        let (body, flags, error) = match done {
            Ok(body) => (body, flag::REPLY, 0),
            Err(error) => (Self::default(), flag::REPLY | flag::ERROR, error.raw_os_error() as u32),
        };
        let length_bytes = (HEADER_BYTES + body.bytes.len()) as u32;
        let mut bytes = [to.id, to.command].map(u16::to_le_bytes).concat();
        bytes.extend([length_bytes, flags, error].map(u32::to_le_bytes).as_flattened());
        bytes.extend(body.bytes);
        Self { bytes, descriptor: body.descriptor }
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, descriptor: None }
    }
}
