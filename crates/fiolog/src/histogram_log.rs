//! Reads a log of completion-latency histograms.
//!
//! Each line holds time, direction, block size and then fio's bins, filled since the line before of
//! that direction (`flush_hist_samples` in iolog.c writes differences). Versions up to fio 2.14
//! wrote running totals instead; nothing in the log tells which it is, so the caller says, and
//! [`DirectionBins::looks_cumulative`] is the suspicion where he may be wrong.

use std::io::Read;

use ioassay_stats::Histogram;

use crate::line::{direction, number};
use crate::line_source::{LONGEST_LINE_BYTES, Line, LineSource};
use crate::reader::refuse_compressed;
use crate::{BinLayout, Direction, Error, Fault};

/// Eight empty bins, as most of a line is.
const EMPTY_BINS: &[u8] = b"0, 0, 0, 0, 0, 0, 0, 0, ";

/// How a histogram log is to be read.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramLogOptions {
    /// Whether a bad line is an error; else it is counted.
    pub strict: bool,
    /// Whether each line holds the totals since the start, as fio up to 2.14 wrote them.
    pub cumulative: bool,
    /// Quantiles (0 to 1) wanted of each line.
    pub quantiles: Vec<f64>,
}

impl Default for HistogramLogOptions {
    fn default() -> Self {
        Self { strict: true, cumulative: false, quantiles: vec![0.5, 0.99] }
    }
}

/// What one line says of the I/Os since the line before.
#[derive(Debug, Clone, PartialEq)]
pub struct BinRow {
    /// Time of the line: the end of its window.
    pub time_ms: u64,
    pub count: u64,
    /// Their mean latency, by the bins' middles; NaN of none.
    pub mean_ns: f64,
    /// The quantiles that were asked for, in that order; NaN of none.
    pub quantiles_ns: Vec<f64>,
}

/// Everything read of one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectionBins {
    /// All lines together. Values are middles of fio's bins: true to within 1/128, or less exact with coarse bins.
    pub histogram: Histogram,
    /// The lines, in their order.
    pub rows: Vec<BinRow>,
    /// How often a line's time was before that of the line before.
    pub time_reversals: u64,
    previous: Vec<u64>,
    shrinking_lines: u64,
}

impl DirectionBins {
    /// Whether the lines look like running totals though they were read as differences: at least
    /// three lines, none of whose bins is ever smaller than in the line before.
    pub fn looks_cumulative(&self) -> bool {
        self.rows.len() >= 3 && self.shrinking_lines == 0
    }
}

/// Everything read of one histogram log.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramLogSummary {
    /// The bins of every line; nothing for a log without a single good line.
    pub layout: Option<BinLayout>,
    /// Lines read, good ones and bad ones and blank ones.
    pub lines: u64,
    /// Lines that could not be read (only counted without strict reading).
    pub bad_lines: u64,
    /// Whether the last line lacks its line feed.
    pub unterminated: bool,
    by_direction: [DirectionBins; 3],
}

impl HistogramLogSummary {
    /// The directions that occur in the log, in fio's order.
    pub fn directions(&self) -> impl Iterator<Item = (Direction, &DirectionBins)> {
        Direction::ALL.into_iter().zip(&self.by_direction).filter(|(_, bins)| !bins.rows.is_empty())
    }
}

/// Reads a whole histogram log in one pass.
pub fn read_histogram_log(source: impl Read, options: &HistogramLogOptions) -> Result<HistogramLogSummary, Error> {
    if let Some(&q) = options.quantiles.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        return Err(Error::Quantile(ioassay_stats::Error::Quantile(q)));
    }
    let mut reader = Reader::new(options);
    let mut input = LineSource::new(source);
    input.fill_to(2)?;
    refuse_compressed(input.pending())?;
    while let Some(line) = input.next_line()? {
        reader.take(&line)?;
    }
    reader.summary.lines = input.lines();
    Ok(reader.summary)
}

/// A line as it stands in the log: only its filled bins.
struct BinLine {
    time_ms: u64,
    direction: Direction,
    layout: BinLayout,
}

