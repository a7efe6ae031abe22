//! `trace_info` and `trace_formats`.

use ioassay_block::info::{Amount, Info, Survey};
use ioassay_block::prepare::Changes;
use ioassay_block::trace::{self, Form};
use ioassay_stats::Histogram;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::cache::CacheReport;
use super::open::{Opened, open};
use super::spec::SourceSpec;

/// What a source of requests is like.
#[pyfunction]
#[pyo3(signature = (source, page_bytes=4096))]
pub fn trace_info<'py>(py: Python<'py>, source: &Bound<'py, PyDict>, page_bytes: u64) -> PyResult<Bound<'py, PyDict>> {
    let spec = SourceSpec::from_dict(source)?;
    let (format, info, cache) = py.detach(|| -> PyResult<_> {
        let mut opened = open(&spec)?;
        let mut survey = Survey::new(page_bytes);
        opened.each(|batch| {
            survey.take(batch);
            Ok(())
        })?;
        Ok((opened.format, survey.finish(), opened.cache()))
    })?;
    let found = PyDict::new(py);
    found.set_item("format", format)?;
    found.set_item("requests", info.requests())?;
    found.set_item("kinds", kinds(py, &info)?)?;
    found.set_item("size_bytes", distribution(py, &info.sizes_bytes, info.length_align_bytes)?)?;
    found.set_item("time", time(py, &info)?)?;
    found.set_item("space", space(py, &info)?)?;
    found.set_item("doubts", warnings(py, &info)?)?;
    found.set_item("cache", cache_report(py, cache)?)?;
    Ok(found)
}

/// Adds what is known of a trace that was read.
pub fn of_trace(py: Python<'_>, results: &Bound<'_, PyDict>, opened: &Opened) -> PyResult<()> {
    of_source(py, results, opened.format, &opened.changes(), opened.cache())
}

/// Adds the same of requests that are no trace.
pub fn of_source(
    py: Python<'_>,
    results: &Bound<'_, PyDict>,
    format: Option<&str>,
    changes: &Changes,
    cache: CacheReport,
) -> PyResult<()> {
    results.set_item("format", format)?;
    let counts = PyDict::new(py);
    for (name, count) in changes.counts() {
        counts.set_item(name, count)?;
    }
    results.set_item("changes", counts)?;
    results.set_item("cache", cache_report(py, cache)?)
}

/// What the cache of parsed traces did.
pub fn cache_report(py: Python<'_>, report: CacheReport) -> PyResult<Bound<'_, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("read", report.read)?;
    of.set_item("written", report.written)?;
    of.set_item("note", report.note)?;
    of.set_item("left_out", report.left_out)?;
    Ok(of)
}

fn kinds<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    let kinds = PyDict::new(py);
    let amounts: [(&str, Amount); 4] =
        [("read", info.reads), ("write", info.writes), ("trim", info.trims), ("flush", info.flushes)];
    for (name, amount) in amounts {
        let of = PyDict::new(py);
        of.set_item("requests", amount.requests)?;
        of.set_item("bytes", amount.bytes)?;
        kinds.set_item(name, of)?;
    }
    Ok(kinds)
}

/// Of values that are multiples of `unit`.
fn distribution<'py>(py: Python<'py>, values: &Histogram, unit: u64) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    let moments = values.moments();
    of.set_item("mean", moments.mean())?;
    of.set_item("min", moments.min())?;
    for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
        of.set_item(name, values.multiple_at_quantile(q, unit).ok())?;
    }
    of.set_item("max", moments.max())?;
    Ok(of)
}

fn time<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    let time = PyDict::new(py);
    time.set_item("first_ns", info.first_ns)?;
    time.set_item("last_ns", info.last_ns)?;
    time.set_item("span_s", info.span_ns() as f64 / 1e9)?;
    time.set_item("requests_per_s", info.requests_per_second())?;
    time.set_item("gap_ns", distribution(py, &info.gaps_ns, 1)?)?;
    time.set_item("distinct", info.distinct_times)?;
    time.set_item("largest_burst", info.largest_burst)?;
    time.set_item("backward", info.backward)?;
    Ok(time)
}

fn space<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    let space = PyDict::new(py);
    let ranged = info.requests() - info.flushes.requests;
    let sequential = (ranged > 0).then(|| info.sequential as f64 / ranged as f64);
    space.set_item("end_bytes", info.end_bytes)?;
    space.set_item("devices", info.devices)?;
    space.set_item("page_bytes", info.page_bytes)?;
    space.set_item("distinct_pages", info.distinct_pages)?;
    space.set_item("pages_exact", info.pages_exact)?;
    space.set_item("hottest_1_percent_share", info.hottest_1_percent)?;
    space.set_item("hottest_20_percent_share", info.hottest_20_percent)?;
    space.set_item("sequential_share", sequential)?;
    space.set_item("offset_align_bytes", info.offset_align_bytes)?;
    space.set_item("length_align_bytes", info.length_align_bytes)?;
    Ok(space)
}

fn warnings<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyList>> {
    let warnings = PyList::empty(py);
    for warning in info.warnings() {
        let of = PyDict::new(py);
        of.set_item("code", warning.code())?;
        of.set_item("text", warning.to_string())?;
        of.set_item("remedy", warning.remedy())?;
        warnings.append(of)?;
    }
    Ok(warnings)
}

/// The formats of traces: one dictionary each.
#[pyfunction]
pub fn trace_formats(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let formats = PyList::empty(py);
    for format in trace::FORMATS {
        let of = PyDict::new(py);
        of.set_item("name", format.name)?;
        of.set_item("about", format.about)?;
        of.set_item("endings", format.endings)?;
        of.set_item("text", format.form == Form::Text)?;
        of.set_item("columns", format.columns)?;
        of.set_item("written", format.is_written())?;
        formats.append(of)?;
    }
    Ok(formats)
}
