//! Reads a bandwidth, IOPS or latency log.

use std::io::Read;

use crate::lanes::Lanes;
use crate::line::{self, read_careful};
use crate::line_source::{LONGEST_LINE_BYTES, Line, LineSource};
use crate::summary::DirectionSummary;
use crate::{Direction, Error, Fault, Layout, LogKind, LogSummary, WindowValue};

/// How much is looked at before the layout of the columns is decided: some thousand lines.
const BYTES_FOR_LAYOUT: usize = 64 * 1024;

/// Largest factor between a log's values and their unit.
const LARGEST_SCALE: u64 = 10_000;

/// How a log is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    pub kind: LogKind,
    /// Length of the windows of the series, at least 1.
    pub window_ms: u64,
    /// Whether a bad line is an error; else it is counted.
    pub strict: bool,
    /// Which value of `log_window_value=both` is wanted.
    pub window_value: WindowValue,
    /// What turns the log's values into the kind's unit: [`LogKind::scale`], but 1000 for the
    /// latencies of fio 2, which are microseconds.
    pub scale: u64,
}

impl LogOptions {
    /// Strict reading of a log of fio 3, in windows of one second.
    pub fn new(kind: LogKind) -> Self {
        Self { kind, window_ms: 1000, strict: true, window_value: WindowValue::Average, scale: kind.scale() }
    }

    fn check(self) -> Result<(), Error> {
        if self.window_ms == 0 {
            let wanted = "at least 1";
            return Err(Error::Option { name: "window_ms", value: self.window_ms, wanted });
        }
        if !(1..=LARGEST_SCALE).contains(&self.scale) {
            return Err(Error::Option { name: "scale", value: self.scale, wanted: "1 to 10000" });
        }
        Ok(())
    }
}

/// Reads a whole log in one pass. An empty log is a summary without directions.
pub fn read_log(source: impl Read, options: LogOptions) -> Result<LogSummary, Error> {
    options.check()?;
    let mut input = LineSource::new(source);
    let mut reader = Reader::new(options);
    reader.look_ahead(&mut input)?;
    loop {
        reader.take_fast(&mut input);
        let Some(line) = input.next_line()? else {
            break;
        };
        reader.take_careful(&line)?;
    }
    reader.summary.lines = input.lines();
    for direction in &mut reader.summary.by_direction {
        direction.finish();
    }
    Ok(reader.summary)
}

struct Reader {
    options: LogOptions,
    summary: LogSummary,
    lanes: Lanes,
}

impl Reader {
    fn new(options: LogOptions) -> Self {
        let by_direction = Direction::ALL.map(|_| DirectionSummary::new(options.window_ms));
        let summary =
            LogSummary { kind: options.kind, layout: None, lines: 0, bad_lines: 0, unterminated: false, by_direction };
        Self { options, summary, lanes: Lanes::new() }
    }

    /// Decides the layout by the first lines.
    fn look_ahead(&mut self, input: &mut LineSource<impl Read>) -> Result<(), Error> {
        input.fill_to(BYTES_FOR_LAYOUT)?;
        refuse_compressed(input.pending())?;
        let start = &input.pending()[..input.pending().len().min(BYTES_FOR_LAYOUT)];
        let whole = memchr::memrchr(b'\n', start).unwrap_or(0);
        let lines = start[..whole].split(|&byte| byte == b'\n');
        self.summary.layout = Layout::of(lines);
        Ok(())
    }

    /// Takes lines as long as they are just as fio writes them.
    fn take_fast<R: Read>(&mut self, input: &mut LineSource<R>) {
        let Some(layout) = self.summary.layout else {
            return;
        };
        loop {
            let taken = self.lanes.take(input.pending(), layout, self.options.window_value);
            for row in taken.first.iter().chain(taken.second) {
                // At most 15 digits by a scale of at most LARGEST_SCALE: always fits.
                let value = row.value * self.options.scale;
                self.summary.by_direction[row.direction as usize].record(row, value);
            }
            let lines = taken.first.len() + taken.second.len();
            input.take(taken.bytes, lines as u64);
            if lines == 0 {
                return;
            }
        }
    }

    /// Takes any line, counts it as bad, or fails with what is wrong.
    fn take_careful(&mut self, line: &Line<'_>) -> Result<(), Error> {
        if !line.terminated {
            self.summary.unterminated = true;
        }
        if line.text.trim_ascii().is_empty() {
            return Ok(());
        }
        let Err(mut fault) = self.understand(line) else {
            return Ok(());
        };
        if !self.options.strict {
            self.summary.bad_lines += 1;
            return Ok(());
        }
        if !line.terminated && !line.too_long {
            fault = Fault::Truncated(Box::new(fault));
        }
        Err(Error::line(line.number, line.text, fault))
    }

    fn understand(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        if line.too_long {
            return Err(Fault::TooLong(LONGEST_LINE_BYTES));
        }
        if self.summary.layout.is_none() {
            self.summary.layout = Layout::of(std::iter::once(line.text));
        }
        let layout = self.summary.layout.ok_or_else(|| line::unknown_layout(line.text))?;
        let row = read_careful(line.text, layout, self.options.window_value)?;
        let Some(value) = row.value.checked_mul(self.options.scale) else {
            let seen = row.value.to_string();
            return Err(Fault::Field { column: "value", seen, wanted: "one that fits 64 bits in its unit" });
        };
        self.summary.by_direction[row.direction as usize].record(&row, value);
        Ok(())
    }
}

/// A text log begins with a digit; zlib and gzip have their marks (RFC 1950, RFC 1952).
pub(crate) fn refuse_compressed(start: &[u8]) -> Result<(), Error> {
    let zlib = matches!(start, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]);
    if zlib || start.starts_with(&[0x1f, 0x8b]) { Err(Error::Compressed) } else { Ok(()) }
}
