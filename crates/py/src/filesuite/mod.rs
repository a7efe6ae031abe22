//! The file tests: what Python says of them is read in `setup.rs`, what they gave is told in `outcome.rs`.

mod outcome;
mod setup;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ioassay_filesuite as suite;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::CoreError;

pyo3::create_exception!(
    ioassay._core,
    RefusalError,
    CoreError,
    "Going on could destroy something that is not ours: the message names it, and the option that mends it."
);

/// How often it is seen whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(100);

/// The file tests, done.
#[pyfunction]
#[pyo3(signature = (setup, on_pass=None))]
pub fn filesuite_run<'py>(
    py: Python<'py>,
    setup: &Bound<'py, PyDict>,
    on_pass: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (setup, unit) = setup::of(setup)?;
    let told = PyDict::new(py);
    told.set_item("clock_overhead_ns", suite::overhead_ns())?;
    let stop = AtomicBool::new(false);
    let (sender, mut events) = channel();
    let mut gathered = Gathered::new(py, on_pass);
    // The tests run in a thread of their own, so that Ctrl-C is seen here while a call takes long.
    let ended = thread::scope(|scope| {
        let engine = scope.spawn(|| suite::run(&setup, &stop, &mut |event| drop(sender.send(event))));
        let waited = gathered.all(py, &mut events, || engine.is_finished());
        if waited.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let ended = py.detach(|| engine.join());
        let rest = waited.and_then(|()| gathered.rest(&events));
        rest.map(|()| ended)
    })?;
    match ended {
        Ok(done) => done.map_err(exception)?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    told.set_item("iozone", outcome::as_iozone(py, &setup, unit, &gathered.outcomes)?)?;
    told.set_item("passes", gathered.passes)?;
    told.set_item("groups", gathered.groups)?;
    told.set_item("checked", gathered.checked)?;
    Ok(told)
}

/// What came so far.
struct Gathered<'py> {
    outcomes: Vec<suite::Outcome>,
    passes: Bound<'py, PyList>,
    groups: Bound<'py, PyList>,
    checked: Bound<'py, PyList>,
    on_pass: Option<Bound<'py, PyAny>>,
}

impl<'py> Gathered<'py> {
    fn new(py: Python<'py>, on_pass: Option<Bound<'py, PyAny>>) -> Self {
        Self {
            outcomes: Vec::new(),
            passes: PyList::empty(py),
            groups: PyList::empty(py),
            checked: PyList::empty(py),
            on_pass,
        }
    }

    /// Everything until the engine is done, or the user wants to stop.
    fn all(&mut self, py: Python<'py>, events: &mut Receiver<suite::Event>, done: impl Fn() -> bool) -> PyResult<()> {
        while !done() {
            match wait(py, events) {
                Ok(event) => self.take(py, event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            py.check_signals()?;
        }
        Ok(())
    }

    fn rest(&mut self, events: &Receiver<suite::Event>) -> PyResult<()> {
        let py = self.passes.py();
        while let Ok(event) = events.try_recv() {
            self.take(py, event)?;
        }
        Ok(())
    }

    fn take(&mut self, py: Python<'py>, event: suite::Event) -> PyResult<()> {
        match event {
            suite::Event::Pass(outcome) => {
                let told = outcome::pass(py, &outcome)?;
                if let Some(on_pass) = &self.on_pass {
                    on_pass.call1((&told,))?;
                }
                self.outcomes.push(outcome);
                self.passes.append(told)
            }
            suite::Event::Group(group) => self.groups.append(outcome::group(py, &group)?),
            suite::Event::Checked(checked) => self.checked.append(outcome::checked(py, &checked)?),
        }
    }
}

/// The next event, while other Python threads may run.
fn wait(py: Python<'_>, events: &mut Receiver<suite::Event>) -> Result<suite::Event, RecvTimeoutError> {
    py.detach(move || events.recv_timeout(LOOK))
}

/// The sizes of files and records that would be measured, in order.
#[pyfunction]
pub fn filesuite_cells(setup: &Bound<'_, PyDict>) -> PyResult<Vec<(u64, u64)>> {
    let (setup, _) = setup::of(setup)?;
    setup.check().map_err(exception)?;
    let cells = setup.matrix.cells().map_err(exception)?;
    Ok(cells.iter().map(|cell| (cell.file_bytes, cell.record_bytes)).collect())
}

/// The tests: one dictionary each.
#[pyfunction]
pub fn filesuite_tests(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    outcome::tests(py)
}

fn exception(error: suite::Error) -> PyErr {
    match error {
        suite::Error::Refused { .. } => RefusalError::new_err(error.to_string()),
        suite::Error::Option { .. } => CoreError::new_err(error.to_string()),
        suite::Error::System { path, step, errno } => {
            let said = std::io::Error::from_raw_os_error(errno.raw_os_error()).to_string();
            let said = said.split(" (os error").next().unwrap_or_default();
            let text = format!("{said}, when it was to {step}");
            PyOSError::new_err((errno.raw_os_error(), text, path.into_os_string()))
        }
    }
}
