//! A command of a host, and its answer, one at a time.

use std::io;

use super::Channel;
use super::channel::nonsense;
use crate::client::Refused;
use crate::transport::nvme_tcp::pdu::{kind, u16_at, u32_at, u64_at};

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The number of the command.
    pub id: u16,
    /// Its status field without the phase bit.
    pub status: u16,
    pub result: u64,
    pub data: Vec<u8>,
}

/// An entry with a pointer of no data.
pub(super) fn entry(opcode: u8, id: u16) -> [u8; 64] {
    let mut entry = [0; 64];
    (entry[0], entry[1], entry[39]) = (opcode, 0x40, 0x5a);
    entry[2..4].copy_from_slice(&id.to_le_bytes());
    entry
}

/// Says where an entry's data are.
pub(super) fn pointer(entry: &mut [u8; 64], length_bytes: u32, in_capsule: bool) {
    entry[32..36].copy_from_slice(&length_bytes.to_le_bytes());
    entry[39] = if in_capsule { 0x01 } else { 0x5a };
}

/// What a command gave back that the controller did not refuse.
pub(super) fn succeeded(answer: Answer) -> io::Result<Answer> {
    match answer.status {
        0 => Ok(answer),
        status => Err(io::Error::other(Refused { error: status.into() })),
    }
}

/// Sends what is to be sent, and waits for the next answer.
pub(super) fn answer(channel: &mut Channel) -> io::Result<Answer> {
    channel.push()?;
    let mut data = Vec::new();
    loop {
        let wants = match channel.unit()? {
            Err(wants) => wants,
            Ok(unit) => {
                let (header, bytes) = (unit.header, unit.bytes);
                let done = match unit.kind {
                    kind::C2H_DATA => {
                        data.extend_from_slice(unit.data);
                        let success = unit.flags & 8 != 0;
                        success.then(|| Answer { id: u16_at(header, 8), status: 0, result: 0, data: data.clone() })
                    }
                    kind::CAPSULE_RESP => Some(Answer {
                        id: u16_at(header, 20),
                        status: u16_at(header, 22) >> 1,
                        result: u64_at(header, 8),
                        data: data.clone(),
                    }),
                    kind::C2H_TERM_REQ => {
                        let (status, about) = (u16_at(header, 8), u32_at(header, 10));
                        return Err(io::Error::other(format!("the controller ends: {status} at {about}")));
                    }
                    _ => return Err(nonsense("a unit")),
                };
                channel.consume(bytes);
                if let Some(done) = done {
                    return Ok(done);
                }
                continue;
            }
        };
        channel.more(wants)?;
    }
}
