//! Percentiles of raw samples.

use ioassay_stats as stats;
use pyo3::prelude::*;

use crate::columns::numbers;
use crate::errors::of_stats;

/// The quantile q of the samples, 0 to 1 (type 7 of Hyndman and Fan, as numpy's default).
#[pyfunction]
pub fn percentile(samples: &Bound<'_, PyAny>, q: f64) -> PyResult<f64> {
    stats::percentile(&numbers("samples", samples)?, q).map_err(of_stats)
}

/// Several quantiles of the same samples, sorted once; in the order asked for.
#[pyfunction]
pub fn percentiles(samples: &Bound<'_, PyAny>, qs: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    stats::percentiles(&numbers("samples", samples)?, &numbers("qs", qs)?).map_err(of_stats)
}

/// Bounds of the quantile q behind independent samples, by order statistics.
#[pyfunction]
#[pyo3(signature = (samples, q, confidence=0.95))]
pub fn percentile_interval(samples: &Bound<'_, PyAny>, q: f64, confidence: f64) -> PyResult<(f64, f64)> {
    let samples = numbers("samples", samples)?;
    stats::percentile_interval(&samples, q, confidence).map_err(of_stats)
}
