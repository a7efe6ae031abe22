//! The drive that is served: options come as JSON, and what is told goes as JSON.

use ioassay_device::server::{self, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;

use crate::errors::CoreError;

/// Serves a drive until SIGTERM, SIGINT, SIGHUP or a request to stop; `ready` is called once with
/// what it is then. Returns what it counted.
#[pyfunction]
pub fn device_serve(options: &str, ready: &Bound<'_, PyAny>) -> PyResult<String> {
    let (py, ready) = (ready.py(), ready.clone().unbind());
    let options: Options = serde_json::from_str(options).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut raised = None;
    let drive = py.detach(|| {
        server::serve(&options, |told| {
            let said = json(told).and_then(|text| Python::attach(|py| ready.call1(py, (text,))));
            raised = said.err();
        })
    });
    match raised {
        Some(error) => Err(error),
        None => json(&drive.map_err(|error| CoreError::new_err(error.to_string()))?),
    }
}

/// Serves several drives, each on a thread of its own, until each is stopped or a signal ends all;
/// `options` is a list, and so are what `ready` is called with and what is returned: of each drive
/// what it counted, or under `error` why it ended.
#[pyfunction]
pub fn device_serve_group(options: &str, ready: &Bound<'_, PyAny>) -> PyResult<String> {
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
        Ok(summary) => serde_json::to_value(summary),
        Err(error) => Ok(json!({"error": error.to_string()})),
    });
    let ended = ended.collect::<Result<Vec<_>, _>>();
    json(&ended.map_err(|error| PyValueError::new_err(error.to_string()))?)
}

fn json(told: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(told).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Names of the models and what they are.
#[pyfunction]
pub fn device_models() -> Vec<(&'static str, &'static str)> {
    let models = ioassay_device::model::MODELS.iter();
    models.map(|entry| (entry.name, entry.about)).collect()
}
