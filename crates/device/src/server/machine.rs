//! The machine that the server runs on: memory, processors, signals. Nothing is changed but this process.
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::io::Errno;
use rustix::thread::CpuSet;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::Error;

/// Available memory in bytes: that of the machine, or of the control group, if that has less. Below
/// `root` are `/proc` and `/sys`.
pub fn available_bytes(root: &Path) -> Option<u64> {
    let of_machine = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let of_machine = of_machine
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        * 1024;
    Some(of_group(root).map_or(of_machine, |of_group| of_group.min(of_machine)))
}

fn of_group(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = root.join("sys/fs/cgroup").join(group);
    let number = |name| -> Option<u64> { fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok() };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

/// Pins this thread to one processor.
pub fn pin(processor: u32) -> Result<(), Error> {
    let wanted = "a processor that is on and that this process may use";
    if processor as usize >= CpuSet::MAX_CPU {
        return Err(Error::option("pin", processor, wanted));
    }
    let mut set = CpuSet::new();
    set.set(processor as usize);
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| match error {
        Errno::INVAL => Error::option("pin", processor, wanted),
        other => Error::system(format!("cannot run on processor {processor}"), other),
    })
}

/// Processors that this thread may run on, for threads that are started when it is pinned.
pub fn allowed() -> Option<CpuSet> {
    rustix::thread::sched_getaffinity(None).ok()
}

/// Lets this thread run on these processors again.
pub fn spread(over: Option<&CpuSet>) {
    if let Some(over) = over {
        let _ = rustix::thread::sched_setaffinity(None, over); // it shares a processor then
    }
}

/// How long this thread has been ready to run and had no processor (proc(5), `schedstat`); 0 where the
/// kernel does not count it.
pub fn waited_ns() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    counts.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Keeps processors awake until what it returns is dropped: with a thread on each processor that this one may use,
/// except for some.
#[must_use]
pub fn keep_awake(except: &[u32]) -> Arc<()> {
    let awake = Arc::new(());
    let allowed = allowed().unwrap_or_default();
    for processor in (0..CpuSet::MAX_CPU as u32).filter(|processor| !except.contains(processor)) {
        if allowed.is_set(processor as usize) {
            let awake = Arc::downgrade(&awake);
            // One that cannot be started keeps nothing awake, and nothing else happens.
            let _ = thread::Builder::new().name("ioassay-awake".into()).spawn(move || {
                // In any other class it would take time from those who work.
                if schedule(0, libc::SCHED_IDLE, 0).is_ok() && pin(processor).is_ok() {
                    while awake.strong_count() > 0 {
                        std::hint::spin_loop();
                    }
                }
            });
        }
    }
    awake
}

/// Sets how a thread of this process is scheduled (sched(7)); 0 is the calling one.
pub fn schedule(thread: i32, class: i32, priority: i32) -> Result<(), std::io::Error> {
    let wanted = libc::sched_param { sched_priority: priority };
    // SAFETY: it changes how a thread of this process is scheduled, and reads `wanted` alone.
    match unsafe { libc::sched_setscheduler(thread, class, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The flag that stops the server: set by a signal, or by a request.
#[derive(Debug)]
pub struct StopSignal {
    /// Set when the server has to end.
    pub flag: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

impl StopSignal {
    /// SIGTERM and SIGINT end it, and so does SIGHUP unless it is ignored, as under nohup. A file that is
    /// too large is an error, and no signal that kills.
    pub fn on_signals() -> Result<Self, Error> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut handlers = Vec::new();
        let hangup = (!is_ignored(SIGHUP)).then(|| (SIGHUP, Arc::clone(&flag)));
        let always = [(SIGTERM, Arc::clone(&flag)), (SIGINT, Arc::clone(&flag)), (SIGXFSZ, Arc::default())];
        for (signal, flag) in always.into_iter().chain(hangup) {
            let handler = signal_hook::flag::register(signal, flag);
            handlers.push(handler.map_err(|error| Error::system("cannot listen to signals", error))?);
        }
        Ok(Self { flag, handlers })
    }
}

impl Drop for StopSignal {
    fn drop(&mut self) {
        for &handler in &self.handlers {
            signal_hook::low_level::unregister(handler);
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all of it are integers and pointers, for which zeroes are a value.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action it only writes the present one to `now`.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) } == 0;
    known && now.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_machine_or_of_the_group() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(available_bytes(root.path()), None);
        let of_machine = Some(8_000_000 * 1024);
        for (name, text, wanted) in [
            ("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n", of_machine),
            ("proc/self/cgroup", "0::/a/b\n", of_machine),
            ("sys/fs/cgroup/a/b/memory.max", "max\n", of_machine),
            ("sys/fs/cgroup/a/b/memory.current", "1000\n", of_machine),
            ("sys/fs/cgroup/a/b/memory.max", "5000\n", Some(4000)),
        ] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
            assert_eq!(available_bytes(root.path()), wanted, "{name}: {text}");
        }
    }
}
