//! The simulated drive: what Python says of it is read in `setup.rs`, what it gave is written by `outcome.rs`.

mod drive;
mod flows;
mod outcome;
mod sampling;
mod setup;
mod state_file;
mod sweep;
mod threads;

pub use drive::SimulatedDrive;
pub use outcome::columns;
pub use sampling::sampled_hits;
pub use state_file::state_label;
pub use sweep::simulate_all;

use std::io::Write as _;
use std::time::Instant;

use ioassay_block::{Error, Request, Source};
use ioassay_sim as sim;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use self::state_file::StateSource;
use crate::errors::{Failure, exception, pythonized};
use crate::traces::{self, Progress, ReadAhead, SourceSpec};
use threads::Threads;

/// Between two looks at whether the user wants to stop: some milliseconds of work.
const BATCHES_BETWEEN_SIGNALS: u32 = 16;

/// A source that ends when the user wants to stop.
struct Stoppable<'a> {
    source: Input,
    progress: &'a mut Progress,
    batches: u32,
    stopped: Option<PyErr>,
    attempt: Attempt,
}

/// How a simulation may take its source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// As what it says it is.
    Only,
    /// For writes: where that fails, it is repeated by events.
    First,
    /// For anything.
    Second,
}

enum Input {
    /// A file: read in a thread of its own.
    Read(ReadAhead),
    /// Anything else: a recipe is made faster than a thread could hand it over.
    Made(Box<dyn Source + Send>),
}

impl Input {
    /// What gives the requests of an opened source, which gives none itself any more.
    fn of(opened: &mut traces::Opened) -> Self {
        let source = std::mem::replace(&mut opened.source, Box::new(&[][..]));
        if opened.path.is_some() && ReadAhead::is_useful() {
            Self::Read(ReadAhead::of(source))
        } else {
            Self::Made(source)
        }
    }

    fn stopped(self) -> Option<PyErr> {
        match self {
            Self::Read(ahead) => ahead.stopped,
            Self::Made(_) => None,
        }
    }
}

impl<'a> Stoppable<'a> {
    fn new(opened: &'a mut traces::Opened, attempt: Attempt) -> Self {
        Self { source: Input::of(opened), progress: &mut opened.progress, batches: 0, stopped: None, attempt }
    }

    /// What stopped it.
    fn stopped(self) -> Option<PyErr> {
        self.stopped.or(self.source.stopped())
    }

    fn check(self) -> PyResult<()> {
        self.stopped().map_or(Ok(()), Err)
    }
}

impl Source for Stoppable<'_> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.batches += 1;
        if self.batches % BATCHES_BETWEEN_SIGNALS == 0 {
            if let Err(error) = self.progress.look() {
                self.stopped = Some(error);
                batch.clear();
                return Ok(());
            }
        }
        match &mut self.source {
            Input::Read(source) => source.next_batch(batch),
            Input::Made(source) => source.next_batch(batch),
        }
    }

    fn only_writes(&self) -> bool {
        let source: &dyn Source = match &self.source {
            Input::Read(source) => source,
            Input::Made(source) => source,
        };
        self.attempt != Attempt::Second && source.only_writes()
    }

    fn is_repeatable(&self) -> bool {
        self.attempt == Attempt::First
    }
}

/// A trace over a simulated drive, by at most that many threads.
#[pyfunction]
#[pyo3(signature = (source, setup, threads = 1))]
pub fn simulate<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyDict>,
    setup: &Bound<'py, PyDict>,
    threads: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let run = setup::of(setup)?;
    let begin = Instant::now();
    let (results, interrupted) = if let Some(flows) = flows::of(source)? {
        let (mut simulation, interrupted) = py.detach(|| flows::attempted(&flows, &run))?;
        let tallies = std::mem::take(&mut simulation.flows);
        let results = outcome::dictionary(py, simulation)?;
        flows::finished(py, &results, &flows, tallies)?;
        (results, interrupted)
    } else {
        let spec = SourceSpec::from_dict(source)?;
        let begins_anew = run.state.is_none() && run.save.is_none() && run.setup.preconditioning.is_none();
        let attempt = if begins_anew && spec.is_repeatable() { Attempt::First } else { Attempt::Only };
        let (simulation, opened, interrupted) = py.detach(|| attempted(attempt, &spec, &run, threads))?;
        (finished(py, simulation, &opened)?, interrupted)
    };
    results.set_item("wall_s", begin.elapsed().as_secs_f64())?;
    // An interruption while the state was written is one as well: raised in Python, it would lose the results.
    let interrupted = interrupted || (run.partial && py.check_signals().is_err());
    results.set_item("interrupted", interrupted)?;
    Ok(results)
}

/// A simulation, its source, and whether the user has stopped it.
fn attempted(
    attempt: Attempt,
    spec: &SourceSpec,
    run: &setup::Run,
    threads: usize,
) -> PyResult<(sim::Simulation, traces::Opened, bool)> {
    let mut opened = traces::open(spec)?;
    let mut stoppable = Stoppable::new(&mut opened, attempt);
    let threads_ = Threads(threads.max(1));
    let (simulated, interrupted) = interruptible(run, |proceed| {
        let simulated = simulate_run(sim::Load::Trace(&mut stoppable), run, &threads_, proceed);
        (simulated, stoppable.stopped())
    })?;
    match simulated {
        Err(RunError::Simulation(sim::Error::NeedsEvents)) => attempted(Attempt::Second, spec, run, threads),
        simulated => Ok((simulated.map_err(|error| error.raised(&opened))?, opened, interrupted)),
    }
}

