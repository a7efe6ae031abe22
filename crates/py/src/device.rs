//! The drive that is served: options come as JSON, and what is told goes as JSON.

use ioassay_device::server::{self, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;

use crate::errors::CoreError;

/// Serves drives, each until it is stopped, and all until SIGTERM, SIGINT or SIGHUP; several have a thread each.
/// `options` is a list, and so are what `ready` is called with once and what is returned: of each drive what it
/// counted, or under `error` why one of several ended.
#[pyfunction]
pub fn device_serve(options: &str, ready: &Bound<'_, PyAny>) -> PyResult<String> {
    let (py, ready) = (ready.py(), ready.clone().unbind());
    let options: Vec<Options> =
        serde_json::from_str(options).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut raised = None;
    let ended = py.detach(|| {
        server::serve_group(&options, |told| {
            let said = json(&told).and_then(|text| Python::attach(|py| ready.call1(py, (text,))));
            raised = said.err();
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    let ended = ended.map_err(|error| CoreError::new_err(error.to_string()))?;
    let ended = ended.into_iter().map(|drive| match drive {
        Ok(summary) => json!(summary),
        Err(error) => json!({"error": error.to_string()}),
    });
    json(&ended.collect::<Vec<_>>())
}

fn json(told: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(told).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Names of the models and what they are.
#[pyfunction]
pub fn device_models() -> Vec<(&'static str, &'static str)> {
    ioassay_device::model::MODELS.to_vec()
}
