//! The Python face of the Rust core, the module `ioassay._core`: it converts values and errors, and
//! decides nothing. Files are opened here, because the pure crates open none.

#![allow(
    clippy::redundant_closure_for_method_calls,
    reason = "`Python::attach` takes a closure for any lifetime, which a method's path is not"
)]

mod columns;
mod containers;
mod device;
mod errors;
mod fields;
mod filesuite;
mod histogram;
mod histogram_logs;
mod logs;
mod replay;
mod samples;
mod simulation;
mod traces;
mod witness;

use pyo3::prelude::*;

/// Statistics and log reading in Rust; see `_core.pyi`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("CoreError", module.py().get_type::<errors::CoreError>())?;
    module.add("RefusalError", module.py().get_type::<filesuite::RefusalError>())?;
    module.add_class::<histogram::Histogram>()?;
    module.add_class::<histogram_logs::DirectionBins>()?;
    module.add_class::<histogram_logs::HistogramLogSummary>()?;
    module.add_class::<logs::DirectionSummary>()?;
    module.add_class::<logs::LogSummary>()?;
    module.add_class::<logs::Series>()?;
    module.add_class::<simulation::SimulatedDrive>()?;
    module.add_class::<witness::Witness>()?;
    module.add_function(wrap_pyfunction!(containers::unpack, module)?)?;
    module.add_function(wrap_pyfunction!(device::device_models, module)?)?;
    module.add_function(wrap_pyfunction!(device::device_serve, module)?)?;
    module.add_function(wrap_pyfunction!(filesuite::filesuite_cells, module)?)?;
    module.add_function(wrap_pyfunction!(filesuite::filesuite_run, module)?)?;
    module.add_function(wrap_pyfunction!(filesuite::filesuite_tests, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_logs::fio_bin_ns, module)?)?;
    module.add_function(wrap_pyfunction!(histogram_logs::read_histogram_log, module)?)?;
    module.add_function(wrap_pyfunction!(logs::read_log, module)?)?;
    module.add_function(wrap_pyfunction!(replay::replay, module)?)?;
    module.add_function(wrap_pyfunction!(samples::percentile, module)?)?;
    module.add_function(wrap_pyfunction!(samples::percentile_interval, module)?)?;
    module.add_function(wrap_pyfunction!(samples::percentiles, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::drive_check, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::offline_optimum, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::policies, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::sampled_hits, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::simulate_all, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::simulation_options, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::state_label, module)?)?;
    module.add_function(wrap_pyfunction!(traces::trace_formats, module)?)?;
    module.add_function(wrap_pyfunction!(traces::trace_info, module)?)?;
    module.add_function(wrap_pyfunction!(traces::trace_mrc, module)?)?;
    module.add_function(wrap_pyfunction!(traces::trace_write, module)?)?;
    module.add_function(wrap_pyfunction!(witness::witness_capability, module)?)?;
    module.add_function(wrap_pyfunction!(witness::witness_prepare, module)?)?;
    Ok(())
}
