//! Data of writes that were asked for and come in units of their own, in a bounded memory.

use std::collections::VecDeque;

use super::entry::Submission;
use super::pdu::{Fatal, MAX_H2C_DATA_BYTES, Pdu, flag, u16_at, u32_at};

/// Memory for data that one connection's commands are waiting for; more of them wait for memory.
const MAX_BYTES: usize = 8 << 20;

/// Buffers that are kept for the next command.
const MAX_SPARE: usize = 8;

/// One command that waits for its data.
#[derive(Debug)]
struct Transfer {
    command: Submission,
    data: Vec<u8>,
    length_bytes: usize,
    intact: bool,
}

/// All of a connection.
#[derive(Debug, Default)]
pub struct Transfers {
    /// By the number that the host is told.
    active: Vec<Option<Transfer>>,
    waiting: VecDeque<(Submission, usize)>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

/// Data that are complete.
#[derive(Debug)]
pub struct Complete {
    /// Of this command.
    pub command: Submission,
    /// They.
    pub data: Vec<u8>,
    /// Whether all their digests agreed.
    pub intact: bool,
}

/// What the host is to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The command's number.
    pub command: u16,
    /// The transfer's number.
    pub transfer: u16,
    /// How many bytes.
    pub length_bytes: u32,
}

impl Transfers {
    /// A command needs so many bytes; they are asked for when there is memory.
    pub fn want(&mut self, command: Submission, length_bytes: usize) {
        self.waiting.push_back((command, length_bytes));
    }

    /// The next that the host is to be asked for.
    pub fn next(&mut self) -> Option<Ask> {
        let (_, length_bytes) = *self.waiting.front()?;
        if self.bytes > 0 && self.bytes + length_bytes > MAX_BYTES {
            return None;
        }
        let (command, length_bytes) = self.waiting.pop_front()?;
        self.bytes += length_bytes;
        let at = self
            .active
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.active.len());
        if at == self.active.len() {
            self.active.push(None);
        }
        let data = self.spare.pop().unwrap_or_default();
        self.active[at] = Some(Transfer {
            command,
            data,
            length_bytes,
            intact: true,
        });
        Some(Ask {
            command: command.id(),
            transfer: at as u16,
            length_bytes: length_bytes as u32,
        })
    }

    /// Data arrived.
    ///
    /// # Errors
    /// They are not what was asked for (section 3.3.2 of the transport specification: in order, and
    /// marked where they end).
    pub fn received(&mut self, pdu: &Pdu<'_>) -> Result<Option<Complete>, Fatal> {
        let at = usize::from(u16_at(pdu.header, 10));
        let (offset, length) = (
            u32_at(pdu.header, 12) as usize,
            u32_at(pdu.header, 16) as usize,
        );
        let Some(Some(transfer)) = self.active.get_mut(at) else {
            return Err(Fatal::field(10));
        };
        if u16_at(pdu.header, 8) != transfer.command.id() {
            return Err(Fatal::field(8));
        }
        if length > MAX_H2C_DATA_BYTES {
            return Err(Fatal::LIMIT);
        }
        if length != pdu.data.len() || length == 0 {
            return Err(Fatal::field(16));
        }
        if offset != transfer.data.len() || offset + length > transfer.length_bytes {
            return Err(Fatal::OUT_OF_RANGE);
        }
        let ends = offset + length == transfer.length_bytes;
        if ends != (pdu.flags & flag::LAST != 0) {
            return Err(Fatal::field(1));
        }
        transfer.data.extend_from_slice(pdu.data);
        transfer.intact &= pdu.intact;
        let complete = if ends { self.active[at].take() } else { None };
        Ok(complete.map(|done| Complete {
            command: done.command,
            data: done.data,
            intact: done.intact,
        }))
    }

    /// Memory of the same bound is used for a copy, until it is released.
    pub fn hold(&mut self, data: &[u8]) -> Vec<u8> {
        self.bytes += data.len();
        data.to_vec()
    }

    /// The data of a completed transfer, or a copy, are not needed any more.
    pub fn release(&mut self, mut data: Vec<u8>) {
        self.bytes = self.bytes.saturating_sub(data.len());
        if self.spare.len() < MAX_SPARE {
            data.clear();
            self.spare.push(data);
        }
    }
}
