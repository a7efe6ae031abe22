//! The time of a served drive: picoseconds since it was started. It knows no calendar, and never goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Where the time comes from.
#[derive(Debug, Clone)]
pub enum Clock {
    Real(Instant),
    /// A time that tests set.
    Set(Arc<AtomicU64>),
}

impl Clock {
    /// The system's clock, from now on.
    pub fn start() -> Self {
        Self::Real(Instant::now())
    }

    /// Now, picoseconds. It suffices for 213 days.
    pub fn now_ps(&self) -> u64 {
        match self {
            Self::Real(start) => (start.elapsed().as_nanos() as u64).saturating_mul(1000),
            Self::Set(now_ps) => now_ps.load(Ordering::Relaxed),
        }
    }
}
