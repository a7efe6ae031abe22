//! The clock of all intervals: `CLOCK_MONOTONIC` in nanoseconds, the same that kernel tracers use.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some point in the past; the same for all processes of the machine.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Median time from one reading of the clock to the next. Reported, never subtracted.
pub fn overhead_ns() -> u64 {
    const READINGS: usize = 1001;
    let mut last = now_ns();
    let mut gaps: Vec<u64> = (0..READINGS)
        .map(|_| {
            let now = now_ns();
            let gap = now - last;
            last = now;
            gap
        })
        .collect();
    gaps.sort_unstable();
    gaps[READINGS / 2]
}
