//! Reads usual lines two at a time.
//!
//! Where a line begins is known only once the line before has been read, so a processor that reads
//! line after line waits most of its time. Two stretches of text read in turn do not wait for each
//! other: a quarter more lines in the same time (measured).

use crate::Layout;
use crate::digits::REACH;
use crate::fast_line::read_fast_line;
use crate::line::Row;
use crate::tail::TailMemory;

/// Rows that one lane holds.
const ROWS: usize = 512;

/// Text of one lane. No line is shorter than 11 bytes (`0, 0, 0, 0` and its line feed), so the rows always find room.
const LANE_BYTES: usize = 11 * ROWS;

/// Room for the rows of two lanes, and what was seen in the log so far.
pub(crate) struct Lanes {
    rows: [Vec<Row>; 2],
    tails: TailMemory,
}

/// Rows in the order of their lines, in two parts, and the bytes of those lines.
pub(crate) struct Taken<'a> {
    pub first: &'a [Row],
    pub second: &'a [Row],
    pub bytes: usize,
}

struct Lane<'text, 'rows> {
    text: &'text [u8],
    at: usize,
    end: usize,
    rows: &'rows mut [Row],
    count: usize,
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self { rows: [vec![Row::default(); ROWS], vec![Row::default(); ROWS]], tails: TailMemory::new() }
    }

    /// Takes usual lines from the start of `text`, as many as fit; stops before a line that is not
    /// usual and shortly before the end of `text`.
    pub(crate) fn take(&mut self, text: &[u8], layout: Layout) -> Taken<'_> {
        let [rows, more_rows] = &mut self.rows;
        let middle = line_after(text, LANE_BYTES);
        let end = if middle == 0 { text.len().min(LANE_BYTES) } else { middle };
        let mut first = Lane { text, at: 0, end, rows, count: 0 };
        let end = if middle == 0 { 0 } else { text.len().min(2 * LANE_BYTES) };
        let mut second = Lane { text, at: middle, end, rows: more_rows, count: 0 };
        let mut step = |lane: &mut Lane| lane.step(layout, &mut self.tails);
        while step(&mut first) && step(&mut second) {}
        while step(&mut first) {}
        if first.at != middle {
            // The first lane met something unusual: what comes after must wait for that.
            return Taken { bytes: first.at, first: first.taken(), second: &[] };
        }
        while step(&mut second) {}
        Taken { bytes: second.at, first: first.taken(), second: second.taken() }
    }
}

/// Where the first line at or after `at` begins, or 0 where no line feed is near.
fn line_after(text: &[u8], at: usize) -> usize {
    let near = text.get(at..at + REACH).unwrap_or(&[]);
    memchr::memchr(b'\n', near).map_or(0, |line_feed| at + line_feed + 1)
}

impl<'rows> Lane<'_, 'rows> {
    #[inline(always)]
    fn step(&mut self, layout: Layout, tails: &mut TailMemory) -> bool {
        if self.at >= self.end {
            return false;
        }
        let Some(window) = self.text[self.at..].first_chunk() else {
            return false;
        };
        let Some((row, length)) = read_fast_line(window, layout, tails) else {
            return false;
        };
        let Some(place) = self.rows.get_mut(self.count) else {
            return false;
        };
        *place = row;
        self.count += 1;
        self.at += length;
        true
    }

    fn taken(self) -> &'rows [Row] {
        &self.rows[..self.count]
    }
}
