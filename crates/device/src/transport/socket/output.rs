//! What is to be sent: a protocol's own bytes, and parts of the drive's content between them.
//!
//! Only the first part may be copied, and only if it is short: the kernel takes the others from where they lie. What it
//! does not take at once, it takes later as the content is then. A read may return that as long as its client does not
//! have the whole answer. But a page that was begun ends as it began, because drives write pages as a whole.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};

use crate::command::Drive;

/// Room for bytes of their own that a connection has at first, and goes back to.
const USUAL_BYTES: usize = 256 << 10;

/// A part of the content up to this is copied where nothing else waits to be sent, as at depth one: a
/// system call with slices takes longer than such a copy. With many parts it takes less.
const SHORT_BYTES: u64 = 8 << 10;
/// More bytes than the headers of one answer.
const FIRST_BYTES: usize = 256;

/// Parts of the content in one system call, each with bytes before it and a digest behind it.
const MOST_PARTS: usize = 32;

/// A part of the drive's content.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// How many of the bytes come before it.
    behind: usize,
    offset_bytes: u64,
    length_bytes: u64,
    /// CRC-32C of what was sent of it before, if one follows it.
    digest: Option<u32>,
}

impl Part {
    fn whole_bytes(&self) -> usize {
        self.length_bytes as usize + self.digest.map_or(0, |_| size_of::<u32>())
    }

    fn content<'a>(&self, drive: &'a dyn Drive) -> &'a [u8] {
        drive.content(self.offset_bytes, self.length_bytes)
    }

    /// The digest of it all, if one follows it, as it is sent.
    fn digest(&self, drive: &dyn Drive) -> Option<[u8; size_of::<u32>()]> {
        let before = self.digest?;
        Some(crc32c::crc32c_append(before, self.content(drive)).to_le_bytes())
    }
}

/// What is to be sent.
#[derive(Debug, Default)]
pub struct Output {
    /// All but the content; protocols append here.
    pub bytes: Vec<u8>,
    sent: usize,
    parts: VecDeque<Part>,
    /// Bytes of all parts, with their digests.
    parts_bytes: usize,
    /// What is left of a page that was begun, and its digest: sent before all else.
    begun: Vec<u8>,
}

impl Output {
    /// Appends a part of the content, which lies within the drive: first byte and number of bytes. On request its CRC-32C
    /// follows.
    pub fn content(&mut self, part: (u64, u64), with_digest: bool, drive: &dyn Drive) {
        let (offset_bytes, length_bytes) = part;
        let part = Part { behind: self.bytes.len(), offset_bytes, length_bytes, digest: with_digest.then_some(0) };
        if length_bytes <= SHORT_BYTES && self.parts.is_empty() && self.kept() <= FIRST_BYTES {
            self.bytes.extend_from_slice(part.content(drive));
            if let Some(digest) = part.digest(drive) {
                self.bytes.extend_from_slice(&digest);
            }
            return;
        }
        self.parts_bytes += part.whole_bytes();
        self.parts.push_back(part);
    }

    /// How many bytes are left to send.
    pub fn left(&self) -> usize {
        self.kept() + self.parts_bytes
    }

    /// How many of them are kept in memory of this connection.
    pub fn kept(&self) -> usize {
        self.begun.len() + self.bytes.len() - self.sent
    }

    /// Takes away what is left to send, which is nothing of the drive's content.
    pub fn take(&mut self) -> Vec<u8> {
        debug_assert!(self.parts.is_empty() && self.begun.is_empty());
        let mut left = std::mem::take(&mut self.bytes);
        left.drain(..std::mem::take(&mut self.sent));
        left
    }

    /// Sends what the socket takes. Returns true if that was all.
    pub fn send(&mut self, to: &mut impl Write, drive: &dyn Drive) -> io::Result<bool> {
        while self.left() > 0 {
            match self.send_once(to, drive) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.advance(bytes, drive),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.compact();
                    return Ok(false);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        self.bytes.clear();
        self.bytes.shrink_to(USUAL_BYTES);
        Ok(true)
    }

    fn send_once(&self, to: &mut impl Write, drive: &dyn Drive) -> io::Result<usize> {
        if self.parts.is_empty() && self.begun.is_empty() {
            return to.write(&self.bytes[self.sent..]);
        }
        let mut digests = [[0; size_of::<u32>()]; MOST_PARTS];
        for (part, digest) in self.parts.iter().zip(&mut digests) {
            *digest = part.digest(drive).unwrap_or_default();
        }
        let mut slices = [IoSlice::new(&[]); 2 + 3 * MOST_PARTS];
        let mut count = 0;
        let mut append = |bytes| {
            slices[count] = IoSlice::new(bytes);
            count += usize::from(!slices[count].is_empty());
        };
        append(&self.begun);
        let mut from = self.sent;
        for (part, digest) in self.parts.iter().zip(&digests) {
            append(&self.bytes[from..part.behind]);
            append(part.content(drive));
            append(&digest[..part.digest.map_or(0, |_| digest.len())]);
            from = part.behind;
        }
        if self.parts.len() <= MOST_PARTS {
            append(&self.bytes[from..]);
        }
        to.write_vectored(&slices[..count])
    }

    fn advance(&mut self, mut bytes: usize, drive: &dyn Drive) {
        let of_begun = bytes.min(self.begun.len());
        self.begun.drain(..of_begun);
        bytes -= of_begun;
        loop {
            let next = self.parts.front().copied();
            let before = next.map_or(self.bytes.len(), |part| part.behind) - self.sent;
            let of_bytes = bytes.min(before);
            self.sent += of_bytes;
            bytes -= of_bytes;
            let Some(part) = next.filter(|_| bytes > 0) else {
                break;
            };
            self.parts_bytes -= part.whole_bytes();
            self.parts.pop_front();
            if let Some(rest) = bytes.checked_sub(part.whole_bytes()) {
                bytes = rest;
            } else {
                self.begin(part, bytes, drive);
                break;
            }
        }
    }

    /// This much of a part was sent, and not all: keeps the rest of its page.
    fn begin(&mut self, part: Part, bytes: usize, drive: &dyn Drive) {
        let page_bytes = u64::from(drive.facts().atomic_bytes().max(1));
        let of_content = part.length_bytes.min(bytes as u64);
        let page_end = (part.offset_bytes + of_content).next_multiple_of(page_bytes);
        let page_end = page_end - part.offset_bytes;
        let (content, kept) = (part.content(drive), page_end.min(part.length_bytes));
        let rest = Part {
            behind: self.sent,
            offset_bytes: part.offset_bytes + kept,
            length_bytes: part.length_bytes - kept,
            digest: part.digest.map(|before| crc32c::crc32c_append(before, &content[..kept as usize])),
        };
        self.begun.extend_from_slice(&content[of_content as usize..kept as usize]);
        if rest.length_bytes > 0 {
            self.parts_bytes += rest.whole_bytes();
            self.parts.push_front(rest);
        } else if let Some(digest) = rest.digest {
            let sent = bytes - of_content as usize;
            self.begun.extend_from_slice(&digest.to_le_bytes()[sent..]);
        }
    }

    /// Gives room back when most was sent.
    fn compact(&mut self) {
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            for part in &mut self.parts {
                part.behind -= self.sent;
            }
            self.sent = 0;
        }
    }
}
