//! Threads that the caller lends to a run. This crate starts none.

/// Threads that share the work of a run.
pub trait Workers: Sync {
    /// How many, the caller's own included; at least 1.
    fn count(&self) -> usize;

    /// Calls `task` with each number below `tasks`, in any order, on any thread, while the caller's own
    /// first calls `meanwhile`. Returns when all calls have returned.
    fn share(&self, tasks: usize, task: &(dyn Fn(usize) + Sync), meanwhile: &mut dyn FnMut());
}

/// No thread but the caller's own.
pub struct OneThread;

impl Workers for OneThread {
    fn count(&self) -> usize {
        1
    }

    fn share(&self, tasks: usize, task: &(dyn Fn(usize) + Sync), meanwhile: &mut dyn FnMut()) {
        meanwhile();
        (0..tasks).for_each(task);
    }
}
