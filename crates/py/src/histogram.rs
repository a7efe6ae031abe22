//! `Histogram`.

use ioassay_stats as stats;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::{numbers, whole_numbers};
use crate::errors::of_stats;

/// Distribution of whole numbers, mostly latencies in nanoseconds.
#[pyclass(module = "ioassay._core", eq)]
#[derive(Clone, Default, PartialEq)]
pub struct Histogram(pub stats::Histogram);

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The histogram of given values and how often each occurred.
    #[staticmethod]
    fn from_buckets(values_ns: &Bound<'_, PyAny>, counts: &Bound<'_, PyAny>) -> PyResult<Self> {
        let values = whole_numbers("values_ns", values_ns)?;
        let counts = whole_numbers("counts", counts)?;
        stats::Histogram::from_buckets(&values, &counts).map(Self).map_err(of_stats)
    }

    /// Record one value, count times.
    #[pyo3(signature = (value_ns, count=1))]
    fn record(&mut self, value_ns: u64, count: u64) {
        self.0.record_n(value_ns, count);
    }

    /// Record each of the values once.
    fn record_many(&mut self, values_ns: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.record_all(&whole_numbers("values_ns", values_ns)?);
        Ok(())
    }

    /// Add everything that other holds, as if it had been recorded here.
    fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) {
        if slf.is(other) {
            let other = other.borrow().clone();
            slf.borrow_mut().0.merge(&other.0);
        } else {
            slf.borrow_mut().0.merge(&other.borrow().0);
        }
    }

    /// The quantile q, 0 to 1.
    fn quantile(&self, q: f64) -> PyResult<f64> {
        self.0.value_at_quantile(q).map_err(of_stats)
    }

    /// Several quantiles, in the order asked for.
    fn quantiles(&self, qs: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
        numbers("qs", qs)?.into_iter().map(|q| self.quantile(q)).collect()
    }

    /// Bounds of the quantile q behind independent values, by order statistics.
    #[pyo3(signature = (q, confidence=0.95))]
    fn quantile_interval(&self, q: f64, confidence: f64) -> PyResult<(f64, f64)> {
        self.0.quantile_interval(q, confidence).map_err(of_stats)
    }

    /// The non-empty buckets in ascending order: values and counts.
    fn buckets(&self) -> (Vec<u64>, Vec<u64>) {
        self.0.buckets().map(|bucket| (bucket.value, bucket.count)).unzip()
    }

    /// Number of values.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// Exact mean of the values; None of no values.
    #[getter]
    fn mean(&self) -> Option<f64> {
        self.0.moments().mean()
    }

    /// Exact sample standard deviation; None of fewer than two values.
    #[getter]
    fn stddev(&self) -> Option<f64> {
        self.0.moments().stddev()
    }

    /// Exact smallest value; None of no values.
    #[getter]
    fn min(&self) -> Option<u64> {
        self.0.moments().min()
    }

    /// Exact largest value; None of no values.
    #[getter]
    fn max(&self) -> Option<u64> {
        self.0.moments().max()
    }

    /// Values that found no room because the count passed 2^64 - 1.
    #[getter]
    fn uncounted(&self) -> u64 {
        self.0.moments().uncounted()
    }

    fn __getstate__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    fn __setstate__(&mut self, state: &[u8]) -> PyResult<()> {
        self.0 = stats::Histogram::from_bytes(state).map_err(of_stats)?;
        Ok(())
    }

    fn __repr__(&self) -> String {
        match (self.0.moments().min(), self.0.moments().max()) {
            (Some(min), Some(max)) => {
                format!("<Histogram of {} values from {min} to {max}>", self.0.count())
            }
            _ => "<Histogram of no values>".to_owned(),
        }
    }
}
