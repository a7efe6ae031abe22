//! Rust errors as Python exceptions.

use std::path::Path;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    ioassay._core,
    CoreError,
    PyValueError,
    "What the core was given cannot be: the message names it, its value and what was wanted."
);

/// What went wrong, wherever in the core.
pub enum Failure<'a> {
    /// A question about a distribution.
    Stats(ioassay_stats::Error),
    /// A log, and where it is.
    Log(ioassay_fiolog::Error, &'a Path),
    /// A trace, and where it is, if it is a file.
    Trace(ioassay_block::Error, Option<&'a Path>),
    /// A simulation, and where its trace is, if it is a file.
    Simulation(ioassay_sim::Error, Option<&'a Path>),
    /// An argument that the types do not rule out.
    Argument(String),
}

/// The one place where errors become exceptions: `OSError` for a file that cannot be read (with
/// number and path, so that Python makes it `FileNotFoundError` and so on), else `CoreError`.
pub fn exception(failure: Failure<'_>) -> PyErr {
    match failure {
        Failure::Stats(error) => CoreError::new_err(error.to_string()),
        Failure::Log(ioassay_fiolog::Error::Io(error), path) => of_file(&error, path),
        Failure::Trace(ioassay_block::Error::Io(error), Some(path)) if error.raw_os_error().is_some() => {
            of_file(&error, path)
        }
        Failure::Trace(ioassay_block::Error::Io(error), None) => {
            PyOSError::new_err((error.raw_os_error(), without_number(&error)))
        }
        Failure::Trace(error, Some(path)) => CoreError::new_err(format!("{}: {error}", path.display())),
        Failure::Trace(error, None) => CoreError::new_err(error.to_string()),
        Failure::Log(error, path) => CoreError::new_err(format!("{}: {error}", path.display())),
        Failure::Simulation(error @ ioassay_sim::Error::Request { .. }, Some(path)) => {
            CoreError::new_err(format!("{}: {error}", path.display()))
        }
        Failure::Simulation(error, _) => CoreError::new_err(error.to_string()),
        Failure::Argument(message) => CoreError::new_err(message),
    }
}

fn of_file(error: &std::io::Error, path: &Path) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), without_number(error), path.as_os_str().to_owned()))
}

/// Python writes the number itself.
fn without_number(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A value from Python; `CoreError` says what cannot be.
pub fn depythonized<T: serde::de::DeserializeOwned>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    pythonize::depythonize(value).map_err(|error| CoreError::new_err(error.to_string()))
}

/// A value for Python.
pub fn pythonized<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize::pythonize(py, value)?)
}

/// The exception for a question about a distribution.
pub fn of_stats(error: ioassay_stats::Error) -> PyErr {
    exception(Failure::Stats(error))
}
