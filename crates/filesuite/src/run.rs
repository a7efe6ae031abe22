//! A whole run: repetitions, cells, tests, passes. The repetition is outermost, so that a machine that
//! drifts drifts for all cells alike.

use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::clock::now_ns;
use crate::outcome::{Event, Group};
use crate::pass::Gate;
use crate::remount::Remount;
use crate::setup::Setup;
use crate::suite::Test;
use crate::worker::{Position, Worker, flush_all};
use crate::{Error, affinity};

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
        measure(setup, at, remount.as_ref(), stop, hand_out)?;
    }
    Ok(())
}

/// All chosen tests of one cell: by one worker alone, or by several at once, each a thread with a file of its own. None
/// of these is stopped because another is done: every worker moves all its bytes, and the interval of each is reported.
fn measure(
    setup: &Setup,
    at: Position,
    remount: Option<&Remount>,
    stop: &AtomicBool,
    hand_out: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    let new = |worker| Worker::new(setup, Position { worker, ..at }, &file(setup, at, worker), stop);
    let mut workers = (0..at.workers.max(1)).map(new).collect::<Result<Vec<_>, _>>()?;
    flush_all(setup);
    for test in setup.chosen()? {
        for place in 0..test.passes.len() {
            if at.workers > 0 {
                together(&mut workers, at, test, place, hand_out);
            } else {
                let worker = &mut workers[0];
                if let Some(remount) = remount {
                    worker.remounted(remount)?;
                }
                hand_out(Event::Pass(worker.measure(test, place, &mut Gate::default())));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
    for checked in workers.iter_mut().filter_map(Worker::checked) {
        hand_out(Event::Checked(checked));
    }
    if at.keep {
        workers.iter_mut().for_each(Worker::keep);
    }
    Ok(())
}

/// One pass of all workers, begun at once.
fn together(
    workers: &mut [Worker<'_>],
    at: Position,
    test: &'static Test,
    place: usize,
    hand_out: &mut dyn FnMut(Event),
) {
    let barrier = Barrier::new(workers.len() + 1);
    let (start_ns, outcomes) = thread::scope(|scope| {
        let barrier = &barrier;
        let running: Vec<_> = workers
            .iter_mut()
            .map(|worker| scope.spawn(move || worker.measure(test, place, &mut Gate::of(barrier))))
            .collect();
        barrier.wait();
        let start_ns = now_ns();
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        (start_ns, ended.collect::<Vec<_>>())
    });
    let end_ns = now_ns();
    for outcome in outcomes {
        hand_out(Event::Pass(outcome));
    }
    let Position { cell, repetition, workers, .. } = at;
    hand_out(Event::Group(Group {
        test: test.number,
        pass: &test.passes[place],
        cell,
        repetition,
        workers,
        start_ns,
        end_ns,
    }));
}

/// The file of one worker.
fn file(setup: &Setup, at: Position, worker: u32) -> PathBuf {
    if at.workers == 0 {
        return setup.path.clone();
    }
    setup.paths.get(worker as usize).cloned().unwrap_or_else(|| {
        let mut name = setup.path.as_os_str().to_owned();
        name.push(format!(".{worker}"));
        PathBuf::from(name)
    })
}
