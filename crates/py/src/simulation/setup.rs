//! What Python says of a simulation. What options there are, and what they may be, the crate sim has.

use ioassay_sim::drive::Spec;
use ioassay_sim::engine::RunOptions;
use ioassay_sim::{BufferOptions, Preconditioning, Setup};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

use super::state_file::{StateSource, StateTarget};
use crate::errors::depythonized;

/// A simulation, and the files of its states.
pub struct Run {
    pub setup: Setup,
    pub state: Option<StateSource>,
    pub save: Option<StateTarget>,
    /// Whether Ctrl-C ends it like the end of its trace.
    pub partial: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Description {
    drive: Spec,
    buffer: BufferOptions,
    precondition: Option<Preconditioning>,
    feed: RunOptions,
    available_bytes: Option<u64>,
    state: Option<StateSource>,
    save: Option<StateTarget>,
    partial: bool,
}

pub fn of(dictionary: &Bound<'_, PyDict>) -> PyResult<Run> {
    let given: Description = depythonized(dictionary)?;
    let setup = Setup {
        buffer: given.buffer.spec(&given.drive),
        drive: given.drive,
        preconditioning: given.precondition,
        run: given.feed,
        available_bytes: given.available_bytes.unwrap_or(u64::MAX),
    };
    Ok(Run { setup, state: given.state, save: given.save, partial: given.partial })
}
