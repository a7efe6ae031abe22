//! A connection as a host sees it: units out, units in.

use std::io::{self, ErrorKind};

use super::Settings;
use crate::client::Wire;
use crate::client::nvme::Entry;
use crate::transport::nvme_tcp::pdu::{COMMAND_BYTES, IC_BYTES, SHORT_BYTES, flag, kind, u16_at, u32_at};
use crate::transport::nvme_tcp::pdu::{DIGEST_BYTES, digest};
use crate::transport::socket::Endpoint;

/// Longest unit that is believed.
const MAX_UNIT_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub struct Channel {
    pub(super) wire: Wire,
    header_digests: bool,
    data_digests: bool,
    max_data_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Unit<'a> {
    pub kind: u8,
    pub flags: u8,
    pub header: &'a [u8],
    pub data: &'a [u8],
    /// Bytes of all of it.
    pub bytes: usize,
}

impl Channel {
    pub fn open(to: &Endpoint, settings: &Settings) -> io::Result<Self> {
        let mut wire = Wire::connect(to, settings.waiting)?;
        let mut request = [0; IC_BYTES];
        request[2] = IC_BYTES as u8;
        request[4..8].copy_from_slice(&(IC_BYTES as u32).to_le_bytes());
        request[10] = settings.alignment;
        request[11] = u8::from(settings.header_digests) | (u8::from(settings.data_digests) << 1);
        wire.output.extend_from_slice(&request);
        wire.push()?;
        let answer = wire.whole(IC_BYTES)?;
        if answer[0] != kind::IC_RESP || u16_at(answer, 8) != 0 {
            return Err(nonsense("an answer to the initialization"));
        }
        let (digests, max_data_bytes) = (answer[11], u32_at(answer, 12) as usize);
        wire.consume(IC_BYTES);
        let (header_digests, data_digests) = (digests & 1 != 0, digests & 2 != 0);
        Ok(Self { wire, header_digests, data_digests, max_data_bytes })
    }

    /// Keeps a command to be sent, with data in its capsule.
    pub fn command(&mut self, entry: &Entry, data: &[u8]) {
        let mut header = [0; COMMAND_BYTES];
        (header[0], header[2]) = (kind::CAPSULE_CMD, COMMAND_BYTES as u8);
        header[8..].copy_from_slice(&entry.0);
        self.send(&mut header, data);
    }

    /// Keeps data to be sent that the controller asked for.
    pub fn data(&mut self, request: &[u8], data: &[u8]) {
        let step = self.max_data_bytes.max(4096);
        for (at, part) in data.chunks(step).enumerate() {
            let mut header = [0; SHORT_BYTES];
            (header[0], header[2]) = (kind::H2C_DATA, SHORT_BYTES as u8);
            header[1] = if (at + 1) * step >= data.len() { flag::LAST } else { 0 };
            header[8..12].copy_from_slice(&request[8..12]);
            let offset = u32_at(request, 12) + (at * step) as u32;
            header[12..16].copy_from_slice(&offset.to_le_bytes());
            header[16..20].copy_from_slice(&(part.len() as u32).to_le_bytes());
            self.send(&mut header, part);
        }
    }

    fn send(&mut self, header: &mut [u8], data: &[u8]) {
        let mut whole = header.len();
        if self.header_digests {
            header[1] |= flag::HEADER_DIGEST;
            whole += DIGEST_BYTES;
        }
        if !data.is_empty() {
            header[3] = whole as u8;
            whole += data.len();
            if self.data_digests {
                header[1] |= flag::DATA_DIGEST;
                whole += DIGEST_BYTES;
            }
        }
        header[4..8].copy_from_slice(&(whole as u32).to_le_bytes());
        let out = &mut self.wire.output;
        out.extend_from_slice(header);
        if self.header_digests {
            out.extend_from_slice(&digest(header));
        }
        out.extend_from_slice(data);
        if self.data_digests && !data.is_empty() {
            out.extend_from_slice(&digest(data));
        }
    }

    /// The next unit, if it is there as a whole; if not, how long it has to be.
    pub fn unit(&self) -> io::Result<Result<Unit<'_>, usize>> {
        let bytes = self.wire.pending();
        if bytes.len() < SHORT_BYTES {
            return Ok(Err(SHORT_BYTES));
        }
        let (header_bytes, whole) = (usize::from(bytes[2]), u32_at(bytes, 4) as usize);
        if header_bytes != SHORT_BYTES || !(SHORT_BYTES..MAX_UNIT_BYTES).contains(&whole) {
            return Err(nonsense("a unit of impossible length"));
        }
        let Some(unit) = bytes.get(..whole) else {
            return Ok(Err(whole));
        };
        let (header, rest) = unit.split_at(SHORT_BYTES);
        let (kind, flags, start) = (unit[0], unit[1], usize::from(unit[3]));
        if flags & flag::HEADER_DIGEST != 0 && rest.get(..DIGEST_BYTES) != Some(&digest(header)[..]) {
            return Err(nonsense("a header that was damaged"));
        }
        let end = if flags & flag::DATA_DIGEST != 0 { whole - DIGEST_BYTES } else { whole };
        let data = if kind == kind::C2H_DATA { unit.get(start..end).ok_or_else(|| nonsense("data"))? } else { &[] };
        if flags & flag::DATA_DIGEST != 0 && unit[end..] != digest(data) {
            return Err(nonsense("data that were damaged"));
        }
        Ok(Ok(Unit { kind, flags, header, data, bytes: whole }))
    }
}

/// The error of what cannot be understood.
pub(super) fn nonsense(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the controller sent {what} that cannot be understood"))
}
