//! What a simulation gave, as Python takes it: counts, histograms, columns. Nothing is derived here but means.

use ioassay_sim::Simulation;
use ioassay_sim::engine::{Responses, Tally};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::Serialize;

use crate::errors::pythonized;
use crate::histogram::Histogram;

/// All counts by the names that they have in the crate sim; of elements and of the time series columns.
pub fn dictionary(py: Python<'_>, simulation: Simulation) -> PyResult<Bound<'_, PyDict>> {
    let outcome = requests(py, simulation.tally)?;
    outcome.set_item("drive", pythonized(py, &simulation.counters)?)?;
    outcome.set_item("slc_free_share", simulation.slc_free_share)?;
    outcome.set_item("steadiness", pythonized(py, &simulation.steadiness)?)?;
    outcome.set_item("preconditioned", pythonized(py, &simulation.preconditioned)?)?;
    outcome.set_item("elements", columns(py, &simulation.elements)?)?;
    outcome.set_item("block_erases", pythonized(py, &simulation.block_erases)?)?;
    let series = columns(py, &simulation.series.rows)?;
    series.set_item("width_ps", simulation.series.width_ps)?;
    outcome.set_item("series", series)?;
    Ok(outcome)
}

/// Response times by kind, and the counts.
pub fn requests(py: Python<'_>, mut tally: Tally) -> PyResult<Bound<'_, PyDict>> {
    let outcome = PyDict::new(py);
    outcome.set_item("all", responses(py, tally.transfers())?)?;
    for (name, of_kind) in [("read", &mut tally.reads), ("write", &mut tally.writes), ("other", &mut tally.others)] {
        outcome.set_item(name, responses(py, std::mem::take(of_kind))?)?;
    }
    let counts = pythonized(py, &tally)?;
    for histograms in ["reads", "writes", "others"] {
        counts.del_item(histograms)?;
    }
    outcome.set_item("tally", counts)?;
    Ok(outcome)
}

fn responses(py: Python<'_>, responses: Responses) -> PyResult<Bound<'_, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("count", responses.count())?;
    of.set_item("mean_response_ps", responses.mean_response_ps())?;
    of.set_item("mean_device_ps", responses.mean_device_ps())?;
    of.set_item("sectors", responses.sectors)?;
    of.set_item("response_ns", Histogram(responses.response_ns))?;
    Ok(of)
}

/// A list for each number of the rows, those of structures within them included.
pub fn columns<'py>(py: Python<'py>, rows: &[impl Serialize]) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for row in rows {
        append(&columns, pythonized(py, row)?.cast()?)?;
    }
    Ok(columns)
}

fn append(columns: &Bound<'_, PyDict>, row: &Bound<'_, PyDict>) -> PyResult<()> {
    for (name, value) in row {
        if let Ok(inner) = value.cast::<PyDict>() {
            append(columns, inner)?;
        } else if let Some(column) = columns.get_item(&name)? {
            column.cast::<PyList>()?.append(value)?;
        } else {
            columns.set_item(name, [value])?;
        }
    }
    Ok(())
}
