//! Attaching, following, finishing.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::Array;

use crate::capability::check;
use crate::entry_exit;
use crate::error::Unavailable;
use crate::gather;
use crate::listing::{self, Listed, Paths};
use crate::observation::{File, Seen};
use crate::options::Options;
use crate::program_set::ProgramSet;
use crate::programs;
use crate::record::{Event, Recorder};
use crate::shape::{Health, TASK_WORDS};
use crate::spare;
use crate::sys::{self, kernel};

/// How long `finish` waits for requests of the process tree that are still under way. A completion that the kernel
/// hid from the programs never comes, so it is short.
const DRAIN: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Programs that are attached; dropped, they are gone.
pub struct Witness {
    options: Options,
    loaded: ProgramSet,
    recorder: Option<Recorder>,
    listing: Option<listing::Recorder>,
    roots: u64,
    root_threads: u64,
    attach_s: f64,
    cpu_s: f64,
}

impl Witness {
    /// Begins to load what [`Witness::attach`] will want, and returns at once. What cannot be loaded is said by that.
    pub fn prepare(options: &Options) {
        if check().is_ok() {
            spare::prepare(options);
        }
    }

    /// Loads and attaches. Returns when everything is being watched.
    pub fn attach(options: &Options) -> Result<Self, Unavailable> {
        let start = Instant::now();
        check()?;
        let mut loaded = match spare::take(options) {
            Some(spare) => spare,
            None => ProgramSet::load(options)?,
        };
        let cpu_before_s = sys::thread_cpu_s();
        let recorder = match &options.record {
            Some(path) => Some(Recorder::start(&mut loaded, path)?),
            None => None,
        };
        let listing = match &options.listing {
            Some(wanted) => Some(listing::Recorder::start(&mut loaded, wanted)?),
            None => None,
        };
        loaded.attach()?;
        mark_attached(&mut loaded);
        let cpu_s = std::mem::take(&mut loaded.cpu_s) + sys::thread_cpu_s() - cpu_before_s;
        Ok(Self {
            options: options.clone(),
            loaded,
            recorder,
            listing,
            roots: 0,
            root_threads: 0,
            attach_s: start.elapsed().as_secs_f64(),
            cpu_s,
        })
    }

    /// Follows the process `pid`, its threads and all that they start from now on. Meant for a child that is held
    /// before its first instruction: it has one thread then.
    pub fn follow(&mut self, pid: i32) -> Result<(), Unavailable> {
        let failed = |error| Unavailable::Io { what: format!("process {pid} cannot be followed"), error };
        let pidfd = sys::pidfd_open(pid).map_err(failed)?;
        // Before it can end; it is held, so nothing else counts at this moment.
        let alive = gather::health(&self.loaded, Health::Alive) + 1;
        set_health(&mut self.loaded, Health::Alive, alive);
        self.store_for_task(&pidfd).map_err(failed)?;
        self.roots += 1;
        if gather::health(&self.loaded, Health::MostAlive) < alive {
            set_health(&mut self.loaded, Health::MostAlive, alive);
        }
        Ok(())
    }

    /// Follows tasks that run already ([`Options::running`]) and all that they start from now on: `processes` by their
    /// first task, `threads` by their others. Returns how many are newly followed: a caller that lists the tasks again
    /// until that is 0 has missed none. One that has ended meanwhile is left out, and so is a thread that this kernel
    /// cannot name, which is followed from its next call on.
    pub fn adopt(&mut self, processes: &[i32], threads: &[i32]) -> Result<u64, Unavailable> {
        let leaders = self.adopt_all(processes)?;
        let others = self.adopt_all(threads)?;
        self.roots += leaders + others;
        self.root_threads += others;
        Ok(leaders + others)
    }

    fn adopt_all(&self, tasks: &[i32]) -> Result<u64, Unavailable> {
        let mut adopted = 0;
        for &task in tasks {
            let stored = sys::task_descriptor(task).and_then(|pidfd| self.store_for_task(&pidfd));
            match stored {
                Ok(()) => adopted += 1,
                Err(error) if is_harmless(&error) => (),
                Err(error) => {
                    let what = format!("task {task} cannot be followed");
                    return Err(Unavailable::Io { what, error });
                }
            }
        }
        Ok(adopted)
    }

    fn store_for_task(&self, pidfd: &OwnedFd) -> io::Result<()> {
        self.loaded.store_for_task(pidfd, &[0; TASK_WORDS])
    }

