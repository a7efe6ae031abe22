//! Several workers at once, each a thread with a file of its own. Nobody is stopped because another is done:
//! every worker moves all its bytes, and the interval of each is reported.

use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::Error;
use crate::clock::now_ns;
use crate::outcome::{Event, Group, Outcome};
use crate::pass::Gate;
use crate::setup::Setup;
use crate::suite::Test;
use crate::worker::{Position, Worker, flush_all};

/// All chosen tests of one cell.
pub fn measure(setup: &Setup, at: Position, stop: &AtomicBool, hand_out: &mut dyn FnMut(Event)) -> Result<(), Error> {
    let mut workers = (0..at.workers)
        .map(|worker| {
            let path = file(setup, worker);
            Worker::new(setup, Position { worker, ..at }, &path, stop)
        })
        .collect::<Result<Vec<_>, _>>()?;
    flush_all(setup);
    for test in setup.chosen()? {
        for place in 0..test.passes.len() {
            let (group, outcomes) = together(&mut workers, at, test, place);
            for outcome in outcomes {
                hand_out(Event::Pass(outcome));
            }
            hand_out(Event::Group(group));
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
fn together(workers: &mut [Worker<'_>], at: Position, test: &'static Test, place: usize) -> (Group, Vec<Outcome>) {
    let number = workers.len();
    let barrier = Barrier::new(number + 1);
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
    let group = Group {
        test: test.number,
        pass: &test.passes[place],
        cell: at.cell,
        repetition: at.repetition,
        workers: number as u32,
        start_ns,
        end_ns: now_ns(),
    };
    (group, outcomes)
}

/// The file of one worker.
fn file(setup: &Setup, worker: u32) -> PathBuf {
    if let Some(path) = setup.paths.get(worker as usize) {
        return path.clone();
    }
    let mut name = setup.path.as_os_str().to_owned();
    name.push(format!(".{worker}"));
    PathBuf::from(name)
}
