//! An I/O queue of a host.

use std::io;

use super::Channel;
use super::channel::nonsense;
use super::command::{entry, pointer};
use crate::client::{Completion, Initiator, Request};
use crate::transport::nvme_tcp::pdu::{IN_CAPSULE_BYTES, flag, kind, u16_at, u32_at};

const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// What is kept of a command in flight.
#[derive(Debug, Default, Clone)]
struct Kept {
    /// Data that the controller may ask for, or that came before the completion.
    data: Vec<u8>,
}

#[derive(Debug)]
pub struct Queue {
    pub channel: Channel,
    namespace: u32,
    size_bytes: u64,
    block_bytes: u32,
    kept: Vec<Kept>,
}

impl Queue {
    pub(super) fn new(channel: Channel, namespace: u32, size_bytes: u64, block_bytes: u32) -> Self {
        Self { channel, namespace, size_bytes, block_bytes, kept: Vec::new() }
    }

    /// Keeps a command to be sent as it is.
    pub fn command(&mut self, entry: &[u8; 64], data: &[u8]) {
        self.keep(u16_at(entry, 2)).clear();
        self.channel.command(entry, data);
    }

    /// Data of a command that the controller will ask for.
    pub fn keep(&mut self, id: u16) -> &mut Vec<u8> {
        let at = usize::from(id);
        if at >= self.kept.len() {
            self.kept.resize(at + 1, Kept::default());
        }
        &mut self.kept[at].data
    }

    /// An entry that reads or writes whole blocks.
    pub fn entry(&self, opcode: u8, id: u16, offset_bytes: u64, length_bytes: u32) -> [u8; 64] {
        let mut entry = entry(opcode, id);
        entry[4..8].copy_from_slice(&self.namespace.to_le_bytes());
        entry[40..48].copy_from_slice(&(offset_bytes / u64::from(self.block_bytes)).to_le_bytes());
        entry[48..52].copy_from_slice(&(length_bytes / self.block_bytes).wrapping_sub(1).to_le_bytes());
        entry
    }

    fn write(&mut self, id: u16, offset_bytes: u64, data: &[u8], fua: bool) {
        let mut entry = self.entry(0x01, id, offset_bytes, data.len() as u32);
        if fua {
            let word = u32_at(&entry, 48) | FORCE_UNIT_ACCESS;
            entry[48..52].copy_from_slice(&word.to_le_bytes());
        }
        let fits = data.len() <= IN_CAPSULE_BYTES;
        pointer(&mut entry, data.len() as u32, fits);
        if fits {
            self.channel.command(&entry, data);
        } else {
            let kept = self.keep(id);
            kept.clear();
            kept.extend_from_slice(data);
            self.channel.command(&entry, &[]);
        }
    }

    fn trim(&mut self, id: u16, offset_bytes: u64, length_bytes: u32) {
        let mut entry = self.entry(0x09, id, 0, self.block_bytes);
        entry[40..48].copy_from_slice(&[0, 0, 0, 0, 4, 0, 0, 0]); // one range, deallocate
        pointer(&mut entry, 16, true);
        let mut range = [0; 16];
        range[4..8].copy_from_slice(&(length_bytes / self.block_bytes).to_le_bytes());
        range[8..16].copy_from_slice(&(offset_bytes / u64::from(self.block_bytes)).to_le_bytes());
        self.channel.command(&entry, &range);
    }

    /// Takes the next unit, if it is there: whether it was, and completed a command.
    fn take(&mut self, done: &mut dyn FnMut(Completion<'_>)) -> io::Result<Result<bool, usize>> {
        let unit = match self.channel.unit()? {
            Ok(unit) => unit,
            Err(wants) => return Ok(Err(wants)),
        };
        let (id, bytes) = (u16_at(unit.header, 8), unit.bytes);
        let completed = match unit.kind {
            kind::C2H_DATA if unit.flags & flag::SUCCESS != 0 && u32_at(unit.header, 12) == 0 => {
                done(Completion { tag: id, error: 0, data: unit.data });
                true
            }
            kind::C2H_DATA => {
                let at = usize::from(id);
                if at >= self.kept.len() {
                    self.kept.resize(at + 1, Kept::default());
                }
                self.kept[at].data.extend_from_slice(unit.data);
                false
            }
            kind::CAPSULE_RESP => {
                let (id, status) = (u16_at(unit.header, 20), u16_at(unit.header, 22) >> 1);
                let data = self.kept.get_mut(usize::from(id)).map(|kept| std::mem::take(&mut kept.data));
                done(Completion { tag: id, error: status.into(), data: &data.unwrap_or_default() });
                true
            }
            kind::R2T => {
                let request = unit.header.to_vec();
                self.give(&request)?;
                false
            }
            kind::C2H_TERM_REQ => {
                let (status, about) = (u16_at(unit.header, 8), u32_at(unit.header, 10));
                return Err(io::Error::other(format!("the controller ends: {status} at {about}")));
            }
            _ => return Err(nonsense("a unit")),
        };
        self.channel.consume(bytes);
        Ok(Ok(completed))
    }

    /// Sends data that the controller asked for. They are forgotten with the last of them.
    fn give(&mut self, request: &[u8]) -> io::Result<()> {
        let (id, offset, length) = (u16_at(request, 8), u32_at(request, 12) as usize, u32_at(request, 16) as usize);
        let data = self.kept.get_mut(usize::from(id)).map(|kept| std::mem::take(&mut kept.data)).unwrap_or_default();
        let part = data.get(offset..offset + length).ok_or_else(|| nonsense("a request for data"))?;
        self.channel.data(request, part);
        if offset + length < data.len() {
            self.kept[usize::from(id)].data = data;
        }
        self.channel.push()
    }
}

impl Initiator for Queue {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn submit(&mut self, tag: u16, request: Request<'_>) {
        match request {
            Request::Flush => {
                let entry = self.entry(0x00, tag, 0, self.block_bytes);
                self.channel.command(&entry, &[]);
            }
            Request::Read { offset_bytes, length_bytes } => {
                let mut entry = self.entry(0x02, tag, offset_bytes, length_bytes);
                pointer(&mut entry, length_bytes, false);
                self.channel.command(&entry, &[]);
            }
            Request::Write { offset_bytes, data, fua } => self.write(tag, offset_bytes, data, fua),
            Request::WriteZeroes { offset_bytes, length_bytes } => {
                let entry = self.entry(0x08, tag, offset_bytes, length_bytes);
                self.channel.command(&entry, &[]);
            }
            Request::Trim { offset_bytes, length_bytes } => self.trim(tag, offset_bytes, length_bytes),
        }
    }

    fn push(&mut self) -> io::Result<()> {
        self.channel.push()
    }

    fn reap(&mut self, done: &mut dyn FnMut(Completion<'_>)) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            match self.take(done)? {
                Ok(completed) => taken += usize::from(completed),
                Err(_) if taken > 0 => return Ok(taken),
                Err(wants) => self.channel.more(wants)?,
            }
        }
    }
}
