//! Reads a bandwidth, IOPS or latency log.

use std::io::Read;

use crate::lanes::Lanes;
use crate::line::{self, read_careful};
use crate::line_source::{LineSource, read_checked, refuse_compressed};
use crate::summary::DirectionSummary;
use crate::{Direction, Error, Fault, Layout, LogKind, LogSummary};

/// How much is looked at before the layout of the columns is decided: some thousand lines.
const BYTES_FOR_LAYOUT: usize = 64 * 1024;

/// Reads a whole log in one pass; `window_ms` is the length of the windows of the series. An empty log is a summary
/// without directions, and a bad line is an error.
pub fn read_log(source: impl Read, kind: LogKind, window_ms: u64) -> Result<LogSummary, Error> {
    if window_ms == 0 {
        return Err(Error::Option { name: "window_ms", value: window_ms, wanted: "at least 1" });
    }
    let mut input = LineSource::new(source);
    let by_direction = Direction::ALL.map(|_| DirectionSummary::new(window_ms));
    let summary = LogSummary { kind, layout: None, lines: 0, unterminated: false, by_direction };
    let mut reader = Reader { summary, lanes: Lanes::new() };
    reader.look_ahead(&mut input)?;
    loop {
        reader.take_fast(&mut input);
        let Some(line) = input.next_line()? else {
            break;
        };
        read_checked(&line, |line| reader.take_careful(line))?;
    }
    (reader.summary.lines, reader.summary.unterminated) = (input.lines(), input.unterminated());
    for direction in &mut reader.summary.by_direction {
        direction.finish();
    }
    Ok(reader.summary)
}

struct Reader {
    summary: LogSummary,
    lanes: Lanes,
}

impl Reader {
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
        let scale = self.summary.kind.scale();
        loop {
            let taken = self.lanes.take(input.pending(), layout);
            for row in taken.first.iter().chain(taken.second) {
                // At most 15 digits by a scale of at most 1024: always fits.
                let value = row.value * scale;
                self.summary.by_direction[row.direction as usize].record(row, value);
            }
            let lines = taken.first.len() + taken.second.len();
            input.take(taken.bytes, lines as u64);
            if lines == 0 {
                return;
            }
        }
    }

    /// Takes any line that can be read.
    fn take_careful(&mut self, line: &[u8]) -> Result<(), Fault> {
        if self.summary.layout.is_none() {
            self.summary.layout = Layout::of(std::iter::once(line));
        }
        let layout = self.summary.layout.ok_or_else(|| line::unknown_layout(line))?;
        let row = read_careful(line, layout)?;
        let Some(value) = row.value.checked_mul(self.summary.kind.scale()) else {
            let seen = row.value.to_string();
            return Err(Fault::Field { column: "value", seen, wanted: "one that fits 64 bits in its unit" });
        };
        self.summary.by_direction[row.direction as usize].record(&row, value);
        Ok(())
    }
}
