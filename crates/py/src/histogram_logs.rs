//! `read_histogram_log`, what it returns, and fio's bins.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use ioassay_fiolog as fiolog;
use pyo3::prelude::*;

use crate::errors::{Failure, exception};
use crate::histogram::Histogram;

/// Everything read of one direction of a histogram log.
#[pyclass(module = "ioassay._core", frozen, get_all)]
pub struct DirectionBins {
    histogram: Py<Histogram>,
    lines: u64,
    looks_cumulative: bool,
}

/// Everything read of one histogram log.
#[pyclass(module = "ioassay._core", frozen, get_all)]
pub struct HistogramLogSummary {
    bins: Option<usize>,
    coarseness: Option<u32>,
    unit_ns: Option<u64>,
    lines: u64,
    unterminated: bool,
    directions: BTreeMap<&'static str, Py<DirectionBins>>,
}

/// Read a log of completion-latency histograms of fio in one pass.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "the types of Python arguments are owned")]
pub fn read_histogram_log(py: Python<'_>, path: PathBuf) -> PyResult<HistogramLogSummary> {
    let log = py
        .detach(|| fiolog::read_histogram_log(File::open(&path)?))
        .map_err(|error| exception(Failure::Log(error, &path)))?;
    let directions = log
        .directions()
        .map(|(direction, bins)| {
            let histogram = Py::new(py, Histogram(bins.histogram.clone()))?;
            let bins = DirectionBins { histogram, lines: bins.lines, looks_cumulative: bins.looks_cumulative() };
            Ok((direction.name(), Py::new(py, bins)?))
        })
        .collect::<PyResult<_>>()?;
    Ok(HistogramLogSummary {
        bins: log.layout.map(|layout| layout.bins),
        coarseness: log.layout.map(|layout| layout.coarseness),
        unit_ns: log.layout.map(|layout| layout.unit_ns),
        lines: log.lines,
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
