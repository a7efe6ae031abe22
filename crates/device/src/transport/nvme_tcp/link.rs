//! The parameters that both ends of a connection agreed on, and the units that the controller sends.

use super::pdu::{
    DIGEST_BYTES, Digests, Fatal, IC_BYTES, MAX_H2C_DATA_BYTES, Pdu, SHORT_BYTES, digest, flag, kind, u16_at,
};
use crate::command::Drive;
use crate::transport::nvme::entry::Completion;
use crate::transport::socket::Output;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub digests: Digests,
    /// Data to the host begin at a multiple of this number of bytes.
    alignment: usize,
}

impl Link {
    pub fn open(request: &Pdu<'_>, out: &mut Vec<u8>) -> Result<Self, Fatal> {
        let header = request.header;
        if u16_at(header, 8) != 0 {
            return Err(Fatal::UNSUPPORTED);
        }
        let (alignment, wanted) = (header[10], header[11]);
        if alignment > 31 {
            return Err(Fatal::field(10));
        }
        let digests = Digests { header: wanted & 1 != 0, data: wanted & 2 != 0 };
        let mut answer = [0; IC_BYTES];
        answer[0] = kind::IC_RESP;
        answer[2] = IC_BYTES as u8;
        answer[4..8].copy_from_slice(&(IC_BYTES as u32).to_le_bytes());
        answer[11] = wanted & 3;
        answer[12..16].copy_from_slice(&(MAX_H2C_DATA_BYTES as u32).to_le_bytes());
        out.extend_from_slice(&answer);
        Ok(Self { digests, alignment: (usize::from(alignment) + 1) * 4 })
    }

    pub fn complete(&self, completion: Completion, out: &mut Vec<u8>) {
        let mut header = short(kind::CAPSULE_RESP, 0);
        header[8..24].copy_from_slice(&completion.bytes());
        self.send(header, &[], out);
    }

    /// Asks for data of a command, all of them.
    pub fn ask(&self, command: u16, transfer: u16, length_bytes: u32, out: &mut Vec<u8>) {
        let mut header = short(kind::R2T, 0);
        header[8..10].copy_from_slice(&command.to_le_bytes());
        header[10..12].copy_from_slice(&transfer.to_le_bytes());
        header[16..20].copy_from_slice(&length_bytes.to_le_bytes());
        self.send(header, &[], out);
    }

    /// Appends a command's data, all of them; `completes` if no completion follows.
    pub fn give(&self, command: u16, data: &[u8], completes: bool, out: &mut Vec<u8>) {
        let header = data_header(command, data.len(), completes);
        self.send(header, data, out);
    }

    /// Appends a part of the drive's content as data of a command: first byte and number of bytes.
    pub fn give_content(&self, command: u16, wanted: (u64, u64), completes: bool, out: &mut Output, drive: &dyn Drive) {
        let length_bytes = wanted.1 as usize;
        let header = data_header(command, length_bytes, completes);
        self.begin(header, length_bytes, &mut out.bytes);
        out.content(wanted, self.digests.data, drive);
    }

    fn send(&self, header: [u8; SHORT_BYTES], data: &[u8], out: &mut Vec<u8>) {
        self.begin(header, data.len(), out);
        out.extend_from_slice(data);
        if self.digests.data && !data.is_empty() {
            out.extend_from_slice(&digest(data));
        }
    }

    /// Appends all of a unit that comes before data of this length.
    fn begin(&self, mut header: [u8; SHORT_BYTES], data_bytes: usize, out: &mut Vec<u8>) {
        let mut start = SHORT_BYTES;
        if self.digests.header {
            header[1] |= flag::HEADER_DIGEST;
            start += DIGEST_BYTES;
        }
        let mut whole = start;
        if data_bytes > 0 {
            start = start.next_multiple_of(self.alignment);
            header[3] = start as u8; // at most 128
            whole = start + data_bytes;
            if self.digests.data {
                header[1] |= flag::DATA_DIGEST;
                whole += DIGEST_BYTES;
            }
        }
        header[4..8].copy_from_slice(&(whole as u32).to_le_bytes());
        let begin = out.len();
        out.extend_from_slice(&header);
        if self.digests.header {
            out.extend_from_slice(&digest(&header));
        }
        if data_bytes > 0 {
            out.resize(begin + start, 0);
        }
    }
}

/// The header of data to the host; `completes` if no completion follows.
fn data_header(command: u16, data_bytes: usize, completes: bool) -> [u8; SHORT_BYTES] {
    let success = if completes { flag::SUCCESS } else { 0 };
    let mut header = short(kind::C2H_DATA, flag::LAST | success);
    header[8..10].copy_from_slice(&command.to_le_bytes());
    header[16..20].copy_from_slice(&(data_bytes as u32).to_le_bytes());
    header
}

fn short(kind: u8, flags: u8) -> [u8; SHORT_BYTES] {
    let mut header = [0; SHORT_BYTES];
    (header[0], header[1], header[2]) = (kind, flags, SHORT_BYTES as u8);
    header
}
