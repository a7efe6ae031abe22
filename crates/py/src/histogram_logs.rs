//! `read_histogram_log`, what it returns, and fio's bins.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use ioassay_fiolog as fiolog;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::numbers;
use crate::errors::{Failure, exception};
use crate::histogram::Histogram;

/// Everything read of one direction of a histogram log: parallel lists, one item per line.
#[pyclass(module = "ioassay._core", frozen, get_all)]
pub struct DirectionBins {
    histogram: Py<Histogram>,
    time_ms: Vec<u64>,
    count: Vec<u64>,
    mean_ns: Vec<f64>,
    quantiles_ns: Py<PyDict>,
    time_reversals: u64,
    looks_cumulative: bool,
}

impl DirectionBins {
    fn new(py: Python<'_>, bins: &fiolog::DirectionBins, quantiles: &[f64]) -> PyResult<Self> {
        let quantiles_ns = PyDict::new(py);
        for (at, &q) in quantiles.iter().enumerate() {
            let column: Vec<f64> = bins.rows.iter().map(|row| row.quantiles_ns[at]).collect();
            quantiles_ns.set_item(q, column)?;
        }
        Ok(Self {
            histogram: Py::new(py, Histogram(bins.histogram.clone()))?,
            time_ms: bins.rows.iter().map(|row| row.time_ms).collect(),
            count: bins.rows.iter().map(|row| row.count).collect(),
            mean_ns: bins.rows.iter().map(|row| row.mean_ns).collect(),
            quantiles_ns: quantiles_ns.unbind(),
            time_reversals: bins.time_reversals,
            looks_cumulative: bins.looks_cumulative(),
        })
    }
}

/// Everything read of one histogram log.
#[pyclass(module = "ioassay._core", frozen, get_all)]
pub struct HistogramLogSummary {
    bins: Option<usize>,
    coarseness: Option<u32>,
    unit_ns: Option<u64>,
    lines: u64,
    bad_lines: u64,
    unterminated: bool,
    directions: BTreeMap<&'static str, Py<DirectionBins>>,
}

/// Read a log of completion-latency histograms of fio in one pass.
#[pyfunction]
#[pyo3(signature = (path, *, strict=true, cumulative=false, quantiles=None))]
#[expect(clippy::needless_pass_by_value, reason = "the types of Python arguments are owned")]
pub fn read_histogram_log(
    py: Python<'_>,
    path: PathBuf,
    strict: bool,
    cumulative: bool,
    quantiles: Option<&Bound<'_, PyAny>>,
) -> PyResult<HistogramLogSummary> {
    let quantiles = match quantiles {
        Some(quantiles) => numbers("quantiles", quantiles)?,
        None => fiolog::HistogramLogOptions::default().quantiles,
    };
    let options = fiolog::HistogramLogOptions { strict, cumulative, quantiles };
    let log = py
        .detach(|| fiolog::read_histogram_log(File::open(&path)?, &options))
        .map_err(|error| exception(Failure::Log(error, &path)))?;
    let directions = log
        .directions()
        .map(|(direction, bins)| {
            let bins = DirectionBins::new(py, bins, &options.quantiles)?;
            Ok((direction.name(), Py::new(py, bins)?))
        })
        .collect::<PyResult<_>>()?;
    Ok(HistogramLogSummary {
        bins: log.layout.map(|layout| layout.bins),
        coarseness: log.layout.map(|layout| layout.coarseness),
        unit_ns: log.layout.map(|layout| layout.unit_ns),
        lines: log.lines,
        bad_lines: log.bad_lines,
        unterminated: log.unterminated,
        directions,
    })
}

/// The latency that stands for bin number index of fio's finest histogram.
#[pyfunction]
pub fn fio_bin_ns(index: usize) -> PyResult<u64> {
    fiolog::bin_middle(index).ok_or_else(|| {
        let message = format!("index is {index}, expected 0 to {}", fiolog::LAST_BIN);
        exception(Failure::Argument(message))
    })
}
