//! Whether a mean response time can be interpreted: the load must not saturate the drive, and the
//! drive must not drift under it.

use crate::engine::{IssueMode, Tally, TimeSeries, TimeSlice};

/// The judgement of a run as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Steadiness {
    /// Requests arrived faster than they were served: response times grow with the length of the
    /// trace, and are no property of the drive.
    pub saturated: bool,
    /// Growth of the queue in the second half of the load, per request issued there.
    pub growth: f64,
    /// Mean response time of what completed in the first and in the second half of the time,
    /// picoseconds; `None` where nothing did.
    pub halves_ps: [Option<f64>; 2],
    /// Whether neither saturated nor different in its halves by more than a fifth.
    pub steady: bool,
}

/// A share of requests that piles up in half of the load, and that chance does not explain.
const SATURATED_GROWTH: f64 = 0.01;
/// Outstanding requests that are no pile.
const SMALL_PILE: u64 = 100;
/// How far the halves' means may differ.
const DRIFT: f64 = 0.2;

/// Judges a run from its time series.
pub fn judge(tally: &Tally, series: &TimeSeries, issue_mode: IssueMode) -> Steadiness {
    let load = loaded(tally, series);
    let (first, second) = load.split_at(load.len() / 2);
    let halves_ps = [mean_ps(first), mean_ps(second)];
    let growth = if matches!(issue_mode, IssueMode::ClosedLoop(_)) { 0.0 } else { growth(first, second) };
    let saturated = tally.gave_up || growth > SATURATED_GROWTH;
    let drifts = match halves_ps {
        [Some(before), Some(after)] => (after - before).abs() > DRIFT * before.min(after),
        _ => false,
    };
    Steadiness { saturated, growth, halves_ps, steady: !saturated && !drifts }
}

/// The rows in which requests were issued.
fn loaded<'a>(tally: &Tally, series: &'a TimeSeries) -> &'a [TimeSlice] {
    let rows = (tally.last_issue_ps / series.width_ps) as usize;
    &series.rows[..rows.clamp(1, series.rows.len())]
}

fn mean_ps(rows: &[TimeSlice]) -> Option<f64> {
    let completed: u64 = rows.iter().map(|row| row.completed).sum();
    let sum: u128 = rows.iter().map(|row| row.response_ps).sum();
    (completed > 0).then(|| sum as f64 / completed as f64)
}

/// What piled up in the second half, as a share of what came; nothing, when the pile was once as
/// high before: bursts come and go.
fn growth(first: &[TimeSlice], second: &[TimeSlice]) -> f64 {
    let at_half = first.last().map_or(0, |row| row.outstanding);
    let highest_before = first.iter().map(|row| row.outstanding).max().unwrap_or(0);
    let at_end = second.last().map_or(0, |row| row.outstanding);
    let issued: u64 = second.iter().map(|row| row.issued).sum();
    if issued == 0 || at_end <= highest_before.max(SMALL_PILE) {
        return 0.0;
    }
    at_end.saturating_sub(at_half) as f64 / issued as f64
}
