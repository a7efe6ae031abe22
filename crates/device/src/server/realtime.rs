//! Serving in real time: before all programs of the usual scheduling class, under a watchdog.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::machine;
use crate::Error;

/// Above every program of the usual class, and below the kernel's own threads, which have 50 and more.
const PRIORITY: i32 = 10;
/// How often the watchdog looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// How often in a row it finds the same before it acts: two seconds.
const MOST_UNCHANGED: u32 = 8;

/// The calling thread serves in real time until this is dropped.
pub struct Realtime {
    before: (i32, i32),
    end: Arc<AtomicBool>,
    watchdog: Option<JoinHandle<()>>,
}

impl Realtime {
    /// Begins it. Where `heartbeat` no longer counts, the thread hangs, and returns to the usual class, so
    /// that the processor is not lost to all others.
    pub fn start(heartbeat: Arc<AtomicU64>) -> Result<Self, Error> {
        if machine::allowed().is_some_and(|allowed| allowed.count() < 2) {
            let wanted = "two processors or more, so that clients run beside the server";
            return Err(Error::option("realtime", true, wanted));
        }
        let server = rustix::thread::gettid().as_raw_nonzero().get();
        // SAFETY: it reads the class of this thread.
        let class = unsafe { libc::sched_getscheduler(0) };
        let mut of_class = libc::sched_param { sched_priority: 0 };
        // SAFETY: it writes to `of_class` alone.
        unsafe { libc::sched_getparam(0, &raw mut of_class) };
        let end = Arc::new(AtomicBool::new(false));
        let mut begun = Self { before: (class.max(0), of_class.sched_priority), end: Arc::clone(&end), watchdog: None };
        enter(0)?;
        let watchdog = thread::Builder::new().name("ioassay-watchdog".into()).spawn(move || {
            // Without its own priority it would wait for the thread that it watches.
            if enter(1).is_ok() {
                let leave = || drop(machine::schedule(server, libc::SCHED_OTHER, 0));
                watch(&heartbeat, &end, leave);
            }
        });
        begun.watchdog = Some(watchdog.map_err(|error| Error::system("cannot start a watchdog", error))?);
        Ok(begun)
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        let (class, priority) = self.before;
        let _ = machine::schedule(0, class, priority); // as it was
        self.end.store(true, Ordering::Relaxed);
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.thread().unpark();
            let _ = watchdog.join(); // it has nothing to tell
        }
    }
}

/// The calling thread runs in real time; threads that it starts do not.
pub fn enter(above: i32) -> Result<(), Error> {
    let class = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    machine::schedule(0, class, PRIORITY + above).map_err(|error| {
        let what = format!(
            "cannot serve in real time; expected root, or a limit of at least {} for real-time priorities (ulimit -r)",
            PRIORITY + 1
        );
        Error::system(what, error)
    })
}

/// Calls `hangs` once when `heartbeat` has stood still for [`MOST_UNCHANGED`] intervals.
fn watch(heartbeat: &AtomicU64, end: &AtomicBool, hangs: impl FnOnce()) {
    let (mut last, mut unchanged) = (heartbeat.load(Ordering::Relaxed), 0);
    while !end.load(Ordering::Relaxed) {
        thread::park_timeout(INTERVAL);
        let now = heartbeat.load(Ordering::Relaxed);
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        if unchanged == MOST_UNCHANGED {
            return hangs();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_that_stands_still_is_a_hang_unless_it_has_ended() {
        let (heartbeat, end) = (AtomicU64::new(7), AtomicBool::new(false));
        let mut hung = false;
        watch(&heartbeat, &end, || hung = true);
        assert!(hung);
        end.store(true, Ordering::Relaxed);
        watch(&heartbeat, &end, || unreachable!("it has ended"));
    }
}
