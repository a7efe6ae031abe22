//! An I/O queue of a host.

use std::io;

use super::Channel;
use super::admin::ended;
use super::channel::nonsense;
use crate::client::nvme::{Data, IN_CAPSULE, IN_UNITS, encode};
use crate::client::{Completion, Initiator, Request};
use crate::transport::nvme_tcp::pdu::{IN_CAPSULE_BYTES, flag, kind, u16_at, u32_at};

#[derive(Debug)]
pub struct Queue {
    pub channel: Channel,
    namespace: u32,
    size_bytes: u64,
    block_bytes: u32,
    /// Data of each command in flight: the controller may ask for them, or sent them before the completion.
    kept: Vec<Vec<u8>>,
}

impl Queue {
    pub(super) fn new(channel: Channel, namespace: u32, size_bytes: u64, block_bytes: u32) -> Self {
        Self { channel, namespace, size_bytes, block_bytes, kept: Vec::new() }
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
                kept(&mut self.kept, id).extend_from_slice(unit.data);
                false
            }
            kind::CAPSULE_RESP => {
                let (id, status) = (u16_at(unit.header, 20), u16_at(unit.header, 22) >> 1);
                let data = self.kept.get_mut(usize::from(id)).map(std::mem::take);
                done(Completion { tag: id, error: status.into(), data: &data.unwrap_or_default() });
                true
            }
            kind::R2T => {
                let request = unit.header.to_vec();
                self.give(&request)?;
                false
            }
            kind::C2H_TERM_REQ => return Err(ended(unit.header)),
            _ => return Err(nonsense("a unit")),
        };
        self.channel.consume(bytes);
        Ok(Ok(completed))
    }

    /// Sends data that the controller asked for. They are forgotten with the last of them.
    fn give(&mut self, request: &[u8]) -> io::Result<()> {
        let (id, offset, length) = (u16_at(request, 8), u32_at(request, 12) as usize, u32_at(request, 16) as usize);
        let data = self.kept.get_mut(usize::from(id)).map(std::mem::take).unwrap_or_default();
        let part = data.get(offset..offset + length).ok_or_else(|| nonsense("a request for data"))?;
        self.channel.data(request, part);
        if offset + length < data.len() {
            self.kept[usize::from(id)] = data;
        }
        self.channel.push()
    }
}

/// The data that are kept of a command.
fn kept(all: &mut Vec<Vec<u8>>, id: u16) -> &mut Vec<u8> {
    let at = usize::from(id);
    if at >= all.len() {
        all.resize(at + 1, Vec::new());
    }
    &mut all[at]
}

impl Initiator for Queue {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn submit(&mut self, tag: u16, request: Request<'_>) {
        let (entry, data) = encode(&request, tag, self.namespace, self.block_bytes);
        match data.sent() {
            [] => {
                let length_bytes = if let Data::Read(length_bytes) = data { length_bytes } else { 0 };
                self.channel.command(&entry.pointer(IN_UNITS, 0, length_bytes as u32), &[]);
            }
            sent if sent.len() <= IN_CAPSULE_BYTES => {
                self.channel.command(&entry.pointer(IN_CAPSULE, 0, sent.len() as u32), sent);
            }
            sent => {
                let kept = kept(&mut self.kept, tag);
                kept.clear();
                kept.extend_from_slice(sent);
                self.channel.command(&entry.pointer(IN_UNITS, 0, sent.len() as u32), &[]);
            }
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
