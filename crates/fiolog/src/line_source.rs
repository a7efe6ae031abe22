//! Lines out of a byte source, through one buffer that is used again and again.

use std::io::{self, Read};

/// Fits the second-level cache of the processors in use: larger reads are no faster.
const BUFFER_BYTES: usize = 256 * 1024;

/// Longest line that is kept whole. A histogram line of fio has at most about 40 KiB.
pub(crate) const LONGEST_LINE_BYTES: usize = 1024 * 1024;

pub(crate) struct LineSource<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    lines: u64,
}

/// One line, without its line feed.
pub(crate) struct Line<'a> {
    /// Its text; only the beginning of a line that is too long.
    pub text: &'a [u8],
    pub number: u64,
    /// Whether a line feed ended it.
    pub terminated: bool,
    /// Whether it was longer than [`LONGEST_LINE_BYTES`]; the rest of it is gone.
    pub too_long: bool,
}

impl<R: Read> LineSource<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, ended: false, lines: 0 }
    }

    /// What has been read and not been taken.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// How many lines were taken.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
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
            match found {
                Some(at) => return Ok(Some(self.line(searched + at, true, false))),
                None if self.ended && length == 0 => return Ok(None),
                None if self.ended => return Ok(Some(self.line(length, false, false))),
                None if length >= LONGEST_LINE_BYTES => return self.cut_line().map(Some),
                None => {
                    searched = length;
                    self.fill()?;
                }
            }
        }
    }

    fn line(&mut self, length: usize, terminated: bool, too_long: bool) -> Line<'_> {
        let from = self.start;
        self.take(length + usize::from(terminated && !too_long), 1);
        let text = &self.buffer[from..from + length];
        Line { text, number: self.lines, terminated, too_long }
    }

    /// Drops a line that is too long, but for its beginning.
    fn cut_line(&mut self) -> io::Result<Line<'_>> {
        let beginning = self.pending()[..64].to_vec();
        let mut terminated = false;
        while !terminated {
            self.start = self.end;
            self.fill()?;
            if self.pending().is_empty() {
                break;
            }
            if let Some(at) = memchr::memchr(b'\n', self.pending()) {
                self.start += at + 1;
                terminated = true;
            }
        }
        // Put back where `line` finds it: what was taken is free to be written over.
        self.prepend(&beginning);
        Ok(self.line(beginning.len(), terminated, true))
    }

    fn prepend(&mut self, text: &[u8]) {
        if self.start < text.len() {
            self.buffer.splice(..self.start, std::iter::repeat_n(0, text.len()));
            self.end = self.end - self.start + text.len();
            self.start = text.len();
        }
        self.start -= text.len();
        self.buffer[self.start..self.start + text.len()].copy_from_slice(text);
    }
}
