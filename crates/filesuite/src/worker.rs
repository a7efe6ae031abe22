//! One worker with its file: a pass, and what has to be before and after it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::buffer::Buffers;
use crate::calls::Done;
use crate::error::Fault;
use crate::outcome::{Checked, Outcome};
use crate::pass::{Bench, Gate};
use crate::remount::Remount;
use crate::setup::{Check, Setup};
use crate::suite::{Kind, Opening, Pass, RANDOM_MIX, Test};
use crate::test_file::{TestFile, room_bytes};
use crate::{Cell, Error, affinity};

/// The position of a pass in a run.
#[derive(Clone, Copy)]
pub struct Position {
    pub cell: Cell,
    pub repetition: u32,
    pub worker: u32,
    /// Of how many; 0: alone.
    pub workers: u32,
    /// What another left at the path may be deleted: only before anything was measured.
    pub overwrite: bool,
    /// The file stays: only that of the last position.
    pub keep: bool,
}

/// What is dirty goes to the disks first, so that it is not written while the clock runs. Twice, as IOzone.
pub fn flush_all(setup: &Setup) {
    if !setup.plain {
        rustix::fs::sync();
        rustix::fs::sync();
    }
}

/// One worker with its file, over all passes of a cell.
pub struct Worker<'a> {
    bench: Bench<'a>,
    at: Position,
    /// The file holds all that it should.
    whole: bool,
    /// Why there is no file to work on.
    broken: Option<String>,
}

impl<'a> Worker<'a> {
    pub fn new(setup: &'a Setup, at: Position, path: &Path, stop: &'a AtomicBool) -> Result<Self, Error> {
        let whole = setup.keep && !setup.writes() && path.symlink_metadata().is_ok();
        let own = if whole {
            TestFile::adopt(path, at.cell.bytes())?
        } else {
            // What an earlier cell or repetition left is gone already: only the first can meet another's file.
            TestFile::claim(path, at.overwrite)?
        };
        let record_bytes = at.cell.record_bytes as usize;
        let buffers = Buffers::new(setup.content, setup.check, setup.seed, record_bytes);
        let broken = if whole { None } else { without_room(&own, at.cell, at.workers.max(1).into()) };
        let bench = Bench { setup, cell: at.cell, own, buffers, stop };
        Ok(Self { bench, at, whole, broken })
    }

    /// Leave the file behind, if it is whole.
    pub fn keep(&mut self) {
        if self.whole {
            self.bench.own.keep();
        }
    }

    /// One pass, with all that has to be before and after it. The gate is gone through whatever happens.
    pub fn measure(&mut self, test: &'static Test, place: usize, gate: &mut Gate<'_>) -> Outcome {
        let pass = &test.passes[place];
        let mut outcome = self.blank(test, place, pass);
        if let Err(fault) = self.provide(pass, &mut outcome) {
            outcome.fault = Some(fault);
            gate.wait();
            return outcome;
        }
        self.bench.run(&mut outcome, gate);
        gate.wait();
        self.remember(pass, &outcome);
        if outcome.fault.is_none() && !self.bench.setup.plain && self.at.workers == 0 {
            self.repeat_silently(test, &mut outcome);
        }
        outcome
    }

    fn blank(&self, test: &'static Test, place: usize, pass: &'static Pass) -> Outcome {
        let mixed_writer = test.number == RANDOM_MIX && self.at.worker % 2 == 1;
        Outcome {
            test: test.number,
            place,
            pass,
            kind: if mixed_writer { Kind::Write } else { pass.kind },
            cell: self.at.cell,
            repetition: self.at.repetition,
            worker: self.at.worker,
            workers: self.at.workers,
            path: self.bench.own.path().to_owned(),
            done: Done::default(),
            start_ns: 0,
            end_ns: 0,
            fsync_ns: None,
            close_ns: None,
            fsync_included: false,
            close_included: false,
            direct: false,
            sync: false,
            mapped: false,
            primed: test.primed && !self.bench.setup.plain && self.at.workers == 0,
            silent_passes: 0,
            prepared: false,
            resident_share: None,
            latencies_ns: Vec::new(),
            offsets: Vec::new(),
            fault: None,
        }
    }

