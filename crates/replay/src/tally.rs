//! What happened, counted while it happens: in memory that is there from the beginning.

use std::collections::BTreeMap;

use ioassay_block::{Kind, Request};
use ioassay_fiolog::{LAST_BIN, bin_index, bin_middle};
use ioassay_stats::ExactMoments;
use serde::Serialize;

use crate::slots::Slot;

/// Above this a request is late: what is wanted of the 99th percentile at 50,000 requests a second.
pub const LATE_NS: u64 = 50_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Seconds that have memory from the beginning: a day. Of longer replays the kernel moves pages, and copies nothing.
const SECONDS: usize = 86_400;

/// A distribution in fio's bins, with exact moments.
pub struct Distribution {
    bins: Box<[u64]>,
    moments: ExactMoments,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { bins: vec![0; LAST_BIN + 1].into(), moments: ExactMoments::new() }
    }
}

impl Distribution {
    #[inline]
    fn record(&mut self, value_ns: u64) {
        self.bins[bin_index(value_ns)] += 1;
        self.moments.record(value_ns);
    }

    fn summary(&self) -> Summary {
        let filled = self.bins.iter().enumerate().filter(|&(_, &count)| count > 0);
        Summary {
            bins: filled.filter_map(|(index, &count)| Some((bin_middle(index)?, count))).collect(),
            mean_ns: self.moments.mean(),
            min_ns: self.moments.min(),
            max_ns: self.moments.max(),
            stddev_ns: self.moments.stddev(),
        }
    }
}

/// A distribution as results have it: counts by the nanoseconds that stand for fio's bins, exact moments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub bins: BTreeMap<u64, u64>,
    pub mean_ns: Option<f64>,
    pub min_ns: Option<u64>,
    pub max_ns: Option<u64>,
    pub stddev_ns: Option<f64>,
}

/// All requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Direction {
    /// Done without error.
    pub ios: u64,
    pub bytes: u64,
    pub errors: u64,
    /// From issue to completion, of those without error.
    pub lat: Summary,
    /// From the due time to completion.
    pub response: Summary,
}

#[derive(Default)]
struct Counts {
    ios: u64,
    bytes: u64,
    errors: u64,
    lat: Distribution,
    response: Distribution,
}

/// Requests of a kind that failed in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failures {
    pub kind: &'static str,
    /// 0 where fewer bytes were moved than were wanted.
    pub errno: i32,
    /// What the system says, or how many bytes the first one moved.
    pub text: String,
    pub count: u64,
    /// Number of the first in the trace, from 1.
    pub number: u64,
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

/// One second since the first request was due, those that it completed and the worst lateness of those it issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Second {
    pub read_ios: u64,
    pub read_bytes: u64,
    pub write_ios: u64,
    pub write_bytes: u64,
    pub trim_ios: u64,
    pub trim_bytes: u64,
    pub sync_ios: u64,
    pub lateness_max_ns: u64,
}

#[derive(Default)]
pub struct Tally {
    kinds: [Counts; 4],
    lateness: Distribution,
    pub late: u64,
    drift: Slope,
    failures: BTreeMap<(usize, i32), Failures>,
    pub errors: u64,
    series: Vec<Second>,
}

/// The names of the kinds in results.
pub fn name_of(kind: Kind) -> &'static str {
    ["read", "write", "trim", "sync"][kind as usize]
}

impl Tally {
    pub fn new() -> Self {
        Self { series: Vec::with_capacity(SECONDS), ..Self::default() }
    }

    /// A request was issued, `since_ns` after the first was due.
    #[inline]
    pub fn issue(&mut self, since_ns: u64, lateness_ns: u64) {
        self.lateness.record(lateness_ns);
        self.late += u64::from(lateness_ns > LATE_NS);
        self.drift.add(since_ns as f64 / 1e9, lateness_ns as f64 / 1e3);
        let second = self.second(since_ns);
        second.lateness_max_ns = second.lateness_max_ns.max(lateness_ns);
    }

