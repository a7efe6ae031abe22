//! The curve that reuse distances make.

use super::sample;

/// Miss ratios of LRU buffers of all sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub page_bytes: u64,
    pub references: u64,
    /// Those that were looked at.
    pub sampled: u64,
    /// Share of the pages that were looked at, at the end.
    pub rate: f64,
    /// Different pages, estimated from the sample.
    pub pages: f64,
    pub(super) whole: Vec<(u64, f64)>,
    pub(super) parts: Vec<Vec<(u64, f64)>>,
}

impl Curve {
    /// Miss ratios of buffers of these sizes, in pages and ascending, each with its error: half the width
    /// of an interval that has the exact one with a confidence of 95 %, none where nothing was sampled.
    pub fn miss_ratios(&self, sizes: &[u64]) -> Vec<(f64, Option<f64>)> {
        let whole = misses(&self.whole, sizes);
        let parts: Vec<Vec<f64>> = self.parts.iter().map(|part| misses(part, sizes)).collect();
        let error = |at: usize| {
            let values: Vec<f64> = parts.iter().map(|part| part[at]).collect();
            values.try_into().ok().map(sample::error)
        };
        (0..sizes.len()).map(|at| (whole[at], error(at))).collect()
    }
}

fn misses(distances: &[(u64, f64)], sizes: &[u64]) -> Vec<f64> {
    let total: f64 = distances.iter().map(|(_, count)| count).sum();
    let (mut hits, mut next) = (0.0, 0);
    let mut ratios = Vec::with_capacity(sizes.len());
    for &size in sizes {
        while let Some(&(_, count)) = distances.get(next).filter(|(distance, _)| *distance < size) {
            hits += count;
            next += 1;
        }
        let ratio = if total > 0.0 { 1.0 - hits / total } else { 1.0 };
        ratios.push(ratio.clamp(0.0, 1.0));
    }
    ratios
}
