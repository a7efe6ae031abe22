//! Threads for a run, as a caller lends them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use ioassay_sim::engine::Workers;

/// So many threads, the caller's own included, started for each share of work.
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
            for _ in 1..self.0 {
                scope.spawn(work);
            }
            meanwhile();
            work();
        });
    }
}