    /// The file that the pass wants: whole, where it works on one that is there.
    fn provide(&mut self, pass: &Pass, outcome: &mut Outcome) -> Result<(), Fault> {
        if let Some(why) = &self.broken {
            return Err(Fault::NotRun(why.clone()));
        }
        affinity::pin(self.bench.setup.processor, self.at.worker)
            .map_err(|errno| Fault::step("bind to a processor", errno, false))?;
        if pass.opening == Opening::Existing && !self.whole {
            outcome.prepared = true;
            if let Err(fault) = self.lay_down() {
                self.broken = Some(format!("not run: the file could not be written: {fault}"));
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Write the whole file, untimed: as the first test would, but through the cache, and synced.
    fn lay_down(&mut self) -> Result<(), Fault> {
        let failed = |errno| Fault::step("write the file beforehand", errno, false);
        let flags = rustix::fs::OFlags::RDWR;
        let file = self.bench.own.open(Opening::MadeIfAbsent, flags).map_err(failed)?;
        let mut calls = self.bench.plain_calls(Kind::Write, &[]);
        calls.through(crate::Access::Sequential, std::os::fd::AsFd::as_fd(&file))?;
        rustix::fs::fsync(&file).map_err(failed)?;
        self.whole = true;
        Ok(())
    }

    /// What a pass that makes the file left of it.
    fn remember(&mut self, pass: &Pass, outcome: &Outcome) {
        if pass.opening == Opening::Existing {
            return;
        }
        self.whole = outcome.fault.is_none();
        match &outcome.fault {
            Some(Fault::Stopped) | None => {}
            Some(fault) => {
                self.bench.own.remove();
                let why = format!("not run: {} could not write the file: {fault}", pass.name);
                self.broken = Some(why);
            }
        }
    }

    fn repeat_silently(&mut self, test: &'static Test, outcome: &mut Outcome) {
        for _ in 0..test.silent_passes {
            let mut unseen = outcome.clone();
            self.bench.run(&mut unseen, &mut Gate::default());
            outcome.silent_passes += 1;
        }
    }

    pub fn remounted(&mut self, remount: &Remount) -> Result<(), Error> {
        remount.again()?;
        let path = self.bench.own.path().to_owned();
        let step = "find the file again after its filesystem was mounted again";
        self.bench.own.find_again().map_err(|errno| Error::System { path, step, errno })
    }

    /// Check the whole file once more, if that is asked for and there is one.
    pub fn checked(&mut self) -> Option<Checked> {
        let wanted = self.bench.setup.check == Check::After && self.whole;
        wanted.then(|| {
            let Position { cell, repetition, worker, .. } = self.at;
            let mut checked = Checked { cell, repetition, worker, bytes: 0, differing: 0, fault: None };
            checked.fault = self.look(&mut checked).err();
            checked
        })
    }

    fn look(&mut self, checked: &mut Checked) -> Result<(), Fault> {
        let failed = |errno| Fault::step("read the file to check it", errno, false);
        let flags = rustix::fs::OFlags::RDONLY;
        let file = self.bench.own.open(Opening::Existing, flags).map_err(failed)?;
        let size = self.at.cell.record_bytes;
        for record in 0..self.at.cell.records() {
            if self.bench.stop.load(Ordering::Relaxed) {
                return Err(Fault::Stopped);
            }
            let buffers = &mut self.bench.buffers;
            let moved = rustix::io::pread(&file, buffers.incoming(), record * size).map_err(failed)?;
            checked.bytes += moved as u64;
            checked.differing += u64::from(moved as u64 != size || !buffers.is_whole(record));
        }
        Ok(())
    }
}

/// Why a cell is not begun: its files would not leave enough free.
fn without_room(own: &TestFile, cell: Cell, files: u64) -> Option<String> {
    let wanted = cell.bytes().saturating_mul(files);
    match room_bytes(own.path()) {
        Ok(room) if wanted <= room => None,
        Ok(room) => Some(format!(
            "not run: {wanted} bytes are needed and the filesystem has room for {room}, a margin kept; \
             take a smaller file (-s, -g)"
        )),
        Err(errno) => Some(format!("not run: the free space cannot be seen: {}", crate::error::text_of(errno))),
    }
}
