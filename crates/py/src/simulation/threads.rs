//! The threads that a simulation is lent: the crate sim starts none.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use ioassay_sim::engine::Workers;

/// A number of threads, this one included. The others are started for each share of work, some
/// milliseconds of it, and end with it.
pub struct Threads(pub usize);

impl Workers for Threads {
    fn count(&self) -> usize {
        self.0
    }

    fn share(&self, tasks: usize, task: &(dyn Fn(usize) + Sync), meanwhile: &mut dyn FnMut()) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(number) = Some(next.fetch_add(1, Relaxed)).filter(|&next| next < tasks) {
                task(number);
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.0.min(tasks) {
                // Those that there are do the work of one that cannot be started.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            meanwhile();
            work();
        });
    }
}
