//! Data of writes that were asked for and come in units of their own, and data that are compared, in a bounded memory.

use std::collections::{BTreeMap, VecDeque};

use slab::Slab;

use super::link::Link;
use super::pdu::{Fatal, IN_CAPSULE_BYTES, MAX_H2C_DATA_BYTES, Pdu, flag, u16_at, u32_at};
use crate::transport::nvme::entry::Submission;
use crate::transport::socket::Share;

/// Data that one connection's commands may be waiting for; more of them wait.
const MAX_BYTES: usize = 8 << 20;

/// Memory of the connection's own: for data that are waited for, for copies, and for buffers that are
/// kept for the next command, so much each. What is more takes memory that is shared.
const OWN_BYTES: usize = 128 << 10;

/// One command that waits for its data, or has them.
#[derive(Debug)]
pub struct Transfer {
    pub command: Submission,
    pub data: Vec<u8>,
    length_bytes: usize,
    /// Whether they are in memory that is shared.
    pub shared: bool,
    /// Whether all their digests agreed.
    pub intact: bool,
}

#[derive(Debug)]
pub struct Transfers {
    /// By the number that the host is told.
    active: Slab<Transfer>,
    waiting: VecDeque<(Submission, usize)>,
    pub memory: Share,
    own_bytes: usize,
    shared_bytes: usize,
    /// Data of Compare commands, by their identifiers, and whether they are in memory that is shared.
    copies: BTreeMap<u16, (Vec<u8>, bool)>,
    copied_bytes: usize,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Transfers {
    pub fn new(memory: Share) -> Self {
        Self {
            active: Slab::new(),
            waiting: VecDeque::new(),
            memory,
            own_bytes: 0,
            shared_bytes: 0,
            copies: BTreeMap::new(),
            copied_bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
        }
    }

    /// A command needs this number of bytes; they are asked for when there is memory.
    pub fn want(&mut self, command: Submission, length_bytes: usize) {
        self.waiting.push_back((command, length_bytes));
    }

    /// Asks the host for data that there is memory for.
    pub fn ask(&mut self, link: &Link, out: &mut Vec<u8>) {
        while let Some(&(command, length_bytes)) = self.waiting.front() {
            let shared = self.own_bytes + length_bytes > OWN_BYTES;
            let is_much = shared && self.shared_bytes > 0 && self.shared_bytes + length_bytes > MAX_BYTES;
            if is_much || !self.memory.take(if shared { length_bytes as u64 } else { 0 }) {
                return;
            }
            self.waiting.pop_front();
            *(if shared { &mut self.shared_bytes } else { &mut self.own_bytes }) += length_bytes;
            let data = self.spare.pop().unwrap_or_default();
            self.spare_bytes -= data.capacity();
            let at = self.active.insert(Transfer { command, data, length_bytes, shared, intact: true });
            link.ask(command.id(), at as u16, length_bytes as u32, out);
        }
    }

    /// Data arrived: the transfer that they complete.
    pub fn received(&mut self, pdu: &Pdu<'_>) -> Result<Option<Transfer>, Fatal> {
        let at = usize::from(u16_at(pdu.header, 10));
        let (offset, length) = (u32_at(pdu.header, 12) as usize, u32_at(pdu.header, 16) as usize);
        let transfer = self.active.get_mut(at).ok_or(Fatal::field(10))?;
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
        Ok(if ends { self.active.try_remove(at) } else { None })
    }

    /// The data of a completed transfer are not needed any more.
    pub fn release(&mut self, mut data: Vec<u8>, shared: bool) {
        if shared {
            self.shared_bytes -= data.len();
            self.memory.give_back(data.len() as u64);
        } else {
            self.own_bytes -= data.len();
        }
        if self.spare_bytes + data.capacity() <= OWN_BYTES {
            data.clear();
            self.spare_bytes += data.capacity();
            self.spare.push(data);
        }
    }

    /// Copies data of a command that are about to be released, or came with it.
    pub fn copy(&mut self, id: u16, data: &[u8]) {
        let shared = self.copied_bytes + data.len() > OWN_BYTES;
        if shared {
            self.memory.take_now(data.len() as u64);
        } else {
            self.copied_bytes += data.len();
        }
        self.copies.insert(id, (data.to_vec(), shared));
    }

    /// Takes back the copy of a command's data.
    pub fn take_copy(&mut self, id: u16) -> Option<Vec<u8>> {
        let (data, shared) = self.copies.remove(&id)?;
        if shared {
            self.memory.give_back(data.len() as u64);
        } else {
            self.copied_bytes -= data.len();
        }
        Some(data)
    }

    /// Whether the copies leave no room for another: no command is taken until some are forgotten.
    pub fn copies_are_full(&self) -> bool {
        self.copied_bytes + IN_CAPSULE_BYTES > OWN_BYTES
    }

    /// The connection is gone: nothing is waited for.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.active.clear();
        self.spare.clear();
        self.spare_bytes = 0;
        self.memory.clear();
    }
}
