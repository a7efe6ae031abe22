//! `read_log` and what it returns.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use ioassay_fiolog as fiolog;
use pyo3::prelude::*;

use crate::errors::{Failure, exception};
use crate::histogram::Histogram;

/// Values of one direction, gathered into windows of time: parallel lists.
#[pyclass(module = "ioassay._core", frozen, get_all)]
pub struct Series {
    window_ms: u64,
    start_ms: Vec<u64>,
    count: Vec<u64>,
    sum: Vec<u128>,
    mean: Vec<f64>,
    min: Vec<u64>,
    max: Vec<u64>,
}

impl From<&fiolog::Series> for Series {
    fn from(series: &fiolog::Series) -> Self {
        let mut columns = Self {
            window_ms: series.window_ms(),
            start_ms: Vec::new(),
            count: Vec::new(),
            sum: Vec::new(),
            mean: Vec::new(),
            min: Vec::new(),
            max: Vec::new(),
        };
        for (start_ms, moments) in series.windows() {
            columns.start_ms.push(start_ms);
            columns.count.push(moments.count());
            columns.sum.push(moments.sum());
            columns.mean.push(moments.mean().unwrap_or(f64::NAN));
            columns.min.push(moments.min().unwrap_or(0));
            columns.max.push(moments.max().unwrap_or(0));
        }
        columns
    }
}

/// Everything read of one direction.
#[pyclass(module = "ioassay._core", frozen, get_all)]
pub struct DirectionSummary {
    histogram: Py<Histogram>,
    count: u64,
    mean: Option<f64>,
    stddev: Option<f64>,
    min: Option<u64>,
    max: Option<u64>,
    first_ms: u64,
    last_ms: u64,
    time_reversals: u64,
    bytes: u128,
    series: Py<Series>,
}

impl DirectionSummary {
    fn new(py: Python<'_>, summary: &fiolog::DirectionSummary) -> PyResult<Self> {
        let moments = summary.histogram.moments();
        Ok(Self {
            count: moments.count(),
            mean: moments.mean(),
            stddev: moments.stddev(),
            min: moments.min(),
            max: moments.max(),
            first_ms: summary.first_ms,
            last_ms: summary.last_ms,
            time_reversals: summary.time_reversals,
            bytes: summary.bytes,
            series: Py::new(py, Series::from(&summary.series))?,
            histogram: Py::new(py, Histogram(summary.histogram.clone()))?,
        })
    }
}

/// Everything read of one log.
#[pyclass(module = "ioassay._core", frozen, get_all)]
pub struct LogSummary {
    kind: &'static str,
    unit: &'static str,
    columns: Option<usize>,
    both_values: bool,
    lines: u64,
    unterminated: bool,
    directions: BTreeMap<&'static str, Py<DirectionSummary>>,
}

impl LogSummary {
    fn new(py: Python<'_>, log: &fiolog::LogSummary) -> PyResult<Self> {
        let directions = log
            .directions()
            .map(|(direction, summary)| Ok((direction.name(), Py::new(py, DirectionSummary::new(py, summary)?)?)))
            .collect::<PyResult<_>>()?;
        Ok(Self {
            kind: log.kind.name(),
            unit: log.kind.unit().name(),
            columns: log.layout.map(|layout| layout.columns),
            both_values: log.layout.is_some_and(|layout| layout.both_values),
            lines: log.lines,
            unterminated: log.unterminated,
            directions,
        })
    }
}

/// Read a bandwidth, IOPS or latency log of fio in one pass.
#[pyfunction]
#[pyo3(signature = (path, kind=None, window_ms=1000))]
#[expect(clippy::needless_pass_by_value, reason = "the types of Python arguments are owned")]
pub fn read_log(py: Python<'_>, path: PathBuf, kind: Option<&str>, window_ms: u64) -> PyResult<LogSummary> {
    let kind = kind_of(&path, kind)?;
    let log = py
        .detach(|| fiolog::read_log(File::open(&path)?, kind, window_ms))
        .map_err(|error| exception(Failure::Log(error, &path)))?;
    LogSummary::new(py, &log)
}

fn kind_of(path: &Path, kind: Option<&str>) -> PyResult<fiolog::LogKind> {
    let names = fiolog::LogKind::ALL.map(fiolog::LogKind::name).join(", ");
    if let Some(name) = kind {
        return fiolog::LogKind::from_name(name)
            .ok_or_else(|| argument(format!("kind is `{name}`, expected one of {names}")));
    }
    let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    fiolog::LogKind::from_file_name(file_name).ok_or_else(|| {
        let path = path.display();
        argument(format!("{path}: the name does not tell the kind of log, expected kind= one of {names}"))
    })
}

fn argument(message: String) -> PyErr {
    exception(Failure::Argument(message))
}
