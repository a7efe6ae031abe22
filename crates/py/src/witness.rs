//! The programs that watch a process tree: when they are attached is decided in Python, what they saw goes there as
//! JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ioassay_witness::{Listing, Options, Unavailable, Witness as Programs, capability};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// Why BPF programs cannot be attached here, with the remedy; '' when they can.
#[pyfunction]
pub fn witness_capability(py: Python<'_>) -> String {
    match py.detach(capability) {
        Ok(_) => String::new(),
        Err(why) => why.to_string(),
    }
}

/// Begins to load the programs for a witness of a command at this level, while the caller does something else.
#[pyfunction]
pub fn witness_prepare(level: &str) -> PyResult<()> {
    Programs::prepare(&options_of(level, None, &[])?);
    Ok(())
}

/// Programs that are attached until this is dropped.
#[pyclass(module = "ioassay._core")]
pub struct Witness {
    programs: Option<Programs>,
}

#[pymethods]
impl Witness {
    #[new]
    #[pyo3(signature = (level, record=None, layers=None, *, running=false, cgroup=0, listing=None))]
    fn new(
        py: Python<'_>,
        level: &str,
        record: Option<PathBuf>,
        layers: Option<Vec<String>>,
        running: bool,
        cgroup: u64,
        listing: Option<PathBuf>,
    ) -> PyResult<Self> {
        let options = Options {
            running,
            cgroup,
            listing: listing.map(listing_of),
            ..options_of(level, record, &layers.unwrap_or_default())?
        };
        let programs = py.detach(|| Programs::attach(&options)).map_err(refused)?;
        Ok(Self { programs: Some(programs) })
    }

    /// Follows a process, its threads and all that they start from now on.
    fn follow(&mut self, pid: i32) -> PyResult<()> {
        let programs = self.programs.as_mut().ok_or_else(finished)?;
        programs.follow(pid).map_err(refused)
    }

    /// Follows tasks that run already; how many of them were not followed before.
    fn adopt(&mut self, py: Python<'_>, processes: Vec<i32>, threads: Vec<i32>) -> PyResult<u64> {
        let programs = self.programs.as_mut().ok_or_else(finished)?;
        py.detach(move || programs.adopt(&processes, &threads)).map_err(refused)
    }

    /// Detaches, and says what was seen.
    #[pyo3(signature = (paths=None))]
    fn finish(&mut self, py: Python<'_>, paths: Option<BTreeMap<(String, u64), String>>) -> PyResult<String> {
        let programs = self.programs.take().ok_or_else(finished)?;
        let paths = paths.unwrap_or_default();
        Ok(py.detach(|| programs.finish(&paths).to_json()))
    }
}

/// All calls to a file, or for no path a sample.
fn listing_of(path: PathBuf) -> Listing {
    if path.as_os_str().is_empty() { Listing::Sample } else { Listing::Whole(path) }
}

const KNOWN: [&str; 6] = ["block", "syscalls", "explain", "record", "synthetic", "oldest"];

/// The level is one of `observation.LEVELS` that needs programs; `layers` are what is watched besides.
fn options_of(level: &str, record: Option<PathBuf>, layers: &[String]) -> PyResult<Options> {
    let mut names = layers.iter().map(String::as_str).chain([level]);
    if let Some(unknown) = names.clone().find(|name| !KNOWN.contains(name)) {
        return Err(PyValueError::new_err(format!(
            "'{unknown}' is nothing to watch; expected block, syscalls, explain or record"
        )));
    }
    if record.is_none() && names.clone().any(|name| name == "record") {
        return Err(PyValueError::new_err("level record wants a file to record to"));
    }
    Ok(Options {
        block: true,
        syscalls: names.clone().any(|name| ["syscalls", "explain"].contains(&name)),
        explain: names.clone().any(|name| name == "explain"),
        synthetic: names.clone().any(|name| name == "synthetic"),
        oldest: names.any(|name| name == "oldest"),
        record,
        ..Options::default()
    })
}

fn refused(why: Unavailable) -> PyErr {
    match why {
        Unavailable::Io { what, error } => PyOSError::new_err((error.raw_os_error(), format!("{what}: {error}"))),
        why => PyOSError::new_err(why.to_string()),
    }
}

fn finished() -> PyErr {
    PyValueError::new_err("this witness has finished: make another one")
}
