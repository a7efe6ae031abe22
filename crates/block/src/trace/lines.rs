//! Lines and records out of a byte source, through one buffer that is used again and again.
//!
//! It knows nothing of what they mean: [`fields`](super::fields) reads the columns of a line.

use std::io::{self, Read};
use std::ops::Deref;

use memchr::memchr;

/// Fits the second-level cache of the processors in use: larger reads are no faster.
const BUFFER_BYTES: usize = 256 * 1024;

/// Behind the buffer, so that eight bytes can be read at once wherever a line has one.
const SLACK_BYTES: usize = 8;

/// Longest line that is read. Lines of traces have some hundred bytes at most.
pub(super) const LONGEST_LINE_BYTES: usize = 64 * 1024;

/// The bytes of a source, of which those that were read and not taken can be looked at.
pub(super) struct Buffered<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
}

impl<R: Read> Buffered<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; BUFFER_BYTES + SLACK_BYTES], start: 0, end: 0, ended: false }
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The next bytes, which must be there, and then are taken.
    #[inline(always)]
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        self.start += count;
        &self.buffer[from..self.start]
    }

    /// Whether at least `wanted` bytes are there, after reading on. At most 128 KiB may be wanted.
    pub(super) fn has(&mut self, wanted: usize) -> io::Result<bool> {
        while self.end - self.start < wanted && !self.ended {
            self.fill()?;
        }
        Ok(self.end - self.start >= wanted)
    }

    /// Reads on, once, behind what was not taken.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let bytes = read_some(&mut self.source, &mut self.buffer[self.end..BUFFER_BYTES])?;
        self.end += bytes;
        self.ended = bytes == 0;
        Ok(())
    }
}

pub(super) struct Lines<R> {
    input: Buffered<R>,
    taken: u64,
}

pub(super) enum Next<'a> {
    /// A line, without its line feed.
    Line(Line<'a>),
    /// A line of more than [`LONGEST_LINE_BYTES`].
    TooLong,
    End,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Self { input: Buffered::new(source), taken: 0 }
    }

    /// How many lines were taken: the number of the last one.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        match memchr(b'\n', self.input.bytes()) {
            Some(length) => Ok(self.line(length, 1)),
            None => self.next_after_filling(),
        }
    }

    #[inline(always)]
    fn line(&mut self, length: usize, feed: usize) -> Next<'_> {
        let from = self.input.start;
        self.input.start += length + feed;
        self.taken += 1;
        Next::Line(Line { text: &self.input.buffer[from..], length })
    }

    #[inline(never)]
    fn next_after_filling(&mut self) -> io::Result<Next<'_>> {
        let mut searched = 0;
        loop {
            let pending = self.input.bytes();
            if let Some(at) = memchr(b'\n', &pending[searched..]) {
                return Ok(self.line(searched + at, 1));
            }
            searched = pending.len();
            if searched > LONGEST_LINE_BYTES {
                self.taken += 1;
                return Ok(Next::TooLong);
            }
            if self.input.ended {
                // What an earlier read left there would go on with the line.
                self.input.buffer[self.input.end] = b'\n';
                return Ok(if searched == 0 { Next::End } else { self.line(searched, 0) });
            }
            self.input.fill()?;
        }
    }
}

/// A line, with what stands behind it in the buffer: white space or nothing, then anything.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    text: &'a [u8],
    length: usize,
}

impl<'a> Line<'a> {
    /// A line with nothing behind it.
    pub(super) fn of(text: &'a [u8]) -> Self {
        Self { text, length: text.len() }
    }

    /// A part of the line as a line of its own.
    #[inline(always)]
    pub(super) fn within(self, from: usize, to: usize) -> Self {
        Self { text: &self.text[from..], length: to - from }
    }

    /// The line without white space at its ends; a carriage return is some.
    #[inline(always)]
    pub(super) fn trimmed(mut self) -> Self {
        while self.length > 0 && is_white(self.text[self.length - 1]) {
            self.length -= 1;
        }
        while self.length > 0 && is_white(self.text[0]) {
            self.text = &self.text[1..];
            self.length -= 1;
        }
        self
    }

    /// The byte at a place; nothing at the end.
    #[inline(always)]
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        if at < self.length { self.text.get(at).copied() } else { None }
    }

    /// Eight bytes from a place on, the first the lowest, some of them perhaps from behind the line.
    #[inline(always)]
    pub(super) fn word(self, at: usize) -> Option<u64> {
        let bytes = self.text.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A part of the line.
    #[inline(always)]
    pub(super) fn part(self, from: usize, to: usize) -> &'a [u8] {
        &self.text[from..to]
    }
}

impl Deref for Line<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

#[inline(always)]
pub(super) fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
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
