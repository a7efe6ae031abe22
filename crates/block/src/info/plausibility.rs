//! What makes a trace implausible, with the next step in it.

use super::Info;

const FASTEST_PER_S: f64 = 5e6;
const SLOWEST_PER_S: f64 = 1.0 / 3600.0;
const FURTHEST_BYTES: u64 = 1 << 50;

/// One reason to look at a trace again before it is believed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum TraceWarning {
    /// There is nothing in it.
    #[error("the trace has no requests")]
    NoRequests,
    /// More than one request, all at one time.
    #[error("all {requests} requests have the same time stamp")]
    NoSpan { requests: u64 },
    /// More requests a second than any device serves.
    #[error("{per_second:.3e} requests a second are more than any device serves")]
    TooFast { per_second: f64 },
    #[error("{per_hour:.3e} requests an hour are hardly a load")]
    TooSlow { per_hour: f64 },
    /// Addresses beyond the largest volumes.
    #[error("the trace reaches up to {end_bytes} bytes, more than 1 PiB")]
    Far {
        /// Where the furthest request ends.
        end_bytes: u64,
    },
    /// Requests longer than kernels send.
    #[error("{count} requests are longer than 64 MiB, the longest has {longest_bytes} bytes")]
    Long { count: u64, longest_bytes: u64 },
    #[error("{count} requests have no bytes")]
    Empty { count: u64 },
    /// Lengths that no block device takes.
    #[error("the lengths of {count} requests are not multiples of 512 bytes")]
    OddSizes { count: u64 },
    /// Nothing but reads or nothing but writes.
    #[error("all requests are {kind}")]
    OneKind { kind: &'static str },
    #[error("time goes back {count} times")]
    Backward { count: u64 },
    /// A day without requests in the middle.
    #[error("{count} gaps are longer than a day, the longest {longest_s:.0} s")]
    LongGaps { count: u64, longest_s: f64 },
}

impl TraceWarning {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoRequests => "trace-empty",
            Self::NoSpan { .. } => "trace-no-span",
            Self::TooFast { .. } => "trace-too-fast",
            Self::TooSlow { .. } => "trace-too-slow",
            Self::Far { .. } => "trace-far",
            Self::Long { .. } => "trace-long-requests",
            Self::Empty { .. } => "trace-empty-requests",
            Self::OddSizes { .. } => "trace-odd-sizes",
            Self::OneKind { .. } => "trace-one-kind",
            Self::Backward { .. } => "trace-time-goes-back",
            Self::LongGaps { .. } => "trace-long-gaps",
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match *self {
            Self::NoRequests => "is it the right file, and the right format?".to_owned(),
            Self::NoSpan { .. } => "feed it in a closed loop; an open loop would take it for one burst".to_owned(),
            Self::TooFast { per_second } => other_unit(per_second, true),
            Self::TooSlow { per_hour } => other_unit(per_hour / 3600.0, false),
            Self::Far { end_bytes } => format!(
                "if addresses were bytes that were taken for sectors, it reaches up to {}; say \
                 their unit, or shrink the range",
                end_bytes / 512
            ),
            Self::Long { .. } => "if lengths were bytes that were taken for sectors, say their unit".to_owned(),
            Self::Empty { .. } => "drop them with --drop-empty".to_owned(),
            Self::OddSizes { .. } => "round them to pages with --sizes round-out".to_owned(),
            Self::OneKind { kind } => format!(
                "right where only {kind} were traced; otherwise look at what the format says of \
                 reads and writes"
            ),
            Self::Backward { .. } => "sort the trace by time, or take it in its order with a closed loop".to_owned(),
            Self::LongGaps { .. } => "were several traces joined? Cut one piece out with --skip and --first".to_owned(),
        }
    }

    pub(super) fn of(info: &Info) -> Vec<Self> {
        if info.requests() == 0 {
            return vec![Self::NoRequests];
        }
        let mut warnings = Vec::new();
        of_times(info, &mut warnings);
        of_places(info, &mut warnings);
        warnings
    }
}

fn of_times(info: &Info, warnings: &mut Vec<TraceWarning>) {
    match info.requests_per_second() {
        None if info.requests() > 1 => warnings.push(TraceWarning::NoSpan { requests: info.requests() }),
        Some(per_second) if per_second > FASTEST_PER_S => {
            warnings.push(TraceWarning::TooFast { per_second });
        }
        Some(per_second) if per_second < SLOWEST_PER_S => {
            warnings.push(TraceWarning::TooSlow { per_hour: per_second * 3600.0 });
        }
        _ => {}
    }
    if info.backward > 0 {
        let count = info.backward;
        warnings.push(TraceWarning::Backward { count });
    }
    if info.long_gaps > 0 {
        warnings.push(TraceWarning::LongGaps {
            count: info.long_gaps,
            longest_s: info.gaps_ns.moments().max().unwrap_or(0) as f64 / 1e9,
        });
    }
}

fn of_places(info: &Info, warnings: &mut Vec<TraceWarning>) {
    if info.end_bytes > FURTHEST_BYTES {
        let end_bytes = info.end_bytes;
        warnings.push(TraceWarning::Far { end_bytes });
    }
    if info.long_requests > 0 {
        warnings.push(TraceWarning::Long {
            count: info.long_requests,
            longest_bytes: info.sizes_bytes.moments().max().unwrap_or(0),
        });
    }
    if info.empty > 0 {
        warnings.push(TraceWarning::Empty { count: info.empty });
    }
    if info.odd_sizes > 0 {
        let count = info.odd_sizes;
        warnings.push(TraceWarning::OddSizes { count });
    }
    for (kind, amount) in [("reads", info.reads), ("writes", info.writes)] {
        if amount.requests == info.requests() && amount.requests > 1 {
            warnings.push(TraceWarning::OneKind { kind });
        }
    }
}

/// The units of time that would make a rate plausible: times were taken for a unit that is 1000, a
/// million or 1e9 times too small (rates too high) or too large.
fn other_unit(per_second: f64, too_fast: bool) -> String {
    let sign = if too_fast { 1 } else { -1 };
    let plausible: Vec<String> = [3, 6, 9]
        .map(|power| 10_f64.powi(sign * power))
        .into_iter()
        .filter(|scale| (0.1..=1e6).contains(&(per_second / scale)))
        .map(|scale| {
            let rate = per_second / scale;
            format!("--time-scale {scale:e} makes it {rate:.3e} requests a second")
        })
        .collect();
    if plausible.is_empty() {
        return "no unit of time makes it plausible: are the columns the right ones?".to_owned();
    }
    let size = if too_fast { "larger" } else { "smaller" };
    format!("perhaps the unit of its times is {size} than what was taken: {}", plausible.join(", "))
}
