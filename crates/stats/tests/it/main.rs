//! Quantiles, moments and histograms, next to plain computations.

mod exact_moments;
mod histogram;
mod quantiles;
