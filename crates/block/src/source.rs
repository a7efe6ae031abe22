//! Where requests come from.

use crate::{Error, Kind, Request};

/// How many requests a source gives at once, if it has as many. A batch stays in the processor's
/// second-level cache (40 bytes a request), and is long enough that one virtual call is nothing.
pub const BATCH: usize = 1024;

/// Gives requests, in the order of the trace, in batches.
pub trait Source {
    /// Replaces what `batch` holds by the next requests: at most [`BATCH`], none at the end and at every call after it.
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error>;

    /// Whether it is certain that all it will give are writes. A simulation is faster then.
    fn only_writes(&self) -> bool {
        false
    }

    /// Whether the caller will read it again where a simulation that takes it for writes fails with `NeedsEvents`.
    fn is_repeatable(&self) -> bool {
        false
    }
}

/// Requests that are in memory.
impl Source for &[Request] {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let (now, later) = self.split_at(self.len().min(BATCH));
        batch.clear();
        batch.extend_from_slice(now);
        *self = later;
        Ok(())
    }

    fn only_writes(&self) -> bool {
        self.iter().all(|request| request.kind == Kind::Write)
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        (**self).next_batch(batch)
    }

    fn only_writes(&self) -> bool {
        (**self).only_writes()
    }
}
