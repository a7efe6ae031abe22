//! A simulated drive that stays in memory between runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ioassay_sim as sim;
use ioassay_sim::engine::RunOptions;
use ioassay_sim::options::Given;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::{Attempt, Stoppable, failure, finished, setup};
use crate::errors::{Failure, depythonized, exception};
use crate::traces::{self, SourceSpec};

/// A hundred days, as those of the longest trace.
const MOST_REST_S: f64 = 8.64e6;

/// A drive whose state goes on from run to run; see `_core.pyi`.
#[pyclass(frozen, module = "ioassay._core")]
pub struct SimulatedDrive {
    /// Locked without the GIL only, which a run takes now and then to look at signals.
    drive: Mutex<sim::SimulatedDrive>,
    #[pyo3(get)]
    pages: u32,
    #[pyo3(get)]
    capacity_bytes: u64,
}

#[pymethods]
impl SimulatedDrive {
    #[new]
    fn new(py: Python<'_>, setup: &Bound<'_, PyDict>) -> PyResult<Self> {
        let run = setup::of(setup)?;
        if run.state.is_some() || run.save.is_some() || run.partial {
            let message = "setup has state, save or partial, expected none of them for a drive in memory";
            return Err(exception(Failure::Argument(message.to_owned())));
        }
        let mut interruption = None;
        let made = py.detach(|| {
            sim::SimulatedDrive::new(&run.setup, &mut || {
                interruption = Python::attach(|py| py.check_signals()).err();
                interruption.is_none()
            })
        });
        match interruption {
            Some(error) => Err(error),
            None => made.map(Self::of).map_err(raised),
        }
    }

    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        let copy = py.detach(|| self.with(|drive| drive.copy()));
        copy.map(Self::of).map_err(raised)
    }

    fn set_timing(&self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let options: BTreeMap<String, Given> = depythonized(options)?;
        let given = options.iter().map(|(name, given)| (name.as_str(), given));
        py.detach(|| self.with(|drive| drive.set_timing(given))).map_err(raised)
    }

    fn rest(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        if !(0.0..=MOST_REST_S).contains(&seconds) {
            let message = format!("seconds is {seconds}, expected 0 to {MOST_REST_S}");
            return Err(exception(Failure::Argument(message)));
        }
        py.detach(|| self.with(|drive| drive.rest((seconds * 1e12) as u64))).map_err(raised)
    }

    #[pyo3(signature = (source, feed = None, *, latencies = false))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyDict>,
        feed: Option<&Bound<'py, PyDict>>,
        latencies: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let spec = SourceSpec::from_dict(source)?;
        let options: Option<RunOptions> = feed.map(|feed| depythonized(feed)).transpose()?;
        let begin = Instant::now();
        let (mut simulation, opened) = py.detach(|| -> PyResult<_> {
            let mut opened = traces::open(&spec)?;
            let mut stoppable = Stoppable::new(&mut opened, Attempt::Only);
            let done = self.with(|drive| {
                let options = options.as_ref().unwrap_or(&drive.setup().run).clone();
                drive.run(sim::Load::Trace(&mut stoppable), &options, latencies)
            });
            stoppable.check()?;
            Ok((done.map_err(|error| failure(error, &opened))?, opened))
        })?;
        let wall_s = begin.elapsed().as_secs_f64();
        let kept = simulation.tally.latencies.take();
        let results = finished(py, simulation, &opened)?;
        results.set_item("wall_s", wall_s)?;
        results.set_item("interrupted", false)?;
        if let Some(kept) = kept {
            results.set_item("latency_us", microseconds(py, &kept.latencies_ps)?)?;
        }
        Ok(results)
    }
}

impl SimulatedDrive {
    fn of(drive: sim::SimulatedDrive) -> Self {
        let spec = drive.drive().spec();
        Self { pages: spec.pages(), capacity_bytes: spec.capacity_bytes(), drive: Mutex::new(drive) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut sim::SimulatedDrive) -> T) -> T {
        act(&mut self.drive.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The bytes of an array of float64; no number for a request that is not complete.
fn microseconds<'py>(py: Python<'py>, latencies_ps: &[u64]) -> PyResult<Bound<'py, PyBytes>> {
    const WIDTH: usize = size_of::<f64>();
    PyBytes::new_with(py, latencies_ps.len() * WIDTH, |bytes| {
        for (place, &latency_ps) in bytes.chunks_exact_mut(WIDTH).zip(latencies_ps) {
            let latency_us = if latency_ps == u64::MAX { f64::NAN } else { latency_ps as f64 / 1e6 };
            place.copy_from_slice(&latency_us.to_ne_bytes());
        }
        Ok(())
    })
}

fn raised(error: sim::Error) -> PyErr {
    exception(Failure::Simulation(error, None))
}
