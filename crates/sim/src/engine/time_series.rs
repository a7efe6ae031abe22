//! Time series of a run of unknown length: when all rows are used, each two are merged into one of twice the width.

use std::ops::Range;

use super::tally::Tally;
use crate::drive::Counters;

/// One row: what happened in an interval of time.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct TimeSlice {
    pub issued: u64,
    pub completed: u64,
    /// Sum of their response times, picoseconds.
    pub response_ps: u128,
    /// Requests outstanding at its end.
    pub outstanding: u64,
    pub counters: Counters,
    /// Work started at each element, picoseconds.
    pub busy_ps: Vec<u64>,
}

impl TimeSlice {
    fn merge(&mut self, later: &Self) {
        self.issued += later.issued;
        self.completed += later.completed;
        self.response_ps += later.response_ps;
        self.counters = self.counters.plus(later.counters);
        for (mine, theirs) in self.busy_ps.iter_mut().zip(&later.busy_ps) {
            *mine += theirs;
        }
    }
}

/// The work that an element starts in a row of the time series.
pub(super) struct Work {
    /// When the row begins.
    pub begin_ps: u64,
    pub busy_ps: u64,
    pub counters: Counters,
}

/// What happened to requests in a row of the time series.
#[derive(Default)]
pub(super) struct Interval {
    pub row: Range<u64>,
    pub issued: u64,
    pub completed: u64,
    pub response_ps: u128,
}

/// Rows of one width, from time 0 on.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct TimeSeries {
    /// Width of a row, picoseconds.
    pub width_ps: u64,
    pub rows: Vec<TimeSlice>,
    max_rows: usize,
    elements: usize,
    /// When the current row ends.
    pub(super) row_end_ps: u64,
}

/// From when to when the row of a time lasts.
pub(super) fn row_of(at_ps: u64, width_ps: u64) -> Range<u64> {
    let begin_ps = at_ps - at_ps % width_ps;
    begin_ps..begin_ps.saturating_add(width_ps)
}

/// Initial width of the rows: 0.1 ms.
const INITIAL_WIDTH_PS: u64 = 100_000_000;

impl TimeSeries {
    pub(super) fn new(max_rows: usize, elements: usize) -> Self {
        let mut series = Self {
            width_ps: INITIAL_WIDTH_PS,
            rows: Vec::new(),
            max_rows: max_rows.max(2),
            elements,
            row_end_ps: INITIAL_WIDTH_PS,
        };
        series.rows.push(series.empty());
        series
    }

    fn empty(&self) -> TimeSlice {
        TimeSlice { busy_ps: vec![0; self.elements], ..TimeSlice::default() }
    }

    #[inline]
    pub(super) fn current_row(&mut self) -> &mut TimeSlice {
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// The row of a time, which is the current one where the time is beyond that.
    pub(super) fn row_at(&mut self, at_ps: u64) -> &mut TimeSlice {
        if at_ps >= self.row_end_ps {
            self.advance(at_ps, Counters::default());
        }
        let row = (at_ps / self.width_ps) as usize;
        &mut self.rows[row]
    }

    /// Adds work that an element started in a row.
    pub(super) fn add_work(&mut self, work: &Work, element: usize) {
        let row = self.row_at(work.begin_ps);
        row.busy_ps[element] += work.busy_ps;
        row.counters = row.counters.plus(work.counters);
    }

    /// Adds what happened to requests in a row. Rows may have been merged since it began, but never cut.
    pub(super) fn add_interval(&mut self, interval: &Interval) {
        let row = self.row_at(interval.row.start);
        row.issued += interval.issued;
        row.completed += interval.completed;
        row.response_ps += interval.response_ps;
    }

    /// Begins the interval of `at_ps`, if that is another one, and adds the one before.
    #[inline]
    pub(super) fn enter(&mut self, interval: &mut Interval, at_ps: u64) {
        if !interval.row.contains(&at_ps) {
            self.add_interval(interval);
            *interval = Interval { row: row_of(at_ps, self.width_ps), ..Interval::default() };
        }
    }

    /// The results of a run, at the end of which so many requests are not complete and a buffer holds so many pages.
    pub(super) fn finish(mut self, mut tally: Tally, unfinished: usize, buffered_pages: u64) -> (Tally, Self) {
        let mut outstanding = 0;
        for row in &mut self.rows {
            outstanding = outstanding + row.issued - row.completed;
            row.outstanding = outstanding;
        }
        tally.busy_ps = self.busy_ps();
        tally.record_recent();
        tally.unfinished = unfinished as u64;
        tally.buffered_at_end = buffered_pages;
        (tally, self)
    }

    /// Closes the current row, and goes on to the one that holds `now_ps`.
    #[cold]
    pub(super) fn advance(&mut self, now_ps: u64, counters: Counters) {
        self.close(counters);
        while now_ps / self.width_ps >= self.max_rows as u64 {
            self.merge_pairs();
        }
        while self.rows.len() as u64 <= now_ps / self.width_ps {
            self.rows.push(self.empty());
        }
        self.row_end_ps = (self.rows.len() as u64).saturating_mul(self.width_ps);
    }

    fn merge_pairs(&mut self) {
        let old = std::mem::take(&mut self.rows);
        for pair in old.chunks(2) {
            let mut first = pair[0].clone();
            if let Some(second) = pair.get(1) {
                first.merge(second);
            }
            self.rows.push(first);
        }
        self.width_ps *= 2;
    }

    /// Busy time of each element, picoseconds.
    pub(super) fn busy_ps(&self) -> Vec<u64> {
        let mut sums = vec![0; self.elements];
        for row in &self.rows {
            for (sum, busy_ps) in sums.iter_mut().zip(&row.busy_ps) {
                *sum += busy_ps;
            }
        }
        sums
    }

    /// What the drive counted in the current row.
    pub(super) fn close(&mut self, counters: Counters) {
        let row = self.current_row();
        row.counters = row.counters.plus(counters);
    }
}
