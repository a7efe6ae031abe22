//! When requests come.

use super::chance::{Chance, Geometric};
use crate::Error;

/// How requests are spread over time. Rates are means, in requests a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// All at time 0, for feeding in a closed loop.
    None,
    /// The same gap between all.
    Fixed { per_second: f64 },
    /// Gaps uniformly distributed from 0 to twice their mean.
    Uniform { per_second: f64 },
    /// A Poisson process: exponential gaps, independent of each other.
    Poisson { per_second: f64 },
    /// Bursts of a geometric number of requests with exponential gaps, and exponential pauses
    /// between them (an interrupted Poisson process).
    Bursts {
        /// Requests a second over all.
        per_second: f64,
        /// Mean requests in a burst.
        length: f64,
        /// Requests a second within a burst; infinite for all of a burst on one time stamp.
        peak_per_second: f64,
    },
}

impl Arrivals {
    pub const FORMS: &str = "none, fixed:RATE, uniform:RATE, poisson:RATE or bursts:RATE:LENGTH:PEAK_RATE";

    /// From a name and its numbers, as a command line writes them.
    pub fn named(name: &str, numbers: &[f64]) -> Result<Self, Error> {
        Ok(match (name, numbers) {
            ("none", []) => Self::None,
            ("fixed", &[per_second]) => Self::Fixed { per_second },
            ("uniform", &[per_second]) => Self::Uniform { per_second },
            ("poisson", &[per_second]) => Self::Poisson { per_second },
            ("bursts", &[per_second, length, peak_per_second]) => Self::Bursts { per_second, length, peak_per_second },
            _ => return Err(super::unknown("arrivals", name, numbers, Self::FORMS)),
        })
    }

    /// Checks the numbers; `requests` of them must fit into the 64 bits of a time stamp.
    pub(super) fn check(self, requests: u64) -> Result<(), Error> {
        let per_second = match self {
            Self::None => return Ok(()),
            Self::Fixed { per_second }
            | Self::Uniform { per_second }
            | Self::Poisson { per_second }
            | Self::Bursts { per_second, .. } => per_second,
        };
        let slowest = requests as f64 / CENTURY_S;
        if !(per_second > 0.0 && per_second >= slowest && per_second <= 1e9) {
            let wanted = format!(
                "a rate above 0 and up to 1e9 requests a second, and at least {slowest:.3e} so that \
                 {requests} requests last no longer than a century"
            );
            return Err(super::option("arrivals", per_second, wanted));
        }
        self.check_bursts()
    }

    fn check_bursts(self) -> Result<(), Error> {
        let Self::Bursts { length, peak_per_second, .. } = self else {
            return Ok(());
        };
        if !(1.0..=1e9).contains(&length) {
            let wanted = "a mean length of bursts from 1 to 1e9 requests".to_owned();
            return Err(super::option("arrivals", length, wanted));
        }
        let pause_ns = self.pause_ns();
        if peak_per_second > 0.0 && pause_ns >= 0.0 {
            return Ok(());
        }
        let wanted = "a rate within bursts above the rate over all, or inf".to_owned();
        Err(super::option("arrivals", peak_per_second, wanted))
    }

    /// Mean pause between bursts: what is left of the time that a burst and its pause may take.
    fn pause_ns(self) -> f64 {
        match self {
            Self::Bursts { per_second, length, peak_per_second } => {
                1e9 * (length / per_second - (length - 1.0) / peak_per_second)
            }
            _ => 0.0,
        }
    }
}

const CENTURY_S: f64 = 100.0 * 365.25 * 86_400.0;

#[derive(Debug, Clone)]
pub struct Clock {
    arrivals: Arrivals,
    chance: Chance,
    at_ns: u64,
    /// What was left of a nanosecond: time stamps are cut, but no rate drifts by it.
    rest_ns: f64,
    in_burst: Geometric,
    /// Requests that are left of the burst.
    left: u64,
}

impl Clock {
    pub fn new(arrivals: Arrivals, chance: Chance) -> Self {
        let length = match arrivals {
            Arrivals::Bursts { length, .. } => length,
            _ => 1.0,
        };
        Self { arrivals, chance, at_ns: 0, rest_ns: 0.0, in_burst: Geometric::of_mean(length), left: 0 }
    }

    /// The time of the next request. The first comes one gap after 0.
    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        let gap_ns = self.gap_ns() + self.rest_ns;
        let whole = gap_ns as u64;
        self.rest_ns = gap_ns - whole as f64;
        self.at_ns = self.at_ns.saturating_add(whole);
        self.at_ns
    }

    #[inline]
    fn gap_ns(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::None => 0.0,
            Arrivals::Fixed { per_second } => 1e9 / per_second,
            Arrivals::Uniform { per_second } => 2e9 / per_second * self.chance.unit(),
            Arrivals::Poisson { per_second } => 1e9 / per_second * self.chance.exponential(),
            Arrivals::Bursts { peak_per_second, .. } => {
                let mean_ns = if self.left == 0 {
                    self.left = self.in_burst.draw(&mut self.chance);
                    self.arrivals.pause_ns()
                } else {
                    1e9 / peak_per_second
                };
                self.left -= 1;
                mean_ns * self.chance.exponential()
            }
        }
    }
}
