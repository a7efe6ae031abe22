//! A whole run: repetitions, cells, tests, passes. The repetition is outermost, so that a machine that
//! drifts drifts for all cells alike.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::outcome::Event;
use crate::pass::Gate;
use crate::remount::Remount;
use crate::setup::Setup;
use crate::worker::{Position, Worker, flush_all};
use crate::{Error, affinity, throughput};

/// Do what `setup` says. Results are handed out as they come; once `stop` is set, the pass that runs ends
/// as stopped and nothing follows. The file is gone afterwards, whatever happened.
pub fn run(setup: &Setup, stop: &AtomicBool, hand_out: &mut dyn FnMut(Event)) -> Result<(), Error> {
    setup.check()?;
    affinity::check(setup.processor)?;
    let remount = setup.remount.as_ref().map(|at| Remount::of(at, &setup.path)).transpose()?;
    let cells = setup.matrix.cells()?;
    let numbers_of_workers = setup.workers_from.unwrap_or(setup.workers)..=setup.workers;
    let mut positions = Vec::new();
    for repetition in 0..setup.repetitions {
        for &cell in &cells {
            positions.extend(numbers_of_workers.clone().map(|workers| Position {
                cell,
                repetition,
                worker: 0,
                workers,
                overwrite: setup.overwrite && repetition == 0 && cell == cells[0],
                keep: false,
            }));
        }
    }
    if let Some(last) = positions.last_mut() {
        last.keep = setup.keep;
    }
    for at in positions {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if at.workers > 0 {
            throughput::measure(setup, at, stop, hand_out)?;
        } else {
            alone(setup, at, remount.as_ref(), stop, hand_out)?;
        }
    }
    Ok(())
}

fn alone(
    setup: &Setup,
    at: Position,
    remount: Option<&Remount>,
    stop: &AtomicBool,
    hand_out: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    let mut worker = Worker::new(setup, at, &setup.path, stop)?;
    flush_all(setup);
    for test in setup.chosen()? {
        for place in 0..test.passes.len() {
            if let Some(remount) = remount {
                worker.remounted(remount)?;
            }
            let outcome = worker.measure(test, place, &mut Gate::default());
            hand_out(Event::Pass(outcome));
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
    if let Some(checked) = worker.checked() {
        hand_out(Event::Checked(checked));
    }
    if at.keep {
        worker.keep();
    }
    Ok(())
}
