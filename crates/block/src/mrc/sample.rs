//! Spatial samples: which pages are in one, and how far an estimate from it may be off.

use crate::SplitMix64;

/// Parts of a sample, for its error.
pub const PARTS: usize = 8;

/// Student's t for a confidence of 95 % with one degree of freedom less than there are parts.
const T_95: f64 = 2.365;

const HASHES: u64 = 1 << 32;

#[derive(Debug, Clone, Copy)]
pub struct Draw {
    /// A sample has the pages whose hash is below its threshold.
    pub hash: u64,
    /// The part of the sample, below [`PARTS`]; independent of the hash.
    pub part: usize,
}

/// The hash of a page, or of whatever a sample has all of or nothing.
#[inline]
pub fn draw(page: u64, device: u32) -> Draw {
    let mixed = SplitMix64(page ^ (u64::from(device) << 40)).next();
    Draw { hash: mixed >> 32, part: mixed as usize % PARTS }
}

/// The threshold of a sample of this rate.
pub fn threshold(rate: f64) -> u64 {
    ((HASHES as f64 * rate) as u64).max(1)
}

/// The rate of a sample with this threshold.
pub fn rate(threshold: u64) -> f64 {
    threshold as f64 / HASHES as f64
}

/// The error of an estimate from the estimates of all parts: half the width of an interval that has the
/// exact value with a confidence of 95 %.
pub fn error(parts: [f64; PARTS]) -> f64 {
    let mean = parts.iter().sum::<f64>() / PARTS as f64;
    let squares: f64 = parts.iter().map(|part| (part - mean).powi(2)).sum();
    T_95 * (squares / (PARTS * (PARTS - 1)) as f64).sqrt()
}
