//! The clock of all times here: `CLOCK_MONOTONIC`, as of the kernel's own timestamps of requests.

use rustix::time::{ClockId, Timespec, clock_gettime};

#[inline]
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// What this thread has used of a processor.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
