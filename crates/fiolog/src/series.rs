//! Values gathered into windows of equal length.

use std::collections::BTreeMap;

use ioassay_stats::ExactMoments;

/// Moments of the values in each window of time; windows without a value are not there. Time may
/// go backwards in a log (fio appends one job's log to another's): a window is then taken up again.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    window_ms: u64,
    windows: BTreeMap<u64, ExactMoments>,
}

impl Series {
    /// No values yet, in windows of `window_ms` (at least 1).
    pub(crate) fn new(window_ms: u64) -> Self {
        Self { window_ms, windows: BTreeMap::new() }
    }

    /// First and last millisecond of the window that holds `time_ms`.
    pub(crate) fn window_of(&self, time_ms: u64) -> (u64, u64) {
        let start_ms = time_ms - time_ms % self.window_ms;
        (start_ms, start_ms.saturating_add(self.window_ms - 1))
    }

    /// Adds values to the window that begins at `start_ms`.
    pub(crate) fn add(&mut self, start_ms: u64, values: &ExactMoments) {
        self.windows.entry(start_ms).or_default().merge(values);
    }

    pub fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// Start of each window that holds values (a multiple of its length, on the log's own clock)
    /// and the values' moments, in order of time.
    pub fn windows(&self) -> impl ExactSizeIterator<Item = (u64, &ExactMoments)> {
        self.windows.iter().map(|(&start_ms, moments)| (start_ms, moments))
    }
}