    /// Waits shortly for requests under way, detaches, and says what was seen. `paths` are those of files that were open
    /// before, by device and inode, for the listing.
    /// [`Seen::why`] has what could not be recorded.
    pub fn finish(mut self, paths: &BTreeMap<(String, u64), String>) -> Seen {
        let cpu_before_s = sys::thread_cpu_s();
        self.drain();
        // How many were alive at the beginning is not known exactly where they went on forking.
        let counts_alive = self.loaded.counts_alive() && !self.options.running;
        self.loaded.detach();
        let unended = gather::unended(&self.loaded);
        let recorder_cpu_s = self.end_recording(&unended);
        let own = unended.iter().filter(|request| request.is_own());
        let health = self.health(&own.map(|request| request.dev).collect::<Vec<_>>());
        let sessions = gather::sessions(&self.loaded);
        let files = gather::used_files(gather::files(&self.loaded), &sessions);
        let listing = self.end_listing(&files, paths);
        let (calls, call_errors) = gather::calls(&self.loaded);
        let most_alive = counts_alive.then(|| gather::health(&self.loaded, Health::MostAlive));
        let mut seen = Seen {
            layers: self.loaded.layers.clone(),
            why: self.loaded.why.join("; "),
            kernel: kernel(),
            processes: self.roots + gather::health(&self.loaded, Health::Processes),
            threads: self.root_threads + gather::health(&self.loaded, Health::Threads),
            most_alive,
            calls,
            call_errors,
            operations: gather::operations(&self.loaded),
            outer_intervals: gather::outer_intervals(&self.loaded),
            explained: gather::explained(&self.loaded),
            files,
            sessions,
            programs: programs::taken_from(&mut self.loaded),
            flags_followed: self.loaded.layers.contains(&"syscalls"),
            syncs_followed: self.loaded.layers.contains(&"syscalls"),
            block: gather::block(&self.loaded),
            health,
            cost: BTreeMap::new(),
            listing,
            entry_exit: None,
        };
        // All that was seen has been read: nothing of these calls is in it.
        if !seen.explained.is_empty() {
            seen.entry_exit = entry_exit::measured(&mut self.loaded);
        }
        let cpu_s = self.cpu_s + recorder_cpu_s + sys::thread_cpu_s() - cpu_before_s;
        seen.cost.extend([("attach_s", self.attach_s), ("cpu_s", cpu_s)]);
        if counts_alive && gather::health(&self.loaded, Health::Alive) == 0 {
            spare::keep(self.options, self.loaded);
        }
        seen
    }

    /// Processor time of the recorder. A recording that could not be written is no reason to lose the rest.
    fn end_recording(&mut self, unended: &[Event]) -> f64 {
        let Some(recorder) = self.recorder.take() else {
            return 0.0;
        };
        recorder.finish(unended).unwrap_or_else(|why| {
            self.loaded.layers.retain(|&layer| layer != "record");
            self.loaded.why.push(why.to_string());
            0.0
        })
    }

    /// What was listed; a listing that could not be written is no reason to lose the rest.
    fn end_listing(&mut self, files: &[File], paths: &BTreeMap<(String, u64), String>) -> Option<Listed> {
        let recorder = self.listing.take()?;
        let paths = Paths::new(files, gather::files_by_slot(&self.loaded), paths);
        recorder.finish(&paths).map_err(|why| self.loaded.why.push(why.to_string())).ok()
    }

    fn drain(&self) {
        let deadline = Instant::now() + DRAIN;
        while Instant::now() < deadline && gather::unended(&self.loaded).iter().any(Event::is_own) {
            thread::sleep(LOOK_EVERY);
        }
    }

    /// `unended`: device of each request of the process tree that did not end. Those that the device itself does not
    /// know any more ended unseen.
    fn health(&self, unended: &[u32]) -> BTreeMap<&'static str, u64> {
        let under_way = in_flight(unended);
        let of = |which| gather::health(&self.loaded, which);
        let missed = of(Health::Missed) + unended.len() as u64 - under_way;
        let mut health = BTreeMap::from([
            ("lost", of(Health::Lost)),
            ("missed", missed),
            ("unmatched", of(Health::Unmatched)),
            ("in_flight", under_way + gather::unended_calls(&self.loaded)),
            ("dropped", of(Health::Dropped)),
            ("untracked_files", of(Health::UntrackedFiles)),
            ("untracked_sessions", of(Health::UntrackedSessions)),
        ]);
        if self.options.listing.is_some() {
            health.insert("unlisted", of(Health::Unlisted));
        }
        if self.options.explain {
            health.insert("unexplained", of(Health::Unexplained));
        }
        if self.options.running {
            health.insert("in_flight_at_start", of(Health::Before));
        }
        health
    }
}

/// The task has ended, is followed already, or is a thread that this kernel cannot name.
fn is_harmless(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EEXIST | libc::EINVAL | libc::ENOENT))
}

/// How many of the unended requests (the device of each) their devices still work on.
fn in_flight(unended: &[u32]) -> u64 {
    let mut by_device: BTreeMap<u32, u64> = BTreeMap::new();
    for &dev in unended {
        *by_device.entry(dev).or_default() += 1;
    }
    by_device.iter().map(|(&dev, &number)| number.min(gather::device_in_flight(dev))).sum()
}

fn mark_attached(loaded: &mut ProgramSet) {
    set_health(loaded, Health::AttachedNs, sys::monotonic_ns());
}

fn set_health(loaded: &mut ProgramSet, which: Health, value: u64) {
    let map = loaded.ebpf.map_mut("health").expect("a map of the object");
    let mut health = Array::<_, u64>::try_from(map).expect("an array of words");
    health.set(which as u32, value, 0).expect("an index of the array");
}