    /// A request was done at `now_ns`, `since_ns` after the first was due: `result` is the bytes that it moved, or a
    /// negative error number.
    #[inline]
    pub fn complete(&mut self, slot: &Slot, result: i64, now_ns: u64, since_ns: u64) {
        let Request { kind, length_bytes, .. } = slot.request;
        let wanted = if matches!(kind, Kind::Read | Kind::Write) { length_bytes } else { 0 };
        if result < 0 || result.unsigned_abs() < wanted {
            return self.fail(slot, result);
        }
        let counts = &mut self.kinds[kind as usize];
        counts.ios += 1;
        counts.bytes += length_bytes;
        counts.lat.record(now_ns.saturating_sub(slot.issue_ns));
        counts.response.record(now_ns.saturating_sub(slot.due_ns));
        let second = self.second(since_ns);
        let (ios, bytes) = match kind {
            Kind::Read => (&mut second.read_ios, &mut second.read_bytes),
            Kind::Write => (&mut second.write_ios, &mut second.write_bytes),
            Kind::Trim => (&mut second.trim_ios, &mut second.trim_bytes),
            Kind::Flush => (&mut second.sync_ios, &mut 0),
        };
        *ios += 1;
        *bytes += length_bytes;
    }

    #[cold]
    fn fail(&mut self, slot: &Slot, result: i64) {
        let Request { kind, offset_bytes, length_bytes, .. } = slot.request;
        self.errors += 1;
        self.kinds[kind as usize].errors += 1;
        let errno = (-result).max(0) as i32;
        let first = self.failures.entry((kind as usize, errno)).or_insert_with(|| Failures {
            kind: name_of(kind),
            errno,
            text: match errno {
                0 => format!("{result} of {length_bytes} bytes"),
                _ => crate::error::text_of(rustix::io::Errno::from_raw_os_error(errno)),
            },
            count: 0,
            number: slot.number,
            offset_bytes,
            length_bytes,
        });
        first.count += 1;
    }

    #[inline]
    fn second(&mut self, since_ns: u64) -> &mut Second {
        let index = (since_ns / SECOND_NS) as usize;
        if index >= self.series.len() {
            self.series.resize(index + 1, Second::default());
        }
        &mut self.series[index]
    }

    pub fn direction(&self, kind: Kind) -> Direction {
        let counts = &self.kinds[kind as usize];
        Direction {
            ios: counts.ios,
            bytes: counts.bytes,
            errors: counts.errors,
            lat: counts.lat.summary(),
            response: counts.response.summary(),
        }
    }

    pub fn lateness(&self) -> Summary {
        self.lateness.summary()
    }

    /// By how much lateness grows with time, in millionths.
    pub fn drift_ppm(&self) -> Option<f64> {
        self.drift.slope()
    }

    pub fn failures(&self) -> Vec<Failures> {
        self.failures.values().cloned().collect()
    }

    pub fn series(&self) -> Vec<Second> {
        self.series.clone()
    }
}

/// The least-squares line through points, one by one (B. P. Welford, "Note on a method for calculating corrected sums
/// of squares and products", Technometrics 4, 1962).
#[derive(Default)]
struct Slope {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    squares: f64,
    products: f64,
}

impl Slope {
    #[inline]
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        let from_mean = x - self.mean_x;
        self.mean_x += from_mean / self.count;
        self.mean_y += (y - self.mean_y) / self.count;
        self.squares += from_mean * (x - self.mean_x);
        self.products += from_mean * (y - self.mean_y);
    }

    fn slope(&self) -> Option<f64> {
        (self.squares > 0.0).then(|| self.products / self.squares)
    }
}

#[cfg(test)]
mod tests {
    use super::Slope;

    #[test]
    fn a_clock_that_loses_a_thousandth_drifts_by_a_thousand_ppm() {
        let mut slope = Slope::default();
        assert_eq!(slope.slope(), None);
        for second in 0..1000 {
            let wiggle = if second % 2 == 0 { 1.0 } else { -1.0 };
            slope.add(f64::from(second), 7.0 + 1000.0 * f64::from(second) + wiggle);
        }
        assert!((slope.slope().unwrap() - 1000.0).abs() < 0.01);
    }
}
