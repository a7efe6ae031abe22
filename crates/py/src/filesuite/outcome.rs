//! What the file tests gave, as Python takes it. Nothing is derived here but `IOzone`'s own table.

use ioassay_filesuite::table::{self, Unit};
use ioassay_filesuite::{Cell, Checked, Fault, Group, Outcome, Setup, TESTS};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// One pass of one worker.
pub fn pass<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("test", outcome.test)?;
    of.set_item("name", outcome.pass.name)?;
    of.set_item("pass", outcome.place)?;
    of.set_item("kind", outcome.kind.name())?;
    sizes(&of, outcome.cell, outcome.repetition)?;
    of.set_item("worker", outcome.worker)?;
    of.set_item("workers", outcome.workers)?;
    of.set_item("path", outcome.path.as_os_str())?;
    of.set_item("status", status(outcome.fault.as_ref()))?;
    of.set_item("reason", outcome.fault.as_ref().map(ToString::to_string))?;
    of.set_item("operations", outcome.done.operations)?;
    of.set_item("bytes", outcome.done.bytes)?;
    of.set_item("nanoseconds", outcome.nanoseconds())?;
    of.set_item("start_ns", outcome.start_ns)?;
    of.set_item("end_ns", outcome.end_ns)?;
    of.set_item("fsync_ns", outcome.fsync_ns)?;
    of.set_item("close_ns", outcome.close_ns)?;
    of.set_item("includes", includes(outcome))?;
    of.set_item("errors", outcome.errors())?;
    of.set_item("short_transfers", outcome.short_transfers())?;
    of.set_item("direct", outcome.direct)?;
    of.set_item("sync", outcome.sync)?;
    of.set_item("mapped", outcome.mapped)?;
    of.set_item("primed", outcome.primed)?;
    of.set_item("silent_passes", outcome.silent_passes)?;
    of.set_item("prepared", outcome.prepared)?;
    of.set_item("resident_share", outcome.resident_share)?;
    if !outcome.latencies_ns.is_empty() {
        of.set_item("latencies", table::latencies(outcome))?;
    }
    Ok(of)
}

fn status(fault: Option<&Fault>) -> &'static str {
    match fault {
        None => "ok",
        Some(Fault::Stopped) => "stopped",
        Some(Fault::NotRun(_)) => "skipped",
        Some(_) => "failed",
    }
}

fn includes(outcome: &Outcome) -> Vec<&'static str> {
    let parts = [("fsync", outcome.fsync_included), ("close", outcome.close_included)];
    parts.iter().filter(|(_, included)| *included).map(|(name, _)| *name).collect()
}

fn sizes(of: &Bound<'_, PyDict>, cell: Cell, repetition: u32) -> PyResult<()> {
    of.set_item("file_bytes", cell.bytes())?;
    of.set_item("asked_file_bytes", cell.file_bytes)?;
    of.set_item("record_bytes", cell.record_bytes)?;
    of.set_item("repetition", repetition)
}

/// The same pass of all workers.
pub fn group<'py>(py: Python<'py>, group: &Group) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("test", group.test)?;
    of.set_item("name", group.pass.name)?;
    sizes(&of, group.cell, group.repetition)?;
    of.set_item("workers", group.workers)?;
    of.set_item("start_ns", group.start_ns)?;
    of.set_item("end_ns", group.end_ns)?;
    Ok(of)
}

/// The look at a whole file.
pub fn checked<'py>(py: Python<'py>, checked: &Checked) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    sizes(&of, checked.cell, checked.repetition)?;
    of.set_item("worker", checked.worker)?;
    of.set_item("bytes", checked.bytes)?;
    of.set_item("differing_records", checked.differing)?;
    of.set_item("reason", checked.fault.as_ref().map(ToString::to_string))?;
    Ok(of)
}

/// `IOzone`'s table, a list of rows for each repetition, and its matrices of the last repetition.
pub fn as_iozone<'py>(
    py: Python<'py>,
    setup: &Setup,
    unit: Unit,
    outcomes: &[Outcome],
) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    let rows = PyList::empty(py);
    let cells = setup.matrix.cells().unwrap_or_default();
    let mut last = Vec::new();
    for repetition in 0..setup.repetitions {
        last = outcomes.iter().filter(|one| one.repetition == repetition).cloned().collect();
        for &cell in &cells {
            rows.append(table::row(cell, &last, &setup.tests, unit))?;
        }
    }
    of.set_item("header", table::header(&setup.tests))?;
    of.set_item("rows", rows)?;
    of.set_item("matrices", table::matrices(&last, unit))?;
    Ok(of)
}

/// The tests by number.
pub fn tests(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let all = PyList::empty(py);
    for test in &TESTS {
        let of = PyDict::new(py);
        of.set_item("number", test.number)?;
        of.set_item("about", test.about)?;
        let names: Vec<_> = test.passes.iter().map(|pass| pass.name).collect();
        of.set_item("passes", names)?;
        let kinds: Vec<_> = test.passes.iter().map(|pass| pass.kind.name()).collect();
        of.set_item("kinds", kinds)?;
        of.set_item("auto", test.auto)?;
        all.append(of)?;
    }
    Ok(all)
}
