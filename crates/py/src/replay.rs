//! A trace replayed on a target: what Python says of it, and what it gave.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ioassay_replay as engine;
use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{CoreError, depythonized, pythonized};
use crate::simulation::columns;
use crate::traces::{self, Opened, SourceSpec};

/// How often it is seen whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(100);
/// The same while a trace is only read: in batches.
const BATCHES_BETWEEN_LOOKS: u32 = 64;

/// A trace, issued on a target.
#[pyfunction]
#[pyo3(signature = (source, setup, on_progress=None))]
pub fn replay<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyDict>,
    setup: &Bound<'py, PyDict>,
    on_progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let spec = SourceSpec::from_dict(source)?;
    let setup: engine::Setup = depythonized(setup)?;
    let survey = setup.survey && spec.is_repeatable();
    let known = if survey { Some(py.detach(|| surveyed(&spec, &setup))?) } else { None };
    let mut opened = py.detach(|| traces::open(&spec))?;
    let requests = std::mem::replace(&mut opened.source, Box::new(&[][..]));
    let (progress, stop) = (engine::Progress::default(), AtomicBool::new(false));
    // A thread of its own, whose timing no other Python thread disturbs.
    let (done, heard) = thread::scope(|scope| {
        let waiting = thread::current();
        let (known, setup, progress, stop) = (known.as_ref(), &setup, &progress, &stop);
        let running = scope.spawn(move || {
            let done = engine::replay(requests, known, setup, progress, stop);
            waiting.unpark();
            done
        });
        let mut heard = Ok(());
        while heard.is_ok() && !running.is_finished() {
            py.detach(|| thread::park_timeout(LOOK));
            if py.check_signals().is_err() {
                break;
            }
            heard = on_progress.map_or(Ok(()), |listener| listener.call1((shown(py, progress)?,)).map(drop));
            // A signal that comes while the listener runs raises there: that is no error of the listener's.
            if heard.as_ref().is_err_and(|error| !error.is_instance_of::<PyException>(py)) {
                heard = Ok(());
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let done = py.detach(|| running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (done, heard)
    });
    heard?;
    let outcome = done.map_err(|error| exception(error, &opened))?;
    let results = dictionary(py, &outcome)?;
    results.set_item("census", pythonized(py, &known)?)?;
    traces::of_trace(py, &results, &opened)?;
    let changes = opened.changes();
    let dropped =
        [changes.dropped_device, changes.dropped_kind, changes.dropped_empty, changes.dropped_beyond, changes.skipped];
    results.set_item("skipped", dropped.iter().sum::<u64>())?;
    Ok(results)
}

/// What a trace has, once it was read to its end and is fit for the target.
fn surveyed(spec: &SourceSpec, setup: &engine::Setup) -> PyResult<engine::Census> {
    let mut opened = traces::open(spec)?;
    let mut source = std::mem::replace(&mut opened.source, Box::new(&[][..]));
    let (mut stopped, mut batches) = (None, 0_u32);
    let found = engine::survey(&mut *source, setup, || {
        batches += 1;
        if batches % BATCHES_BETWEEN_LOOKS == 0 {
            stopped = opened.progress.look().err();
        }
        stopped.is_none()
    });
    match stopped {
        Some(stopped) => Err(stopped),
        None => found.map_err(|error| exception(error, &opened)),
    }
}

fn shown<'py>(py: Python<'py>, progress: &engine::Progress) -> PyResult<Bound<'py, PyDict>> {
    let of = PyDict::new(py);
    let counts = [
        ("issued", &progress.issued),
        ("completed", &progress.completed),
        ("bytes", &progress.bytes),
        ("errors", &progress.errors),
        ("late", &progress.late),
        ("trace_ns", &progress.trace_ns),
    ];
    for (name, count) in counts {
        of.set_item(name, count.load(Ordering::Relaxed))?;
    }
    Ok(of)
}

fn dictionary<'py>(py: Python<'py>, outcome: &engine::Outcome) -> PyResult<Bound<'py, PyDict>> {
    let of = pythonized(py, outcome)?.cast_into::<PyDict>()?;
    of.set_item("series", columns(py, &outcome.series)?)?;
    Ok(of)
}

fn exception(error: engine::Error, opened: &Opened) -> PyErr {
    match error {
        engine::Error::Trace(error) => opened.failure(error),
        engine::Error::System { path, step, errno, advice } => {
            let said = std::io::Error::from(errno).to_string();
            let said = said.split(" (os error").next().unwrap_or_default();
            let text = format!("{said}, when it was to {step}{advice}");
            PyOSError::new_err((errno.raw_os_error(), text, path.into_os_string()))
        }
        engine::Error::Request { .. } => {
            let trace = opened.path.as_deref().map(Path::display);
            CoreError::new_err(trace.map_or_else(|| error.to_string(), |path| format!("{path}: {error}")))
        }
        error => CoreError::new_err(error.to_string()),
    }
}
