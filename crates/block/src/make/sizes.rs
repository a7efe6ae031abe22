//! How long requests are.

use super::chance::{Chance, Geometric};
use crate::Error;

/// Bytes of a sector, the unit of most trace formats.
const SECTOR_BYTES: u64 = 512;

/// How the lengths of requests are spread.
#[derive(Debug, Clone, PartialEq)]
pub enum Sizes {
    Fixed(u64),
    Weighted(Vec<(u64, f64)>),
    /// Exponential, rounded up to sectors of 512 bytes, with this mean after rounding; what would
    /// be longer than the range is cut to it.
    Exponential {
        mean_bytes: u64,
    },
}

impl Sizes {
    pub const FORMS: &str = "fixed:BYTES, weighted:BYTES:WEIGHT:BYTES:WEIGHT… or exponential:BYTES";

    /// From a name and its numbers, as a command line writes them.
    pub fn named(name: &str, numbers: &[f64]) -> Result<Self, Error> {
        Ok(match (name, numbers) {
            ("fixed", &[bytes]) => Self::Fixed(bytes as u64),
            ("exponential", &[bytes]) => Self::Exponential { mean_bytes: bytes as u64 },
            ("weighted", pairs) if !pairs.is_empty() && pairs.len() % 2 == 0 => {
                Self::Weighted(pairs.chunks_exact(2).map(|pair| (pair[0] as u64, pair[1])).collect())
            }
            _ => return Err(super::unknown("sizes", name, numbers, Self::FORMS)),
        })
    }

    pub(super) fn check(&self, range_bytes: u64) -> Result<(), Error> {
        let within = |bytes: u64| {
            let wanted = format!("1 byte up to the range of {range_bytes} bytes");
            match bytes {
                0 => Err(super::option("sizes", bytes, wanted)),
                _ if bytes > range_bytes => Err(super::option("sizes", bytes, wanted)),
                _ => Ok(()),
            }
        };
        match self {
            Self::Fixed(bytes) => within(*bytes),
            Self::Exponential { mean_bytes } => {
                within(*mean_bytes)?;
                if *mean_bytes < SECTOR_BYTES || range_bytes < SECTOR_BYTES {
                    let wanted = format!("a mean of at least one sector, {SECTOR_BYTES} bytes");
                    return Err(super::option("sizes", mean_bytes, wanted));
                }
                Ok(())
            }
            Self::Weighted(pairs) => {
                pairs.iter().try_for_each(|&(bytes, _)| within(bytes))?;
                let odd = pairs.iter().find(|(_, weight)| !(0.0..=1e12).contains(weight));
                if let Some((bytes, weight)) = odd {
                    let wanted = "a weight from 0 to 1e12".to_owned();
                    return Err(super::option("sizes", format!("{bytes}:{weight}"), wanted));
                }
                if pairs.iter().map(|(_, weight)| weight).sum::<f64>() > 0.0 {
                    return Ok(());
                }
                let wanted = "at least one length with a weight above 0".to_owned();
                Err(super::option("sizes", "without any weight", wanted))
            }
        }
    }

    /// The shortest length that there can be.
    pub(super) fn smallest(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Exponential { .. } => SECTOR_BYTES,
            Self::Weighted(pairs) => {
                let lengths = pairs.iter().filter(|(_, weight)| *weight > 0.0);
                lengths.map(|(bytes, _)| *bytes).min().unwrap_or(1)
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct Lengths {
    chance: Chance,
    law: Law,
}

#[derive(Debug, Clone)]
enum Law {
    Fixed(u64),
    /// Lengths, and the sum of the weights up to each; few, so they are searched from the front.
    Weighted(Vec<(u64, f64)>, f64),
    Exponential(Geometric, u64),
}

impl Lengths {
    pub fn new(sizes: &Sizes, range_bytes: u64, chance: Chance) -> Self {
        let law = match sizes {
            Sizes::Fixed(bytes) => Law::Fixed(*bytes),
            Sizes::Exponential { mean_bytes } => Law::Exponential(
                Geometric::of_mean(*mean_bytes as f64 / SECTOR_BYTES as f64),
                range_bytes / SECTOR_BYTES,
            ),
            Sizes::Weighted(pairs) => {
                let mut sum = 0.0;
                let ranked: Vec<(u64, f64)> = pairs
                    .iter()
                    .filter(|(_, weight)| *weight > 0.0)
                    .map(|&(bytes, weight)| {
                        sum += weight;
                        (bytes, sum)
                    })
                    .collect();
                Law::Weighted(ranked, sum)
            }
        };
        Self { chance, law }
    }

    /// The length of the next request.
    #[inline]
    pub fn next_bytes(&mut self) -> u64 {
        match &self.law {
            Law::Fixed(bytes) => *bytes,
            Law::Exponential(sectors, most) => sectors.draw(&mut self.chance).min(*most) * SECTOR_BYTES,
            Law::Weighted(ranked, sum) => {
                let drawn = self.chance.unit() * sum;
                let found = ranked.iter().find(|(_, upto)| drawn < *upto);
                found.or(ranked.last()).map_or(1, |(bytes, _)| *bytes)
            }
        }
    }
}