struct Reader<'a> {
    options: &'a HistogramLogOptions,
    summary: HistogramLogSummary,
    /// Filled bins of the line at hand: index and count.
    filled: Vec<(usize, u64)>,
}

impl<'a> Reader<'a> {
    fn new(options: &'a HistogramLogOptions) -> Self {
        let summary = HistogramLogSummary {
            layout: None,
            lines: 0,
            bad_lines: 0,
            unterminated: false,
            by_direction: Default::default(),
        };
        Self { options, summary, filled: Vec::new() }
    }

    fn take(&mut self, line: &Line<'_>) -> Result<(), Error> {
        self.summary.unterminated |= !line.terminated;
        if line.text.trim_ascii().is_empty() {
            return Ok(());
        }
        match self.understand(line) {
            Ok(()) => Ok(()),
            Err(_) if !self.options.strict => {
                self.summary.bad_lines += 1;
                Ok(())
            }
            Err(fault) if line.terminated || line.too_long => Err(Error::line(line.number, line.text, fault)),
            Err(fault) => Err(Error::line(line.number, line.text, Fault::Truncated(Box::new(fault)))),
        }
    }

    fn understand(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        if line.too_long {
            return Err(Fault::TooLong(LONGEST_LINE_BYTES));
        }
        let bin_line = read_line(line.text, &mut self.filled)?;
        let layout = *self.summary.layout.get_or_insert(bin_line.layout);
        if bin_line.layout != layout {
            let wanted = format!("{} as in the other lines", layout.bins + 3);
            return Err(Fault::Columns { seen: bin_line.layout.bins + 3, wanted });
        }
        self.summary.by_direction[bin_line.direction as usize].add(&bin_line, &mut self.filled, self.options)
    }
}

impl DirectionBins {
    fn add(&mut self, line: &BinLine, filled: &mut [(usize, u64)], options: &HistogramLogOptions) -> Result<(), Fault> {
        let mut totals = vec![0; line.layout.bins];
        for &(bin, count) in filled.iter() {
            totals[bin] = count;
        }
        self.previous.resize(line.layout.bins, 0);
        let shrunk = totals.iter().zip(&self.previous).position(|(now, before)| now < before);
        if options.cumulative {
            if let Some(bin) = shrunk {
                let seen = format!("{} in bin {bin}", totals[bin]);
                let wanted = "no less than in the line before: this log is not cumulative";
                return Err(Fault::Field { column: "count", seen, wanted });
            }
            for (bin, count) in filled.iter_mut() {
                *count -= self.previous[*bin];
            }
        }
        self.shrinking_lines += u64::from(shrunk.is_some());
        self.previous = totals;
        let before = self.rows.last().map_or(0, |row| row.time_ms);
        self.time_reversals += u64::from(line.time_ms < before);
        self.record(line, filled, &options.quantiles);
        Ok(())
    }

    fn record(&mut self, line: &BinLine, filled: &[(usize, u64)], quantiles: &[f64]) {
        let mut histogram = Histogram::new();
        for &(bin, count) in filled {
            histogram.record_n(line.layout.middle_ns(bin), count);
        }
        // The quantiles were checked; what fails here is a line without any I/O.
        let quantile = |&q: &f64| histogram.value_at_quantile(q).unwrap_or(f64::NAN);
        self.rows.push(BinRow {
            time_ms: line.time_ms,
            count: histogram.count(),
            mean_ns: histogram.moments().mean().unwrap_or(f64::NAN),
            quantiles_ns: quantiles.iter().map(quantile).collect(),
        });
        self.histogram.merge(&histogram);
    }
}

fn read_line(line: &[u8], filled: &mut Vec<(usize, u64)>) -> Result<BinLine, Fault> {
    let mut rest = line;
    let time_ms = number("time", next_field(&mut rest))?;
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
    Ok(BinLine { time_ms, direction, layout })
}

/// Cuts the first field off, without the white space around it.
fn next_field<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = memchr::memchr(b',', rest).unwrap_or(rest.len());
    let field = rest[..end].trim_ascii();
    *rest = rest.get(end + 1..).unwrap_or(&[]);
    field
}
