//! `trace_mrc`.

use ioassay_block::mrc::{Curve, Mrc, References, Sampling};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::info::cache_report;
use super::open::{of_trace, open};
use super::spec::SourceSpec;

/// The miss ratio curve of a source.
#[pyfunction]
#[pyo3(signature = (source, page_bytes, of, points, *, rate=None, pages=None, exact=false, memory_bytes=None))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn trace_mrc<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyDict>,
    page_bytes: u64,
    of: &str,
    points: u32,
    rate: Option<f64>,
    pages: Option<usize>,
    exact: bool,
    memory_bytes: Option<u64>,
) -> PyResult<Bound<'py, PyDict>> {
    let spec = SourceSpec::from_dict(source)?;
    let sampling = match (rate, pages) {
        (Some(rate), _) => Sampling::Rate(rate),
        (None, Some(pages)) => Sampling::Pages(pages),
        (None, None) => Sampling::Exact,
    };
    let references = References::named(of).map_err(|error| of_trace(error, None))?;
    let exact = exact && sampling != Sampling::Exact;
    let memory_bytes = memory_bytes.unwrap_or(u64::MAX) / if exact { 2 } else { 1 };
    let new = |sampling| {
        let mrc = Mrc::new(page_bytes, references, sampling).map_err(|error| of_trace(error, None))?;
        PyResult::Ok(mrc.within(memory_bytes))
    };
    let mut mrc = new(sampling)?;
    let mut compared = exact.then(|| new(Sampling::Exact)).transpose()?;
    let (format, curve, exact, cache) = py.detach(|| -> PyResult<_> {
        let mut opened = open(&spec)?;
        let path = opened.path.clone();
        opened.each(|batch| {
            let taken = mrc.take(batch).and_then(|()| compared.as_mut().map_or(Ok(()), |exact| exact.take(batch)));
            taken.map_err(|error| of_trace(error, path.as_deref()))
        })?;
        let exact = compared.as_ref().map(Mrc::finish);
        Ok((opened.format, mrc.finish(), exact, opened.cache()))
    })?;
    let sizes = sizes(exact.as_ref().unwrap_or(&curve).pages, points);
    let (ratios, errors): (Vec<f64>, Vec<Option<f64>>) = curve.miss_ratios(&sizes).into_iter().unzip();
    let ratio = |curve: Curve| -> Vec<f64> {
        let ratios = curve.miss_ratios(&sizes).into_iter();
        ratios.map(|(ratio, _)| ratio).collect()
    };
    let results = PyDict::new(py);
    results.set_item("format", format)?;
    results.set_item("page_bytes", curve.page_bytes)?;
    results.set_item("references", curve.references)?;
    results.set_item("sampled", curve.sampled)?;
    results.set_item("rate", curve.rate)?;
    results.set_item("pages", curve.pages)?;
    results.set_item("miss_ratio", ratios)?;
    results.set_item("error", errors)?;
    results.set_item("exact_miss_ratio", exact.map(ratio))?;
    results.set_item("size_pages", sizes)?;
    results.set_item("cache", cache_report(py, cache)?)?;
    Ok(results)
}

/// So many sizes up to all pages, in a geometric series, each once.
fn sizes(pages: f64, points: u32) -> Vec<u64> {
    let steps = f64::from(points.saturating_sub(1).max(1));
    let most = pages.ceil().max(1.0);
    let mut sizes: Vec<u64> = (0..points).map(|step| most.powf(f64::from(step) / steps).round() as u64).collect();
    sizes.dedup();
    sizes
}
