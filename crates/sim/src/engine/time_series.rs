//! Time series of a run whose length is not known beforehand: when the rows are full, each two
//! become one of twice the width.

use crate::drive::Counters;

/// What happened in one slice of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slice {
    /// Requests issued.
    pub issued: u64,
    /// Requests completed.
    pub completed: u64,
    /// Their response times added up, picoseconds.
    pub response_ps: u128,
    /// Requests outstanding at its end.
    pub outstanding: u64,
    /// What the drive did.
    pub counters: Counters,
    /// For each element the work that it began, picoseconds.
    pub busy_ps: Vec<u64>,
}

impl Slice {
    fn absorb(&mut self, later: &Self) {
        self.issued += later.issued;
        self.completed += later.completed;
        self.response_ps += later.response_ps;
        self.outstanding = later.outstanding;
        self.counters = self.counters.plus(later.counters);
        for (mine, theirs) in self.busy_ps.iter_mut().zip(&later.busy_ps) {
            *mine += theirs;
        }
    }
}

/// Rows of one width, from time 0 on.
#[derive(Debug, Clone)]
pub struct Slices {
    /// Width of a row, picoseconds.
    pub width_ps: u64,
    /// The rows.
    pub rows: Vec<Slice>,
    most: usize,
    elements: usize,
    /// When the current row ends.
    pub(super) until_ps: u64,
}

/// The width that rows have at first: 0.1 ms.
const FIRST_WIDTH_PS: u64 = 100_000_000;

impl Slices {
    pub(super) fn new(most: usize, elements: usize) -> Self {
        let mut slices = Self {
            width_ps: FIRST_WIDTH_PS,
            rows: Vec::new(),
            most: most.max(2),
            elements,
            until_ps: FIRST_WIDTH_PS,
        };
        slices.rows.push(slices.empty());
        slices
    }

    fn empty(&self) -> Slice {
        Slice {
            busy_ps: vec![0; self.elements],
            ..Slice::default()
        }
    }

    /// The current row.
    #[inline]
    pub(super) fn now(&mut self) -> &mut Slice {
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// The row that holds a time, or the current one, if that is later.
    #[inline]
    pub(super) fn at(&mut self, at_ps: u64) -> &mut Slice {
        let last = self.rows.len() - 1;
        if at_ps >= self.until_ps - self.width_ps {
            return &mut self.rows[last];
        }
        let row = (at_ps / self.width_ps) as usize;
        &mut self.rows[row.min(last)]
    }

    /// Closes the current row, and goes on to the one that holds `now_ps`.
    #[cold]
    pub(super) fn advance(&mut self, now_ps: u64, outstanding: u64, counters: Counters) {
        let row = self.now();
        row.outstanding = outstanding;
        row.counters = row.counters.plus(counters);
        while now_ps / self.width_ps >= self.most as u64 {
            self.halve();
        }
        while self.rows.len() as u64 <= now_ps / self.width_ps {
            let mut empty = self.empty();
            empty.outstanding = outstanding;
            self.rows.push(empty);
        }
        self.until_ps = (self.rows.len() as u64).saturating_mul(self.width_ps);
    }

    fn halve(&mut self) {
        let old = std::mem::take(&mut self.rows);
        for pair in old.chunks(2) {
            let mut first = pair[0].clone();
            if let Some(second) = pair.get(1) {
                first.absorb(second);
            }
            self.rows.push(first);
        }
        self.width_ps *= 2;
    }

    /// How long each element worked, picoseconds.
    pub(super) fn busy_ps(&self) -> Vec<u64> {
        let mut sums = vec![0; self.elements];
        for row in &self.rows {
            for (sum, busy_ps) in sums.iter_mut().zip(&row.busy_ps) {
                *sum += busy_ps;
            }
        }
        sums
    }

    /// Ends the series.
    pub(super) fn close(&mut self, outstanding: u64, counters: Counters) {
        let row = self.now();
        row.outstanding = outstanding;
        row.counters = row.counters.plus(counters);
    }
}
