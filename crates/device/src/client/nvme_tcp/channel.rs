//! A connection as a host sees it: units out, units in.

use std::io;

use super::Settings;
use crate::client::Wire;
use crate::client::nvme::Entry;
use crate::transport::nvme_tcp::pdu::{
    COMMON_BYTES, DIGEST_BYTES, IC_BYTES, SHORT_BYTES, digest, flag, kind, u16_at, u32_at,
};
use crate::transport::socket::Endpoint;

/// Longest unit that is believed.
const MAX_UNIT_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub struct Channel {
    pub(super) wire: Wire,
    /// Whether units have digests of their headers, and of data.
    digests: (bool, bool),
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
        let mut request = [0; IC_BYTES - COMMON_BYTES];
        request[2] = settings.alignment;
        request[3] = u8::from(settings.header_digests) | (u8::from(settings.data_digests) << 1);
        append_unit(&mut wire.output, (kind::IC_REQ, 0), &request, &[], (false, false));
        wire.push()?;
        let answer = wire.whole(IC_BYTES)?;
        if answer[0] != kind::IC_RESP || u16_at(answer, 8) != 0 {
            return Err(nonsense("an answer to the initialization"));
        }
        let (digests, max_data_bytes) = (answer[11], u32_at(answer, 12) as usize);
        wire.consume(IC_BYTES);
        Ok(Self { wire, digests: (digests & 1 != 0, digests & 2 != 0), max_data_bytes })
    }

    /// Keeps a command to be sent, with data in its capsule.
    pub fn command(&mut self, entry: &Entry, data: &[u8]) {
        append_unit(&mut self.wire.output, (kind::CAPSULE_CMD, 0), &entry.0, data, self.digests);
    }

    /// Keeps data to be sent that the controller asked for.
    pub fn data(&mut self, request: &[u8], data: &[u8]) {
        let (step, first) = (self.max_data_bytes.max(4096), u32_at(request, 12));
        for (at, part) in data.chunks(step).enumerate() {
            let flags = if (at + 1) * step >= data.len() { flag::LAST } else { 0 };
            let place = [first + (at * step) as u32, part.len() as u32, 0].map(u32::to_le_bytes).concat();
            let header = [&request[8..12], &place].concat();
            append_unit(&mut self.wire.output, (kind::H2C_DATA, flags), &header, part, self.digests);
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

/// Appends a unit with this header after the common eight bytes, and with digests of header and data as agreed on.
pub fn append_unit(
    out: &mut Vec<u8>,
    (kind, flags): (u8, u8),
    header: &[u8],
    data: &[u8],
    (of_header, of_data): (bool, bool),
) {
    let (begin, header_bytes, of_data) = (out.len(), COMMON_BYTES + header.len(), of_data && !data.is_empty());
    let data_at = header_bytes + if of_header { DIGEST_BYTES } else { 0 };
    let whole = data_at + data.len() + if of_data { DIGEST_BYTES } else { 0 };
    let flags = flags | (u8::from(of_header) * flag::HEADER_DIGEST) | (u8::from(of_data) * flag::DATA_DIGEST);
    out.extend_from_slice(&[kind, flags, header_bytes as u8, if data.is_empty() { 0 } else { data_at as u8 }]);
    out.extend_from_slice(&(whole as u32).to_le_bytes());
    out.extend_from_slice(header);
    if of_header {
        let digest = digest(&out[begin..]);
        out.extend_from_slice(&digest);
    }
    out.extend_from_slice(data);
    if of_data {
        out.extend_from_slice(&digest(data));
    }
}

pub(super) fn nonsense(what: &str) -> io::Error {
    crate::client::nonsense("controller", what)
}
