//! Lines out of a byte source, through one buffer that is used again and again.

use std::io::{self, Read};

use memchr::memchr;

/// Fits the second-level cache of the processors in use: larger reads are no faster.
const BUFFER_BYTES: usize = 256 * 1024;

/// Longest line that is read. Lines of traces have some hundred bytes at most.
pub(super) const LONGEST_LINE_BYTES: usize = 64 * 1024;

pub(super) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    taken: u64,
}

pub(super) enum Next<'a> {
    /// A line, without its line feed.
    Line(&'a [u8]),
    /// A line of more than [`LONGEST_LINE_BYTES`].
    TooLong,
    End,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, ended: false, taken: 0 }
    }

    /// How many lines were taken: the number of the last one.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        match memchr(b'\n', &self.buffer[self.start..self.end]) {
            Some(length) => Ok(self.line(length, 1)),
            None => self.next_after_filling(),
        }
    }

    #[inline(always)]
    fn line(&mut self, length: usize, feed: usize) -> Next<'_> {
        let from = self.start;
        self.start += length + feed;
        self.taken += 1;
        Next::Line(&self.buffer[from..from + length])
    }

    #[inline(never)]
    fn next_after_filling(&mut self) -> io::Result<Next<'_>> {
        let mut searched = 0;
        loop {
            let pending = self.end - self.start;
            if let Some(at) = memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                return Ok(self.line(searched + at, 1));
            }
            if pending > LONGEST_LINE_BYTES {
                self.taken += 1;
                return Ok(Next::TooLong);
            }
            if self.ended {
                return Ok(if pending == 0 { Next::End } else { self.line(pending, 0) });
            }
            searched = pending;
            self.fill()?;
        }
    }

    /// Reads on, once. There is always room: the buffer is longer than the longest line.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let bytes = read_some(&mut self.source, &mut self.buffer[self.end..])?;
        self.end += bytes;
        self.ended = bytes == 0;
        Ok(())
    }
}

/// Reads once, again if it was interrupted.
pub(super) fn read_some(source: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
