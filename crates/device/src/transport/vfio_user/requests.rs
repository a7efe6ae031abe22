//! Requests that a client makes of its device by messages, from its version on. Sockets are left to `connection`.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::device::{Device, region};
use super::interrupts::VECTORS;
use super::message::{Header, MINOR_VERSION, MOST_DATA_BYTES, MOST_DESCRIPTORS, Message, command, flag};
use super::registers::{BAR_BYTES, DOORBELLS_AT, DOORBELLS_BYTES};
use crate::command::Drive;
use crate::transport::nvme::{u16_at, u32_at, u64_at};

/// Flags of a device: it can be reset, and is on a PCI bus (linux/vfio.h, as all that follows).
const DEVICE_FLAGS: u32 = 1 | (1 << 1);
/// Kinds of interrupts, of which there are vectors of messages alone.
const INTERRUPTS: u32 = 5;
const VECTORS_INDEX: u32 = 2;

mod region_flag {
    pub const READ_WRITE: u32 = 0b11;
    pub const MAPS: u32 = 1 << 2;
    pub const CAPABILITIES: u32 = 1 << 3;
}

/// A region of which parts can be mapped.
const SPARSE_MAPS: u16 = 1;

mod interrupt_flag {
    pub const NO_DATA: u32 = 1;
    pub const BOOLEANS: u32 = 1 << 1;
    pub const DESCRIPTORS: u32 = 1 << 2;
    pub const TRIGGER: u32 = 1 << 5;
}

/// All regions in the range of an unmapping.
const UNMAP_ALL: u32 = 1 << 1;

impl Device {
    /// Takes a message with its descriptors: the reply, if one is wanted.
    pub fn receive(
        &mut self,
        message: &[u8],
        descriptors: Vec<OwnedFd>,
        drive: &mut dyn Drive,
    ) -> Result<Option<Message>, Errno> {
        let header = Header::read(message).ok_or(Errno::PROTO)?;
        let body = message.get(super::message::HEADER_BYTES..header.bytes).ok_or(Errno::PROTO)?;
        if !self.is_negotiated {
            let payload = negotiate(&header, body).ok_or(Errno::PROTO)?;
            self.is_negotiated = true;
            return Ok(Some(Message::reply(&header, Ok(payload))));
        }
        let done = self.carry_out(header.command, body, descriptors, drive);
        let is_answered = header.flags & flag::NO_REPLY == 0;
        Ok(is_answered.then(|| Message::reply(&header, done)))
    }

    fn carry_out(
        &mut self,
        wanted: u16,
        body: &[u8],
        descriptors: Vec<OwnedFd>,
        drive: &mut dyn Drive,
    ) -> Result<Message, Errno> {
        let least_bytes = match wanted {
            command::DMA_MAP | command::DEVICE_GET_REGION_INFO => 32,
            command::DMA_UNMAP => 24,
            command::DEVICE_SET_IRQS => 20,
            command::DEVICE_GET_INFO | command::DEVICE_GET_IRQ_INFO | command::REGION_READ | command::REGION_WRITE => {
                16
            }
            _ => 0,
        };
        let [flags, index, last] = [4, 8, 12].map(|at| u32_at(body, at));
        match wanted {
            _ if body.len() < least_bytes => Err(Errno::INVAL),
            command::DMA_MAP => {
                let file = descriptors.into_iter().next().map(|file| (file, u64_at(body, 8)));
                let access = (flags & 1 != 0, flags & 2 != 0);
                self.memory.map((u64_at(body, 16), u64_at(body, 24)), access, file)?;
                Ok(Message::default())
            }
            // Whatever lies in memory that is unmapped is not accessed any more.
            command::DMA_UNMAP => {
                match (flags, u64_at(body, 8), u64_at(body, 16)) {
                    (0, address, length_bytes) => self.memory.unmap(address, length_bytes)?,
                    (UNMAP_ALL, 0, 0) => self.memory.clear(),
                    _ => return Err(Errno::INVAL), // pages that were written are not tracked
                }
                Ok(body[..24].to_vec().into())
            }
            command::DEVICE_GET_INFO => Ok(words([16, DEVICE_FLAGS, region::COUNT, INTERRUPTS])),
            command::DEVICE_GET_REGION_INFO => describe_region(self, body),
            command::DEVICE_GET_IRQ_INFO => match index {
                VECTORS_INDEX => Ok(words([16, 1, index, VECTORS as u32])), // by event descriptors
                INTERRUPTS.. => Err(Errno::INVAL),
                _ => Ok(words([16, 0, index, 0])),
            },
            command::DEVICE_SET_IRQS => set_interrupts(self, body, descriptors),
            command::REGION_READ | command::REGION_WRITE => {
                let (offset, bytes) = (u64_at(body, 0), last as usize);
                if bytes > MOST_DATA_BYTES {
                    return Err(Errno::INVAL);
                }
                let mut reply = body[..16].to_vec();
                if wanted == command::REGION_READ {
                    reply.resize(16 + bytes, 0);
                    self.read(index, offset, &mut reply[16..])?;
                } else {
                    let data = body.get(16..16 + bytes).ok_or(Errno::INVAL)?;
                    self.write(index, offset, data, drive)?;
                }
                Ok(reply.into())
            }
            command::DEVICE_RESET => {
                self.reset(drive);
                Ok(Message::default())
            }
            _ => Err(Errno::NOTSUP),
        }
    }
}

