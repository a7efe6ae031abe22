//! A queue of a host.

use std::io;

use super::Channel;
use super::channel::nonsense;
use crate::client::nvme::{IN_CAPSULE, IN_UNITS, encode};
use crate::client::{Completion, Initiator, Request, Wire, wire};
use crate::transport::nvme_tcp::pdu::{IN_CAPSULE_BYTES, flag, kind, u16_at, u32_at, u64_at};

#[derive(Debug)]
pub struct Queue {
    pub(super) channel: Channel,
    pub(super) namespace: u32,
    pub(super) size_bytes: u64,
    pub(super) block_bytes: u32,
    /// Data of each command in flight: the controller may ask for them, or sent them before the completion.
    pub(super) kept: Vec<Vec<u8>>,
}

impl Queue {
    /// Takes the next unit, if it is there: whether it was, and completed a command.
    fn take(&mut self, done: &mut dyn FnMut(Completion<'_>)) -> io::Result<Result<bool, usize>> {
        let unit = match self.channel.unit()? {
            Ok(unit) => unit,
            Err(wants) => return Ok(Err(wants)),
        };
        let (header, bytes) = (unit.header, unit.bytes);
        let completed = match unit.kind {
            kind::C2H_DATA if unit.flags & flag::SUCCESS != 0 && u32_at(header, 12) == 0 => {
                done(Completion { tag: u16_at(header, 8), error: 0, result: 0, data: unit.data });
                true
            }
            kind::C2H_DATA => {
                kept(&mut self.kept, u16_at(header, 8)).extend_from_slice(unit.data);
                false
            }
            kind::CAPSULE_RESP => {
                let (tag, error) = (u16_at(header, 20), (u16_at(header, 22) >> 1).into());
                let data = self.kept.get_mut(usize::from(tag)).map(std::mem::take).unwrap_or_default();
                done(Completion { tag, error, result: u64_at(header, 8), data: &data });
                true
            }
            kind::R2T => {
                let request = header.to_vec();
                self.give(&request)?;
                false
            }
            kind::C2H_TERM_REQ => {
                let (status, about) = (u16_at(header, 8), u32_at(header, 10));
                return Err(io::Error::other(format!("the controller ends: {status} at {about}")));
            }
            _ => return Err(nonsense("a unit")),
        };
        self.channel.wire.consume(bytes);
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
        self.channel.wire.push()
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
        let (entry, reads, sent) = encode(&request, tag, self.namespace, self.block_bytes);
        let in_capsule = !sent.is_empty() && sent.len() <= IN_CAPSULE_BYTES;
        if sent.len() > IN_CAPSULE_BYTES {
            let kept = kept(&mut self.kept, tag);
            kept.clear();
            kept.extend_from_slice(&sent);
        }
        let pointer = if in_capsule { IN_CAPSULE } else { IN_UNITS };
        let entry = entry.pointer(pointer, 0, reads.max(sent.len()) as u32);
        self.channel.command(&entry, if in_capsule { &sent } else { &[] });
    }

    fn push(&mut self) -> io::Result<()> {
        self.channel.wire.push()
    }

    fn reap(&mut self, done: &mut dyn FnMut(Completion<'_>)) -> io::Result<usize> {
        wire::reap(self, |queue| queue.take(done))
    }
}

impl AsMut<Wire> for Queue {
    fn as_mut(&mut self) -> &mut Wire {
        &mut self.channel.wire
    }
}
