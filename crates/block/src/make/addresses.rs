//! Where requests go.
//!
//! All draw a *place*: a multiple of the alignment at which the smallest request of the recipe still fits into the
//! range. A longer one that would reach over the end is moved back to the last place where it fits.

use super::chance::{Chance, Geometric};
use super::zipf::{Scatter, Zipf};
use crate::Error;

/// How addresses are spread over the range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Addresses {
    Uniform,
    /// Normal around the middle, with a deviation of a sixth of the range, cut to the range.
    Normal,
    /// Zipf's law, the hottest places scattered over the range by the seed.
    Zipf {
        /// Exponent: 0.99 is usual; the larger, the hotter the hottest.
        theta: f64,
    },
    /// A share of the accesses goes to a share of the space, at the range's beginning.
    HotCold {
        /// Share of the accesses that are hot.
        accesses: f64,
        /// Share of the space that is hot.
        space: f64,
    },
    /// Streams of requests that follow each other without a gap; each new run begins at a place
    /// that is drawn uniformly. Which stream is next is drawn as well.
    Sequential {
        /// Mean requests in a run, geometrically distributed; infinite for one that goes round the range for ever.
        run: f64,
        streams: u32,
    },
}

impl Addresses {
    pub const FORMS: &str = "uniform, normal, zipf:THETA, hot-cold:ACCESS_SHARE:SPACE_SHARE or \
                             sequential[:MEAN_RUN[:STREAMS]]";

    /// From a name and its numbers, as a command line writes them.
    pub fn named(name: &str, numbers: &[f64]) -> Result<Self, Error> {
        Ok(match (name, numbers) {
            ("uniform", []) => Self::Uniform,
            ("normal", []) => Self::Normal,
            ("zipf", &[theta]) => Self::Zipf { theta },
            ("hot-cold", &[accesses, space]) => Self::HotCold { accesses, space },
            ("sequential", []) => Self::Sequential { run: f64::INFINITY, streams: 1 },
            ("sequential", &[run]) => Self::Sequential { run, streams: 1 },
            ("sequential", &[run, streams]) => Self::Sequential { run, streams: streams as u32 },
            _ => return Err(super::unknown("addresses", name, numbers, Self::FORMS)),
        })
    }

    pub(super) fn check(self) -> Result<(), Error> {
        let refuse = |value: f64, wanted: &str| Err(super::option("addresses", value, wanted.into()));
        match self {
            Self::Zipf { theta } if !(theta > 0.0 && theta <= 10.0) => {
                refuse(theta, "an exponent above 0 and up to 10; uniform is the law with 0")
            }
            Self::HotCold { accesses, .. } if !(0.0..=1.0).contains(&accesses) => {
                refuse(accesses, "a share of the accesses from 0 to 1")
            }
            Self::HotCold { space, .. } if !(space > 0.0 && space < 1.0) => {
                refuse(space, "a share of the space between 0 and 1")
            }
            Self::Sequential { run, .. } if run.is_nan() || run < 1.0 => {
                refuse(run, "a mean run of at least 1 request")
            }
            Self::Sequential { streams, .. } if !(1..=65_536).contains(&streams) => {
                refuse(f64::from(streams), "1 to 65536 streams")
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Places {
    range_bytes: u64,
    align_bytes: u64,
    /// How many places there are.
    count: u64,
    chance: Chance,
    law: Law,
}

/// The distribution, with all that it needs for one draw.
#[derive(Debug, Clone)]
enum Law {
    Uniform,
    Normal,
    Zipf(Zipf, Scatter),
    HotCold { accesses: f64, hot: u64 },
    Sequential(Vec<Stream>, Option<Geometric>),
}

/// Where a run goes on, and for how many requests.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    next_bytes: u64,
    left: u64,
}

impl Places {
    /// For a checked recipe whose smallest request fits into the range.
    pub fn new(recipe: &super::Recipe, chance: Chance) -> Self {
        let room_bytes = recipe.range_bytes - recipe.sizes.smallest();
        let count = room_bytes / recipe.align_bytes + 1;
        let law = match recipe.addresses {
            Addresses::Uniform => Law::Uniform,
            Addresses::Normal => Law::Normal,
            Addresses::Zipf { theta } => Law::Zipf(Zipf::new(count, theta), Scatter::new(count, recipe.seed)),
            Addresses::HotCold { accesses, space } => {
                Law::HotCold { accesses, hot: ((count as f64 * space) as u64).clamp(1, count) }
            }
            Addresses::Sequential { run, streams } => Law::Sequential(
                vec![Stream::default(); streams as usize],
                run.is_finite().then(|| Geometric::of_mean(run)),
            ),
        };
        Self { range_bytes: recipe.range_bytes, align_bytes: recipe.align_bytes, count, chance, law }
    }

    /// The offset of the next request, which is at most the range long.
    #[inline]
    pub fn next_bytes(&mut self, length_bytes: u64) -> u64 {
        let place = match &self.law {
            Law::Uniform => self.chance.below(self.count),
            Law::Normal => self.normal(),
            Law::Zipf(zipf, scatter) => scatter.place(zipf.draw(&mut self.chance) - 1),
            &Law::HotCold { accesses, hot } => self.hot_or_cold(accesses, hot),
            Law::Sequential(..) => return self.sequential(length_bytes),
        };
        self.fitted(place * self.align_bytes, length_bytes)
    }

    /// Moved back to the last place where the length fits.
    #[inline]
    fn fitted(&self, offset_bytes: u64, length_bytes: u64) -> u64 {
        let last = self.range_bytes - length_bytes;
        if offset_bytes <= last { offset_bytes } else { last - last % self.align_bytes }
    }

    fn normal(&mut self) -> u64 {
        let count = self.count as f64;
        loop {
            let drawn = count / 2.0 + count / 6.0 * self.chance.normal();
            if drawn >= 0.0 && drawn < count {
                return (drawn as u64).min(self.count - 1);
            }
        }
    }

    fn hot_or_cold(&mut self, accesses: f64, hot: u64) -> u64 {
        let cold = self.count - hot;
        if cold == 0 || self.chance.unit() < accesses { self.chance.below(hot) } else { hot + self.chance.below(cold) }
    }

    fn sequential(&mut self, length_bytes: u64) -> u64 {
        let Law::Sequential(streams, run) = &mut self.law else {
            return 0;
        };
        let number = match streams.len() {
            1 => 0,
            several => self.chance.below(several as u64) as usize,
        };
        let stream = &mut streams[number];
        if stream.left == 0 {
            let place = self.chance.below(self.count);
            stream.next_bytes = place * self.align_bytes;
            stream.left = run.map_or(u64::MAX, |run| run.draw(&mut self.chance));
        }
        if stream.next_bytes > self.range_bytes - length_bytes {
            stream.next_bytes = 0; // on from the range's beginning
        }
        let offset_bytes = stream.next_bytes;
        let end_bytes = offset_bytes + length_bytes;
        stream.next_bytes = end_bytes.next_multiple_of(self.align_bytes);
        stream.left -= 1;
        offset_bytes
    }
}
