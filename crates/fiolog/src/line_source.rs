//! Lines out of a byte source, through one buffer that is used again and again.

use std::io::{self, Read};

use crate::{Error, Fault};

/// Fits the second-level cache of the processors in use: larger reads are no faster.
const BUFFER_BYTES: usize = 256 * 1024;

/// Longest line that is kept whole. A histogram line of fio has at most about 40 KiB.
const LONGEST_LINE_BYTES: usize = 1024 * 1024;

pub(crate) struct LineSource<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    lines: u64,
    /// Whether the last line lacks its line feed.
    unterminated: bool,
}

/// One line, without its line feed.
pub(crate) struct Line<'a> {
    /// Its text; only the beginning of a line that is too long.
    pub text: &'a [u8],
    pub number: u64,
    /// Whether the source ends in it, without a line feed.
    pub broken_off: bool,
    /// Whether it is longer than [`LONGEST_LINE_BYTES`].
    pub too_long: bool,
}

/// Has a line read, unless it is blank. The error of a bad line says what is wrong with it.
pub(crate) fn read_checked(line: &Line<'_>, read: impl FnOnce(&[u8]) -> Result<(), Fault>) -> Result<(), Error> {
    if line.text.trim_ascii().is_empty() {
        return Ok(());
    }
    let outcome = if line.too_long { Err(Fault::TooLong(LONGEST_LINE_BYTES)) } else { read(line.text) };
    outcome.map_err(|fault| {
        let fault = if line.broken_off { Fault::Truncated(Box::new(fault)) } else { fault };
        Error::line(line.number, line.text, fault)
    })
}

/// A text log begins with a digit; zlib and gzip have their marks (RFC 1950, RFC 1952).
pub(crate) fn refuse_compressed(start: &[u8]) -> Result<(), Error> {
    let zlib = matches!(start, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]);
    if zlib || start.starts_with(&[0x1f, 0x8b]) { Err(Error::Compressed) } else { Ok(()) }
}

impl<R: Read> LineSource<R> {
    pub(crate) fn new(source: R) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { source, buffer, start: 0, end: 0, ended: false, lines: 0, unterminated: false }
    }

    /// Text that has been read and not been taken.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// How many lines were taken.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether the last line that was taken lacks its line feed.
    pub(crate) fn unterminated(&self) -> bool {
        self.unterminated
    }

    /// Takes `bytes` that hold `lines` whole lines.
    pub(crate) fn take(&mut self, bytes: usize, lines: u64) {
        self.start += bytes;
        self.lines += lines;
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        while !self.ended && self.end < self.buffer.len() {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(bytes) => {
                    self.end += bytes;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads on until so many bytes are pending or the source has ended.
    pub(crate) fn fill_to(&mut self, bytes: usize) -> io::Result<()> {
        while !self.ended && self.pending().len() < bytes {
            self.fill()?;
        }
        Ok(())
    }

    /// The next line, or nothing at the end.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        loop {
            let found = memchr::memchr(b'\n', &self.pending()[searched..]);
            let length = self.pending().len();
            if let Some(at) = found {
                return Ok(Some(self.line(searched + at, 1)));
            }
            if self.ended && length > 0 {
                self.unterminated = true;
                return Ok(Some(self.line(length, 0)));
            }
            if self.ended {
                return Ok(None);
            }
            if length >= LONGEST_LINE_BYTES {
                return Ok(Some(Line { too_long: true, ..self.line(length, 0) }));
            }
            searched = length;
            self.fill()?;
        }
    }

    fn line(&mut self, length: usize, feed: usize) -> Line<'_> {
        let from = self.start;
        self.take(length + feed, 1);
        let text = &self.buffer[from..from + length];
        Line { text, number: self.lines, broken_off: self.unterminated, too_long: false }
    }
}
