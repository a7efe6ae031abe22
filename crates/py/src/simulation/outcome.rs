//! What a simulation gave, as Python takes it: counts, histograms, columns. Nothing is derived here.

use ioassay_sim::drive::Counters;
use ioassay_sim::engine::{Responses, Tally, TimeSeries};
use ioassay_sim::{ElementTotals, Preconditioned, Simulation, Steadiness};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::histogram::Histogram;

pub fn dictionary(py: Python<'_>, simulation: Simulation) -> PyResult<Bound<'_, PyDict>> {
    let outcome = PyDict::new(py);
    outcome.set_item("requests", requests(py, &simulation.tally)?)?;
    outcome.set_item("buffer", buffer(py, &simulation.tally)?)?;
    outcome.set_item("controller", controller(py, &simulation)?)?;
    outcome.set_item("drive", counters(py, &simulation.counters)?)?;
    outcome.set_item("steadiness", steadiness(py, &simulation.steadiness)?)?;
    outcome.set_item("elements", elements(py, &simulation.elements)?)?;
    outcome.set_item("series", series(py, &simulation.series)?)?;
    let preconditioned = simulation.preconditioned.as_ref();
    outcome.set_item("preconditioned", preconditioned.map(|done| preconditioning(py, done)).transpose()?)?;
    let tally = simulation.tally;
    for (name, of_kind) in
        [("all", tally.transfers()), ("read", tally.reads), ("write", tally.writes), ("other", tally.others)]
    {
        outcome.set_item(name, responses(py, of_kind)?)?;
    }
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

fn requests<'py>(py: Python<'py>, tally: &Tally) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("issued", tally.issued)?;
    of.set_item("unfinished", tally.unfinished)?;
    of.set_item("gave_up", tally.gave_up)?;
    of.set_item("last_issue_ps", tally.last_issue_ps)?;
    of.set_item("last_completion_ps", tally.last_completion_ps)?;
    Ok(of)
}

fn buffer<'py>(py: Python<'py>, tally: &Tally) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("written_pages", tally.buffered_writes)?;
    of.set_item("write_hits", tally.write_hits)?;
    of.set_item("read_pages", tally.buffered_reads)?;
    of.set_item("read_hits", tally.read_hits)?;
    of.set_item("evicted_pages", tally.evicted_pages)?;
    of.set_item("pad_reads", tally.pad_reads)?;
    of.set_item("pad_writes", tally.pad_writes)?;
    of.set_item("left", tally.buffered_at_end)?;
    Ok(of)
}

fn controller<'py>(py: Python<'py>, simulation: &Simulation) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("cache_waits", simulation.tally.cache_waits)?;
    of.set_item("suspensions", simulation.tally.suspensions)?;
    of.set_item("slc_free_share", simulation.slc_free_share)?;
    of.set_item("mapping_hits", simulation.tally.mapping_hits)?;
    of.set_item("mapping_misses", simulation.tally.mapping_misses)?;
    of.set_item("translation_reads", simulation.tally.translation_reads)?;
    of.set_item("translation_writes", simulation.tally.translation_writes)?;
    Ok(of)
}

fn counters<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("written_pages", counters.written_pages)?;
    of.set_item("read_pages", counters.read_pages)?;
    of.set_item("trimmed_pages", counters.trimmed_pages)?;
    of.set_item("moved_pages", counters.moved_pages)?;
    of.set_item("summary_pages", counters.summary_pages)?;
    of.set_item("cleanings", counters.collected_blocks)?;
    of.set_item("erases", counters.erases)?;
    of.set_item("levellings", counters.levellings)?;
    of.set_item("dead_blocks", counters.dead_blocks)?;
    of.set_item("slc_pages", counters.slc_pages)?;
    of.set_item("folded_pages", counters.folded_pages)?;
    of.set_item("write_amplification", counters.write_amplification())?;
    Ok(of)
}

fn steadiness<'py>(py: Python<'py>, steadiness: &Steadiness) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("saturated", steadiness.saturated)?;
    of.set_item("steady", steadiness.steady)?;
    of.set_item("growth", steadiness.growth)?;
    of.set_item("halves_ps", steadiness.halves_ps.to_vec())?;
    Ok(of)
}

fn preconditioning<'py>(py: Python<'py>, done: &Preconditioned) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("pages", done.pages)?;
    of.set_item("write_amplification", done.write_amplification.clone())?;
    of.set_item("settled", done.settled)?;
    Ok(of)
}

/// A column of what `pick` finds in each.
fn column<T, V>(of: &[T], pick: impl Fn(&T) -> V) -> Vec<V> {
    of.iter().map(pick).collect()
}

fn elements<'py>(py: Python<'py>, all: &[ElementTotals]) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    of.set_item("written_pages", column(all, |one| one.counters.written_pages))?;
    of.set_item("read_pages", column(all, |one| one.counters.read_pages))?;
    of.set_item("moved_pages", column(all, |one| one.counters.moved_pages))?;
    of.set_item("cleanings", column(all, |one| one.counters.collected_blocks))?;
    of.set_item("erases", column(all, |one| one.counters.erases))?;
    of.set_item("dead_blocks", column(all, |one| one.counters.dead_blocks))?;
    of.set_item("busy_ps", column(all, |one| one.busy_ps))?;
    of.set_item("least_block_erases", column(all, |one| one.block_erases.0))?;
    of.set_item("most_block_erases", column(all, |one| one.block_erases.1))?;
    Ok(of)
}

fn series<'py>(py: Python<'py>, series: &TimeSeries) -> PyResult<Bound<'py, PyDict>> {
    let rows = &series.rows;
    let of = PyDict::new(py);
    of.set_item("width_ps", series.width_ps)?;
    of.set_item("issued", column(rows, |row| row.issued))?;
    of.set_item("completed", column(rows, |row| row.completed))?;
    of.set_item("response_ps", column(rows, |row| row.response_ps as f64))?;
    of.set_item("outstanding", column(rows, |row| row.outstanding))?;
    of.set_item("written_pages", column(rows, |row| row.counters.written_pages))?;
    of.set_item("moved_pages", column(rows, |row| row.counters.moved_pages))?;
    of.set_item("slc_pages", column(rows, |row| row.counters.slc_pages))?;
    of.set_item("folded_pages", column(rows, |row| row.counters.folded_pages))?;
    of.set_item("cleanings", column(rows, |row| row.counters.collected_blocks))?;
    of.set_item("erases", column(rows, |row| row.counters.erases))?;
    of.set_item("busy_ps", column(rows, |row| row.busy_ps.clone()))?;
    Ok(of)
}
