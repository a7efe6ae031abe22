//! Several loads on one drive at once: the source `{"flows": […]}`, each flow a dictionary with
//!
//! - `name`, `source` (as of a simulation with one load),
//! - `depth` (absent: an open loop), `urgent`, `seconds` (absent: to the end of its source), `background`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioassay_block::prepare::Changes;
use ioassay_block::{Error, Request, Source};
use ioassay_sim as sim;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::setup::Run;
use super::threads::Threads;
use super::{Attempt, RunError, Stoppable, interruptible, outcome, simulate_run};
use crate::errors::{Failure, exception};
use crate::fields::Fields;
use crate::traces::{self, CacheReport, Opened, SourceSpec};

pub struct FlowSpec {
    name: String,
    source: SourceSpec,
    depth: Option<u32>,
    is_urgent: bool,
    until_ps: Option<u64>,
    is_background: bool,
}

/// The flows of a source; `None` where it is a trace.
pub fn of(source: &Bound<'_, PyDict>) -> PyResult<Option<Vec<FlowSpec>>> {
    let mut fields = Fields::of("trace", source)?;
    let Some(item) = fields.item("flows")? else {
        return Ok(None);
    };
    fields.finish()?;
    let Ok(flows) = item.cast::<PyList>() else {
        return Err(fields_wrong(&item));
    };
    flows
        .iter()
        .map(|flow| flow.cast::<PyDict>().map_err(|_| fields_wrong(&flow)).and_then(one))
        .collect::<PyResult<_>>()
        .map(Some)
}

fn fields_wrong(item: &Bound<'_, PyAny>) -> PyErr {
    exception(Failure::Argument(format!("trace.flows is {item}, expected a list of dictionaries")))
}

fn one(dictionary: &Bound<'_, PyDict>) -> PyResult<FlowSpec> {
    let mut fields = Fields::of("trace.flows", dictionary)?;
    let depth = fields.whole("depth")?;
    let seconds = fields.number("seconds")?;
    let until_ps = seconds.map(|seconds| (seconds * 1e12) as u64);
    let (name, source) = (fields.text("name")?.unwrap_or_default(), fields.item("source")?);
    let flow = FlowSpec {
        name,
        source: SourceSpec::from_dict(source.unwrap_or_else(|| PyDict::new(dictionary.py()).into_any()).cast()?)?,
        depth: depth.map(|depth| u32::try_from(depth).unwrap_or(u32::MAX)),
        is_urgent: fields.flag("urgent")?.unwrap_or(false),
        until_ps,
        is_background: fields.flag("background")?.unwrap_or(false),
    };
    fields.finish()?;
    Ok(flow)
}

/// Ends when the user wants to stop, whichever flow has seen that.
struct FlowSource<'a> {
    source: Stoppable<'a>,
    stop: &'a AtomicBool,
}

impl Source for FlowSource<'_> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        if self.stop.load(Relaxed) {
            batch.clear();
            return Ok(());
        }
        self.source.next_batch(batch)?;
        self.stop.fetch_or(self.source.stopped.is_some(), Relaxed);
        Ok(())
    }
}

/// Simulates flows, and says whether the user has stopped them.
pub fn attempted(flows: &[FlowSpec], run: &Run) -> PyResult<(sim::Simulation, bool)> {
    let mut opened: Vec<Opened> = flows.iter().map(|flow| traces::open(&flow.source)).collect::<PyResult<_>>()?;
    let stop = AtomicBool::new(false);
    let of = |opened| FlowSource { source: Stoppable::new(opened, Attempt::Only), stop: &stop };
    let mut sources: Vec<FlowSource<'_>> = opened.iter_mut().map(of).collect();
    let (simulated, interrupted) = interruptible(run, |proceed| {
        let loads = sources.iter_mut().zip(flows).map(|(source, flow)| sim::engine::Flow {
            source,
            depth: flow.depth,
            is_urgent: flow.is_urgent,
            until_ps: flow.until_ps,
            is_background: flow.is_background,
        });
        let simulated = simulate_run(sim::Load::Flows(loads.collect()), run, &Threads(1), proceed);
        (simulated, sources.into_iter().find_map(|flow| flow.source.stopped()))
    })?;
    let raised = |error| match error {
        RunError::State(error) => error,
        RunError::Simulation(error) => exception(Failure::Simulation(error, None)),
    };
    Ok((simulated.map_err(raised)?, interrupted))
}

/// What each flow had, by its name, and what stands for the trace.
pub fn finished(
    py: Python<'_>,
    results: &Bound<'_, PyDict>,
    flows: &[FlowSpec],
    tallies: Vec<sim::engine::Tally>,
) -> PyResult<()> {
    let of_flows = PyDict::new(py);
    let mut changes = Changes::default();
    for (flow, tally) in flows.iter().zip(tallies) {
        changes.seen += tally.issued;
        changes.given += tally.issued;
        let of = outcome::requests(py, tally)?;
        of_flows.set_item(&flow.name, of)?;
    }
    results.set_item("flows", of_flows)?;
    traces::of_source(py, results, None, &changes, CacheReport::default())
}
