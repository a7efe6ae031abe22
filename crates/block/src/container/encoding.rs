//! Text that begins with a byte order mark: UTF-8 without it, and UTF-16, which becomes UTF-8.

use std::io::{self, Read};

use super::compression::{BUFFER_BYTES, Input};

/// The text of a stream that begins with a mark, without it, in UTF-8; the stream itself if it begins with none.
pub(super) fn decoded(head: &[u8], mut input: Input) -> io::Result<Result<Input, Input>> {
    Ok(match head {
        [0xef, 0xbb, 0xbf, ..] => {
            input.read_exact(&mut [0; 3])?;
            Ok(input)
        }
        // Two zeros behind it are no text, but perhaps the first number of a binary trace.
        [0xff, 0xfe, next, high, ..] if (*next, *high) != (0, 0) => Ok(Box::new(Utf16::of(input, u16::from_le_bytes))),
        [0xfe, 0xff, ..] => Ok(Box::new(Utf16::of(input, u16::from_be_bytes))),
        _ => Err(input),
    })
}

struct Utf16 {
    input: Input,
    from_bytes: fn([u8; 2]) -> u16,
    /// Read and not decoded: half a unit, or the first unit of two.
    rest: Vec<u8>,
    /// Decoded and not given.
    text: Vec<u8>,
    given: usize,
    position: u64,
}

impl Utf16 {
    fn of(input: Input, from_bytes: fn([u8; 2]) -> u16) -> Self {
        Self { input, from_bytes, rest: Vec::new(), text: Vec::new(), given: 0, position: 0 }
    }

    /// Decodes the next piece; whether there was one.
    fn decode(&mut self) -> io::Result<bool> {
        let mut bytes = std::mem::take(&mut self.rest);
        let before = bytes.len();
        (&mut self.input).take(BUFFER_BYTES as u64).read_to_end(&mut bytes)?;
        let ended = bytes.len() == before;
        let mut units: Vec<u16> = bytes.chunks_exact(2).map(|pair| (self.from_bytes)([pair[0], pair[1]])).collect();
        if units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
        }
        self.rest = bytes.split_off(2 * units.len());
        if ended && !self.rest.is_empty() {
            return Err(wrong(self.position + 2 * units.len() as u64));
        }
        (self.given, self.text) = (0, Vec::with_capacity(2 * units.len()));
        let mut at = self.position;
        for decoded in char::decode_utf16(units) {
            let character = decoded.map_err(|_| wrong(at))?;
            at += 2 * character.len_utf16() as u64;
            if character != '\u{feff}' || self.position > 0 {
                self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        self.position = at;
        Ok(!ended)
    }
}

impl Read for Utf16 {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() {
            if !self.decode()? {
                return Ok(0);
            }
        }
        let read = (&self.text[self.given..]).read(into)?;
        self.given += read;
        Ok(read)
    }
}

fn wrong(byte: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("byte {byte} of the text is no right UTF-16"))
}