fn words(words: [u32; 4]) -> Message {
    words.map(u32::to_le_bytes).concat().into()
}

/// The first message agrees on a version. What the client says of itself is of no matter: at most one
/// descriptor goes with a message to it, which all can take.
fn negotiate(header: &Header, body: &[u8]) -> Option<Message> {
    let (major, minor) = (u16_at(body, 0), u16_at(body, 2));
    if header.command != command::VERSION || body.len() < 4 || major != 0 {
        return None;
    }
    let mut bytes = [major, minor.min(MINOR_VERSION)].map(u16::to_le_bytes).concat();
    let capabilities = serde_json::json!({
        "capabilities": {"max_msg_fds": MOST_DESCRIPTORS, "max_data_xfer_size": MOST_DATA_BYTES}
    });
    bytes.extend_from_slice(capabilities.to_string().as_bytes());
    bytes.push(0);
    Some(bytes.into())
}

fn describe_region(device: &Device, body: &[u8]) -> Result<Message, Errno> {
    let (room, index) = (u32_at(body, 0) as usize, u32_at(body, 8));
    let (bytes, flags) = match index {
        region::BAR => (BAR_BYTES, region_flag::READ_WRITE | region_flag::MAPS | region_flag::CAPABILITIES),
        region::CONFIGURATION => (super::configuration::CONFIGURATION_BYTES, region_flag::READ_WRITE),
        region::COUNT.. => return Err(Errno::INVAL),
        _ => (0, 0),
    };
    let is_mapped = flags & region_flag::MAPS != 0;
    let whole = if is_mapped { 64 } else { 32 };
    let describes_map = is_mapped && room >= whole;
    let capabilities_at = if describes_map { 32 } else { 0 };
    let mut described = [whole as u32, flags, index, capabilities_at].map(u32::to_le_bytes).concat();
    described.extend([bytes as u64, 0].map(u64::to_le_bytes).concat()); // its size, and its place in the file
    let mut descriptor = None;
    if describes_map {
        described.extend([SPARSE_MAPS, 1, 0, 0, 1, 0, 0, 0].map(u16::to_le_bytes).concat()); // one area
        described.extend([DOORBELLS_AT as u64, DOORBELLS_BYTES as u64].map(u64::to_le_bytes).concat());
        descriptor = Some(device.doorbells.file.try_clone().map_err(|_| Errno::MFILE)?);
    }
    Ok(Message { bytes: described, descriptor })
}

fn set_interrupts(device: &mut Device, body: &[u8], descriptors: Vec<OwnedFd>) -> Result<Message, Errno> {
    let [flags, index, start, count] = [4, 8, 12, 16].map(|at| u32_at(body, at));
    let (start, count) = (start as usize, count as usize);
    let end = start.checked_add(count).ok_or(Errno::INVAL)?;
    if index != VECTORS_INDEX || end > VECTORS || flags & interrupt_flag::TRIGGER == 0 {
        return Err(Errno::INVAL); // messages cannot be masked
    }
    match flags & !interrupt_flag::TRIGGER {
        interrupt_flag::NO_DATA if count == 0 => device.interrupts.clear(),
        interrupt_flag::NO_DATA => {
            (start..end).for_each(|vector| device.interrupts.raise(vector as u16));
        }
        interrupt_flag::BOOLEANS => {
            let wanted = body.get(20..20 + count).ok_or(Errno::INVAL)?;
            for (vector, _) in (start..).zip(wanted).filter(|(_, wanted)| **wanted != 0) {
                device.interrupts.raise(vector as u16);
            }
        }
        interrupt_flag::DESCRIPTORS => {
            // Fewer descriptors than vectors turn the others off.
            let mut descriptors = descriptors.into_iter();
            let vectors = (0..count).map(|_| descriptors.next()).collect();
            device.interrupts.set(start, vectors)?;
        }
        _ => return Err(Errno::INVAL),
    }
    Ok(Message::default())
}
