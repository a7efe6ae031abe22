//! Reads a log of completion-latency histograms.
//!
//! Each line holds time, direction, block size and then fio's bins, filled since the line before of
//! that direction (`flush_hist_samples` in iolog.c writes differences). Versions up to fio 2.14 wrote
//! running totals instead, which are not read: [`DirectionBins::looks_cumulative`] is the suspicion of them.

use std::io::Read;

use ioassay_stats::Histogram;

use crate::line::{direction, number};
use crate::line_source::{LineSource, read_checked, refuse_compressed};
use crate::{BinLayout, Direction, Error, Fault};

/// Eight empty bins, as most of a line is.
const EMPTY_BINS: &[u8] = b"0, 0, 0, 0, 0, 0, 0, 0, ";

/// Everything read of one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectionBins {
    /// All lines together. Values are middles of fio's bins: true to within 1/128, or less exact with coarse bins.
    pub histogram: Histogram,
    pub lines: u64,
    previous: Vec<u64>,
    shrinking_lines: u64,
}

impl DirectionBins {
    /// Whether the lines look like running totals though they are read as differences: at least
    /// three lines, none of whose bins is ever smaller than in the line before.
    pub fn looks_cumulative(&self) -> bool {
        self.lines >= 3 && self.shrinking_lines == 0
    }

    fn add(&mut self, layout: BinLayout, filled: &[(usize, u64)]) {
        let mut totals = vec![0; layout.bins];
        for &(bin, count) in filled {
            totals[bin] = count;
            self.histogram.record_n(layout.middle_ns(bin), count);
        }
        self.previous.resize(layout.bins, 0);
        self.shrinking_lines += u64::from(totals.iter().zip(&self.previous).any(|(now, before)| now < before));
        self.previous = totals;
        self.lines += 1;
    }
}

/// Everything read of one histogram log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramLogSummary {
    /// The bins of every line; nothing for a log without any line.
    pub layout: Option<BinLayout>,
    /// Lines read, blank ones included.
    pub lines: u64,
    /// Whether the last line lacks its line feed.
    pub unterminated: bool,
    by_direction: [DirectionBins; 3],
}

impl HistogramLogSummary {
    /// The directions that occur in the log, in fio's order.
    pub fn directions(&self) -> impl Iterator<Item = (Direction, &DirectionBins)> {
        Direction::ALL.into_iter().zip(&self.by_direction).filter(|(_, bins)| bins.lines > 0)
    }

    fn take(&mut self, line: &[u8], filled: &mut Vec<(usize, u64)>) -> Result<(), Fault> {
        let (direction, seen) = read_line(line, filled)?;
        let layout = *self.layout.get_or_insert(seen);
        if seen != layout {
            let wanted = format!("{} as in the other lines", layout.bins + 3);
            return Err(Fault::Columns { seen: seen.bins + 3, wanted });
        }
        self.by_direction[direction as usize].add(layout, filled);
        Ok(())
    }
}

/// Reads a whole histogram log in one pass. A bad line is an error.
pub fn read_histogram_log(source: impl Read) -> Result<HistogramLogSummary, Error> {
    let mut input = LineSource::new(source);
    input.fill_to(2)?;
    refuse_compressed(input.pending())?;
    let mut summary = HistogramLogSummary::default();
    let mut filled = Vec::new();
    while let Some(line) = input.next_line()? {
        read_checked(&line, |line| summary.take(line, &mut filled))?;
    }
    (summary.lines, summary.unterminated) = (input.lines(), input.unterminated());
    Ok(summary)
}

/// Direction and layout of a line, whose filled bins (index and count) replace what is in `filled`.
fn read_line(line: &[u8], filled: &mut Vec<(usize, u64)>) -> Result<(Direction, BinLayout), Fault> {
    let mut rest = line;
    number("time", next_field(&mut rest))?;
    let direction = direction(next_field(&mut rest))?;
    number("block size", next_field(&mut rest))?;
    rest = rest.trim_ascii_start();
    filled.clear();
    let mut bins = 0;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(EMPTY_BINS) {
            rest = after;
            bins += 8;
            continue;
        }
        let count = number("a bin's count", next_field(&mut rest))?;
        if count > 0 {
            filled.push((bins, count));
        }
        bins += 1;
        rest = rest.strip_prefix(b" ").unwrap_or(rest);
    }
    let layout = BinLayout::of_bins(bins).ok_or_else(|| Fault::Columns {
        seen: bins + 3,
        wanted: "3 and 1856 bins (fio 3), 1216 (fio 2), or those halved up to six times".into(),
    })?;
    Ok((direction, layout))
}

/// Cuts the first field off, without the white space around it.
fn next_field<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = memchr::memchr(b',', rest).unwrap_or(rest.len());
    let field = rest[..end].trim_ascii();
    *rest = rest.get(end + 1..).unwrap_or(&[]);
    field
}