type Simulated = Result<sim::Simulation, RunError>;

/// What a simulation gives that the user may stop, which returns what has stopped it, and whether something has.
fn interruptible(
    run: &setup::Run,
    simulate: impl FnOnce(&mut dyn FnMut() -> bool) -> (Simulated, Option<PyErr>),
) -> PyResult<(Simulated, bool)> {
    let mut interruption = None;
    let (simulated, stopped) = simulate(&mut || match Python::attach(|py| py.check_signals()) {
        Ok(()) => true,
        Err(error) => {
            interruption = Some(error);
            false
        }
    });
    let interrupted = stopped.is_some();
    let has_issued = |simulation: &sim::Simulation| simulation.tally.issued > 0;
    let keeps = run.partial && simulated.as_ref().is_ok_and(has_issued);
    match stopped.filter(|_| !keeps).or(interruption) {
        Some(error) => Err(error),
        None => Ok((simulated, interrupted)),
    }
}

/// Why a simulation has no results.
enum RunError {
    Simulation(sim::Error),
    /// A file of a state.
    State(PyErr),
}

impl RunError {
    /// What is to be raised for it.
    fn raised(self, opened: &traces::Opened) -> PyErr {
        match self {
            Self::State(error) => error,
            Self::Simulation(error) => failure(error, opened),
        }
    }
}

/// Runs a simulation from a state's file and into one.
fn simulate_run(
    load: sim::Load<'_>,
    run: &setup::Run,
    threads: &Threads,
    proceed: &mut dyn FnMut() -> bool,
) -> Simulated {
    let from = run.state.as_ref().map(StateSource::open).transpose();
    let mut from = from.map_err(RunError::State)?;
    let resumed = run.state.as_ref().is_some_and(|state| state.resumed);
    let start = match &mut from {
        None => sim::Start::New,
        Some(input) if resumed => sim::Start::Resumed(input),
        Some(input) => sim::Start::State(input),
    };
    let Some(target) = &run.save else {
        return sim::simulate_from(start, load, &run.setup, None, threads, proceed).map_err(RunError::Simulation);
    };
    let unwritten = |error| RunError::State(state_file::of_file(error, &target.path));
    let mut output = target.create().map_err(unwritten)?;
    let done = sim::simulate_from(start, load, &run.setup, Some(&mut output), threads, proceed)
        .map_err(RunError::Simulation)?;
    let finished = output.finish().and_then(|mut file| file.flush());
    finished.map_err(unwritten)?;
    Ok(done)
}

/// A simulation, with what is known of its trace.
fn finished<'py>(
    py: Python<'py>,
    simulation: sim::Simulation,
    opened: &traces::Opened,
) -> PyResult<Bound<'py, PyDict>> {
    let results = outcome::dictionary(py, simulation)?;
    traces::of_trace(py, &results, opened)?;
    Ok(results)
}

/// The offline optimum of the buffer of a setup on a trace: page writes, the most hits among them.
#[pyfunction]
pub fn offline_optimum(py: Python<'_>, source: &Bound<'_, PyDict>, setup: &Bound<'_, PyDict>) -> PyResult<(u64, u64)> {
    let spec = SourceSpec::from_dict(source)?;
    let setup = setup::of(setup)?.setup;
    let slots = setup.buffer.as_ref().map(|buffer| buffer.settings.capacity_pages);
    py.detach(|| -> PyResult<_> {
        let mut opened = traces::open(&spec)?;
        let mut stoppable = Stoppable::new(&mut opened, Attempt::Only);
        let (drive, unaligned) = (&setup.drive, setup.run.unaligned);
        let bound = sim::engine::write_bound(&mut stoppable, drive, slots.unwrap_or(0), unaligned);
        stoppable.check()?;
        let bound = bound.map_err(|error| failure(error, &opened))?;
        Ok((bound.writes(), bound.hits()))
    })
}

/// What went wrong in a simulation, with the trace where it is about that.
fn failure(error: sim::Error, opened: &traces::Opened) -> PyErr {
    match error {
        sim::Error::Trace(error) => opened.failure(error),
        other => exception(Failure::Simulation(other, opened.path.as_deref())),
    }
}

/// The write buffers: name, what it does, options that it knows.
#[pyfunction]
pub fn policies(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let rows = sim::policy::POLICIES.iter();
    let rows = rows.map(|entry| json!({"name": entry.name, "about": entry.about, "options": entry.options}));
    pythonized(py, &rows.collect::<Vec<_>>())
}

/// The options by group, in order: pairs of a group and its rows.
#[pyfunction]
pub fn simulation_options(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    pythonized(py, &sim::option_table())
}

/// Whether a setup can be; what its drive is: pages, bytes, and the memory that simulating it takes.
#[pyfunction]
pub fn drive_check<'py>(py: Python<'py>, setup: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let setup = setup::of(setup)?.setup;
    setup.check().map_err(|error| exception(Failure::Simulation(error, None)))?;
    let of = PyDict::new(py);
    of.set_item("pages", setup.drive.pages())?;
    of.set_item("capacity_bytes", setup.drive.capacity_bytes())?;
    of.set_item("memory_bytes", setup.drive.memory_bytes())?;
    Ok(of)
}
