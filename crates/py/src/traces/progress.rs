//! How far a trace was read, for those who look on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Between two calls of the listener.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is read, and how much of it: bytes of a file as it is on disk, or requests of the cache.
#[derive(Default)]
pub struct Amount {
    pub done: AtomicU64,
    /// 0: unknown.
    pub total: AtomicU64,
}

/// Tells a listener of an [`Amount`].
pub struct Progress {
    pub amount: Arc<Amount>,
    listener: Option<Py<PyAny>>,
    next: Instant,
}

impl Progress {
    pub fn new(listener: Option<Py<PyAny>>) -> Self {
        Self { amount: Arc::default(), listener, next: Instant::now() }
    }

    /// Looks whether the user wants to stop, and tells the listener now and then.
    pub fn look(&mut self) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(listener) = &self.listener {
                if Instant::now() >= self.next {
                    self.next = Instant::now() + INTERVAL;
                    let done = self.amount.done.load(Ordering::Relaxed);
                    let total = self.amount.total.load(Ordering::Relaxed);
                    listener.call1(py, (done, total))?;
                }
            }
            Ok(())
        })
    }
}
