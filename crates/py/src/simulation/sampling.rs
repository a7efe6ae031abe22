//! Hit ratios of write buffers from a sample of the pages.

use ioassay_block::{BATCH, Source as _};
use ioassay_sim::sampling::{SampledBuffer, SampledHits};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{Attempt, Stoppable, failure, setup};
use crate::errors::{Failure, exception, pythonized};
use crate::traces::{self, SourceSpec};

/// The hit ratios of several buffers from one pass over a trace, each from about this share of its pages.
#[pyfunction]
pub fn sampled_hits<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyDict>,
    setups: &Bound<'py, PyList>,
    rate: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let spec = SourceSpec::from_dict(source)?;
    let mut buffers: Vec<SampledBuffer> = setups
        .iter()
        .map(|setup| {
            let run = setup::of(setup.cast::<PyDict>()?)?;
            SampledBuffer::new(&run.setup, rate).map_err(|error| exception(Failure::Simulation(error, None)))
        })
        .collect::<PyResult<_>>()?;
    let (opened, hits) = py.detach(|| -> PyResult<_> {
        let mut opened = traces::open(&spec)?;
        let mut source = Stoppable::new(&mut opened, Attempt::Only);
        let taken = take_all(&mut source, &mut buffers);
        source.check()?;
        taken.map_err(|error| failure(error, &opened))?;
        let hits: Vec<SampledHits> = buffers.iter().map(SampledBuffer::finish).collect();
        Ok((opened, hits))
    })?;
    let results = PyDict::new(py);
    traces::of_trace(py, &results, &opened)?;
    results.set_item("hits", pythonized(py, &hits)?)?;
    Ok(results)
}

fn take_all(source: &mut Stoppable<'_>, buffers: &mut [SampledBuffer]) -> Result<(), ioassay_sim::Error> {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok(());
        }
        for buffer in &mut *buffers {
            buffer.take(&batch)?;
        }
    }
}
