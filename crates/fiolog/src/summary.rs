//! The content of a log, by direction.

use ioassay_stats::Histogram;

use crate::line::Row;
use crate::{Direction, Layout, LogKind, Series};

/// Everything read of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionSummary {
    /// Distribution of the values, with their exact moments.
    pub histogram: Histogram,
    /// The values gathered into windows of time.
    pub series: Series,
    /// Sum of the block sizes. Windowed logs say 0 for every line.
    pub bytes: u128,
    /// Smallest time in the log.
    pub first_ms: u64,
    /// Largest time in the log.
    pub last_ms: u64,
    /// How often a line's time was before that of the line before: fio appends one job's log to
    /// another's where `per_job_logs=0`.
    pub time_reversals: u64,
    /// Values of the window at hand that the histogram has not seen yet: it takes many at once in
    /// less than half the time.
    batch: Vec<u64>,
    batch_window_ms: (u64, u64),
    previous_ms: Option<u64>,
}

/// Values in a full batch; they and the histogram's busy part fit the first-level cache.
const BATCH: usize = 512;

impl DirectionSummary {
    pub(crate) fn new(window_ms: u64) -> Self {
        Self {
            histogram: Histogram::new(),
            series: Series::new(window_ms),
            bytes: 0,
            first_ms: u64::MAX,
            last_ms: 0,
            time_reversals: 0,
            batch: Vec::with_capacity(BATCH),
            // Holds no time but 0, which begins a window of any length.
            batch_window_ms: (0, 0),
            previous_ms: None,
        }
    }

    /// Takes in a line; `value` is the line's in the kind's unit.
    #[inline]
    pub(crate) fn record(&mut self, row: &Row, value: u64) {
        if self.previous_ms != Some(row.time_ms) {
            self.step_to(row.time_ms);
        }
        if self.batch.len() == BATCH {
            self.record_batch();
        }
        self.batch.push(value);
        self.bytes += u128::from(row.block_size_bytes);
    }

    fn step_to(&mut self, time_ms: u64) {
        self.time_reversals += u64::from(self.previous_ms > Some(time_ms));
        self.previous_ms = Some(time_ms);
        self.first_ms = self.first_ms.min(time_ms);
        self.last_ms = self.last_ms.max(time_ms);
        let (start_ms, end_ms) = self.batch_window_ms;
        if time_ms < start_ms || time_ms > end_ms {
            self.record_batch();
            self.batch_window_ms = self.series.window_of(time_ms);
        }
    }

    fn record_batch(&mut self) {
        if !self.batch.is_empty() {
            let moments = self.histogram.record_all(&self.batch);
            self.series.add(self.batch_window_ms.0, &moments);
            self.batch.clear();
        }
    }

    pub(crate) fn finish(&mut self) {
        self.record_batch();
        self.batch = Vec::new();
    }
}

/// Everything read of one log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogSummary {
    pub kind: LogKind,
    /// How the columns lie; nothing for a log without a single good line.
    pub layout: Option<Layout>,
    /// Lines read, blank ones included.
    pub lines: u64,
    /// Whether the last line lacks its line feed: fio was stopped while it wrote, or the file cut.
    pub unterminated: bool,
    pub(crate) by_direction: [DirectionSummary; 3],
}

impl LogSummary {
    /// The directions that occur in the log, in fio's order.
    pub fn directions(&self) -> impl Iterator<Item = (Direction, &DirectionSummary)> {
        Direction::ALL.into_iter().zip(&self.by_direction).filter(|(_, summary)| summary.histogram.count() > 0)
    }

    /// One direction, if it occurs in the log.
    pub fn direction(&self, direction: Direction) -> Option<&DirectionSummary> {
        self.directions().find(|&(found, _)| found == direction).map(|(_, summary)| summary)
    }

    /// Lines of all directions.
    pub fn rows(&self) -> u64 {
        self.by_direction.iter().map(|summary| summary.histogram.count()).sum()
    }
}
