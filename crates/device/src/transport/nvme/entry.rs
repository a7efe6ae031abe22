//! Submission and completion queue entries, and the little-endian numbers in them.

use super::status::{self, Status};
use crate::command::DriveInfo;

/// A number at the place `at`, or 0 beyond the end.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).map_or(0, u16::from_le_bytes)
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Bytes of a submission queue entry.
pub const SUBMISSION_BYTES: usize = 64;

/// The opcode of all commands of fabrics.
pub const FABRICS: u8 = 0x7f;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    bytes: [u8; SUBMISSION_BYTES],
    /// Whether its data are found by physical region pages, which say nothing of their length.
    has_pages: bool,
}

/// Where a command's data are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pointer {
    /// In the capsule, from this byte on.
    InCapsule { offset_bytes: u64, length_bytes: u32 },
    /// In units of their own.
    Transport { length_bytes: u32 },
}

impl Submission {
    /// The entry in a capsule's header; what is missing is zero.
    pub fn read(header: &[u8]) -> Self {
        let mut bytes = [0; SUBMISSION_BYTES];
        if let Some(entry) = header.get(8..8 + SUBMISSION_BYTES) {
            bytes.copy_from_slice(entry);
        }
        Self { bytes, has_pages: false }
    }

    /// An entry of a queue in the host's memory, whose data are in physical region pages.
    pub fn with_pages(bytes: [u8; SUBMISSION_BYTES]) -> Self {
        Self { bytes, has_pages: true }
    }

    /// Its physical region pages: the first, and the second or a list of those behind it.
    pub fn pages(&self) -> (u64, u64) {
        (u64_at(&self.bytes, 24), u64_at(&self.bytes, 32))
    }

    pub fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    pub fn fabrics_type(&self) -> u8 {
        self.bytes[4]
    }

    /// Whether it is one half of a fused pair.
    pub fn is_fused(&self) -> bool {
        self.bytes[1] & 3 != 0
    }

    /// The host's number of it.
    pub fn id(&self) -> u16 {
        u16_at(&self.bytes, 2)
    }

    pub fn namespace(&self) -> u32 {
        u32_at(&self.bytes, 4)
    }

    pub fn word(&self, number: usize) -> u32 {
        u32_at(&self.bytes, 4 * number)
    }

    /// Words `number` and the next as one.
    pub fn double_word(&self, number: usize) -> u64 {
        u64_at(&self.bytes, 4 * number)
    }

    /// Whether data come from the host: the lowest bits of the opcode say so.
    pub fn takes_data(&self) -> bool {
        let direction = if self.opcode() == FABRICS { self.fabrics_type() } else { self.opcode() };
        direction & 3 == 1
    }

    pub fn pointer(&self) -> Result<Pointer, Status> {
        if !matches!(self.bytes[1] >> 6, 1 | 2) {
            return Err(status::INVALID_FIELD);
        }
        let (address, length_bytes) = (u64_at(&self.bytes, 24), u32_at(&self.bytes, 32));
        match self.bytes[39] {
            0x01 => Ok(Pointer::InCapsule { offset_bytes: address, length_bytes }),
            0x5a => Ok(Pointer::Transport { length_bytes }),
            _ => Err(status::SGL_TYPE_INVALID),
        }
    }

    /// How many bytes the host has room for, as far as it says.
    pub fn room(&self) -> Result<usize, Status> {
        if self.has_pages {
            let is_list = self.bytes[1] >> 6 != 0;
            return if is_list { Err(status::INVALID_FIELD) } else { Ok(usize::MAX) };
        }
        match self.pointer()? {
            Pointer::Transport { length_bytes } => Ok(length_bytes as usize),
            Pointer::InCapsule { .. } => Err(status::SGL_TYPE_INVALID),
        }
    }

    /// Checks that the host has room for this number of bytes, and for no more where it says how many.
    pub fn check_room(&self, bytes: u64) -> Result<(), Status> {
        if self.room()? as u64 == bytes || self.has_pages { Ok(()) } else { Err(status::SGL_LENGTH_INVALID) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Command-specific result, dwords 0 and 1.
    pub result: u64,
    /// How far the submission queue is.
    pub head: u16,
    pub queue: u16,
    /// The host's number of the command.
    pub id: u16,
    pub status: Status,
}

impl Completion {
    pub fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..8].copy_from_slice(&self.result.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.head.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.queue.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.id.to_le_bytes());
        bytes[14..16].copy_from_slice(&(self.status.0 << 1).to_le_bytes());
        bytes
    }
}

/// The immediate outcome of a command that is not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The command is complete, with a result.
    Done(u64),
    /// The command is complete, and gives data to the host.
    Data(Vec<u8>),
    /// The command completes when the drive has answered its requests, or when an event happens.
    Later,
}

/// Where blocks of a namespace lie within it: first byte and number of bytes.
pub fn placed(first: u64, blocks: u64, facts: &DriveInfo) -> Result<(u64, u64), Status> {
    let block = u64::from(facts.block_bytes.max(1));
    let end = first.checked_add(blocks).ok_or(status::LBA_OUT_OF_RANGE)?;
    if end > facts.size_bytes / block {
        return Err(status::LBA_OUT_OF_RANGE);
    }
    Ok((first * block, blocks * block))
}

pub const IDENTIFY_BYTES: usize = 4096;

/// A page of this length with some fields in it, each at its place.
pub fn page<const N: usize>(fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut page = vec![0; N];
    for (at, bytes) in fields {
        page[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    page
}

/// A field of text: padded with spaces, and cut.
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = if (0x20..0x7f).contains(&from) { from } else { b'?' };
    }
    field
}
