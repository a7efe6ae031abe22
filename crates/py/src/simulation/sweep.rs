//! Many simulations from one pass over a trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use ioassay_sim as sim;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::setup::{self, Run};
use super::threads::Threads;
use super::{RunError, finished, simulate_run};
use crate::traces::{self, Broadcast, Opened, SourceSpec};

/// Between two looks at whether the user wants to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// A simulation and its seconds.
type Timed = (Result<sim::Simulation, RunError>, f64);

/// A trace over several simulated drives, each in a thread of its own.
#[pyfunction]
pub fn simulate_all<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyDict>,
    setups: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyList>> {
    let spec = SourceSpec::from_dict(source)?;
    let setups: Vec<Run> = setups.iter().map(|setup| setup::of(setup.cast::<PyDict>()?)).collect::<PyResult<_>>()?;
    let (simulations, opened) = py.detach(|| -> PyResult<_> {
        let mut opened = traces::open(&spec)?;
        let simulations = run(&mut opened, &setups)?;
        Ok((simulations, opened))
    })?;
    let all = PyList::empty(py);
    for (simulation, wall_s) in simulations {
        let results = finished(py, simulation, &opened)?;
        results.set_item("wall_s", wall_s)?;
        all.append(results)?;
    }
    Ok(all)
}

fn run(opened: &mut Opened, setups: &[Run]) -> PyResult<Vec<(sim::Simulation, f64)>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut source = std::mem::replace(&mut opened.source, Box::new(&[][..]));
    let (broadcast, readers) = Broadcast::new(&*source, setups.len(), &stop);
    let waiting = thread::current();
    let (read, done, stopped) = thread::scope(|scope| {
        let reading = scope.spawn(|| broadcast.run(&mut *source));
        let running: Vec<ScopedJoinHandle<'_, Timed>> = setups
            .iter()
            .zip(readers)
            .map(|(setup, mut reader)| {
                let (stop, waiting) = (Arc::clone(&stop), waiting.clone());
                scope.spawn(move || {
                    let begin = Instant::now();
                    let mut proceed = || !stop.load(Ordering::Relaxed);
                    let done = simulate_run(sim::Load::Trace(&mut reader), setup, &Threads(1), &mut proceed);
                    waiting.unpark();
                    (done, begin.elapsed().as_secs_f64())
                })
            })
            .collect();
        let mut stopped = None;
        while stopped.is_none() && !running.iter().all(ScopedJoinHandle::is_finished) {
            thread::park_timeout(PATIENCE);
            stopped = opened.progress.look().err();
        }
        stop.store(stopped.is_some(), Ordering::Relaxed);
        let done: Vec<Timed> = running.into_iter().map(joined).collect();
        (joined(reading), done, stopped)
    });
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    // A trace that breaks off looks like one that ends, to the simulations.
    read.map_err(|error| opened.failure(error))?;
    done.into_iter().map(|(done, wall_s)| Ok((done.map_err(|error| error.raised(opened))?, wall_s))).collect()
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
