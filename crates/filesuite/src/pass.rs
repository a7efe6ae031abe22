//! One pass over a file: opened, timed, closed. The interval begins after the open, an untimed `fsync` of the fresh
//! descriptor and a touch of the buffers, and ends before `fsync` and `close`, unless they are asked to belong to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use rustix::fs::{OFlags, SeekFrom};

use crate::buffer::Buffers;
use crate::cache;
use crate::calls::{Calls, Done, place};
use crate::clock::now_ns;
use crate::error::Fault;
use crate::matrix::Cell;
use crate::order::{shuffled, strided};
use crate::outcome::Outcome;
use crate::setup::{Cache, Msync, Setup};
use crate::suite::{Access, Kind, Opening};
use crate::sys::{self, Mapping, Stream};
use crate::test_file::TestFile;

/// Where workers wait for each other, so that their clocks start together.
#[derive(Default)]
pub struct Gate<'a> {
    barrier: Option<&'a Barrier>,
}

impl<'a> Gate<'a> {
    /// A gate that opens when all have come to the barrier.
    pub fn of(barrier: &'a Barrier) -> Self {
        Self { barrier: Some(barrier) }
    }

    /// Wait, the first time. A worker that fails earlier must come here as well.
    pub fn wait(&mut self) {
        if let Some(barrier) = self.barrier.take() {
            barrier.wait();
        }
    }
}

/// What the passes of one worker over one file share.
pub struct Bench<'a> {
    pub setup: &'a Setup,
    pub cell: Cell,
    pub own: TestFile,
    /// The user's side of the data.
    pub buffers: Buffers,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Run the pass that `outcome` names, and enter its result there.
    pub fn run(&mut self, outcome: &mut Outcome, gate: &mut Gate<'_>) {
        let opened = match outcome.pass.access {
            Access::Stdio => self.open_stream(outcome).map(|open| (open, Vec::new())),
            access => self.open_descriptor(outcome).map(|open| (open, self.order(access))),
        };
        let done = opened.and_then(|(open, order)| self.timed(open, &order, outcome, gate));
        outcome.fault = done.err();
        if let (None, Some(record)) = (&outcome.fault, self.buffers.differing()) {
            outcome.fault = Some(Fault::Differs { record });
        }
    }

    /// The calls between the two readings of the clock, and what comes after them.
    fn timed(
        &mut self,
        mut open: Open,
        order: &[u64],
        outcome: &mut Outcome,
        gate: &mut Gate<'_>,
    ) -> Result<(), Fault> {
        let (setup, access) = (self.setup, outcome.pass.access);
        self.settle(open.descriptor(), outcome);
        gate.wait();
        let mut calls = self.calls(outcome, order);
        outcome.start_ns = now_ns();
        let called = match &mut open {
            Open::Descriptor(file) => calls.through(access, file.as_fd()),
            Open::Mapped(mapping, _) => calls.mapped(access, mapping, setup.mapped.unwrap_or(Msync::Never)),
            Open::Stream(stream) => calls.streamed(stream),
        };
        let after = now_ns();
        record(&mut calls, outcome);
        called?;
        finish(setup, open, after, outcome)
    }

    fn open_descriptor(&mut self, outcome: &mut Outcome) -> Result<Open, Fault> {
        let setup = self.setup;
        outcome.direct = setup.direct;
        outcome.sync = setup.sync && outcome.kind == Kind::Write;
        outcome.mapped = setup.mapped.is_some();
        let file = self.open(outcome, true)?;
        let mapping = self.mapping(file.as_fd(), outcome)?;
        if setup.workers == 0 && has_fresh_sync(outcome) {
            rustix::fs::fsync(&file).map_err(|errno| Fault::step("fsync", errno, outcome.direct))?;
        }
        self.cached(file.as_fd(), outcome)?;
        if outcome.primed {
            self.prime(file.as_fd(), outcome.direct)?;
        }
        if outcome.pass.access == Access::Backward && mapping.is_none() {
            seek(file.as_fd(), self.cell.bytes() - self.cell.record_bytes)?;
        }
        Ok(match mapping {
            None => Open::Descriptor(file),
            Some(mapping) => Open::Mapped(mapping, file),
        })
    }

    /// The file's mapping, where that is asked for. Before it is written, the file gets its size by its last record.
    fn mapping(&mut self, file: BorrowedFd<'_>, outcome: &Outcome) -> Result<Option<Mapping>, Fault> {
        if self.setup.mapped.is_none() {
            return Ok(None);
        }
        let failed = |errno| Fault::step("map the file", errno, false);
        let shuffled = outcome.pass.access == Access::Shuffled;
        if outcome.kind == Kind::Write && !shuffled {
            let last = self.cell.records() - 1;
            seek(file, last * self.cell.record_bytes)?;
            let moved = rustix::io::write(file, self.buffers.outgoing(last)).map_err(failed)?;
            if moved as u64 != self.cell.record_bytes {
                return Err(failed(rustix::io::Errno::NOSPC));
            }
            seek(file, 0)?;
        }
        let writable = outcome.kind == Kind::Write || shuffled;
        Mapping::of(file, self.cell.bytes(), writable).map(Some).map_err(failed)
    }

    fn open_stream(&mut self, outcome: &Outcome) -> Result<Open, Fault> {
        let file = self.open(outcome, false)?;
        let size = self.cell.record_bytes as usize;
        let stream = Stream::over(file, size, outcome.kind).map_err(|errno| Fault::step("fdopen", errno, false))?;
        if outcome.kind == Kind::Write {
            rustix::fs::fsync(stream.descriptor()).map_err(|errno| Fault::step("fsync", errno, false))?;
        } else {
            self.settle_stream(outcome)?;
        }
        Ok(Open::Stream(stream))
    }

    /// A second descriptor of the file that a stream reads, synced and closed again: as IOzone does.
    fn settle_stream(&mut self, outcome: &Outcome) -> Result<(), Fault> {
        let failed = |errno| Fault::step("fsync of a second descriptor", errno, false);
        let second = self.own.open(Opening::Existing, OFlags::RDONLY).map_err(failed)?;
        rustix::fs::fsync(&second).map_err(failed)?;
        self.cached(second.as_fd(), outcome)
    }

    fn open(&mut self, outcome: &Outcome, with_flags: bool) -> Result<OwnedFd, Fault> {
        let reads = outcome.kind == Kind::Read && outcome.pass.access != Access::Shuffled;
        let mut flags = if reads { OFlags::RDONLY } else { OFlags::RDWR };
        flags.set(OFlags::DIRECT, with_flags && outcome.direct);
        flags.set(OFlags::SYNC, with_flags && outcome.sync);
        let opened = self.own.open(outcome.pass.opening, flags);
        opened.map_err(|errno| Fault::step("open", errno, outcome.direct))
    }

    fn cached(&mut self, file: BorrowedFd<'_>, outcome: &Outcome) -> Result<(), Fault> {
        if outcome.kind == Kind::Read {
            cache::ready(self.setup.cache, file, &mut self.own, self.cell.bytes())?;
        }
        Ok(())
    }

    /// Read one record, and go back to the beginning.
    fn prime(&mut self, file: BorrowedFd<'_>, direct: bool) -> Result<(), Fault> {
        let primed = rustix::io::read(file, self.buffers.incoming());
        primed.map_err(|errno| Fault::step("the priming read", errno, direct))?;
        seek(file, 0)
    }

    /// The last thing before the clock: what the cache holds, and buffers that are in memory.
    fn settle(&mut self, file: BorrowedFd<'_>, outcome: &mut Outcome) {
        if outcome.kind == Kind::Read || self.setup.cache != Cache::Leave {
            outcome.resident_share = cache::resident_share(file, self.cell.bytes());
        }
        self.buffers.touch();
    }

    fn order(&self, access: Access) -> Vec<u64> {
        let (records, setup) = (self.cell.records(), self.setup);
        match access {
            Access::Shuffled => shuffled(records, &setup.order_key, setup.shuffle),
            Access::Strided => strided(records, setup.stride),
            _ => Vec::new(),
        }
    }

    fn calls<'c>(&'c mut self, outcome: &Outcome, order: &'c [u64]) -> Calls<'c> {
        let (setup, records) = (self.setup, self.cell.records() as usize);
        Calls {
            direct: outcome.direct,
            jitter: setup.jitter && outcome.kind == Kind::Read,
            latencies_ns: setup.latencies.then(|| Vec::with_capacity(records)),
            ..self.plain_calls(outcome.kind, order)
        }
    }

    /// Calls without options.
    pub fn plain_calls<'c>(&'c mut self, kind: Kind, order: &'c [u64]) -> Calls<'c> {
        Calls {
            cell: self.cell,
            kind,
            order,
            buffers: &mut self.buffers,
            stop: self.stop,
            direct: false,
            jitter: false,
            latencies_ns: None,
            done: Done::default(),
        }
    }
}

/// Whether a fresh descriptor is synced: as IOzone does, not before random calls and not before `pread`.
fn has_fresh_sync(outcome: &Outcome) -> bool {
    match outcome.pass.access {
        Access::Shuffled => false,
        Access::Positioned | Access::Vectored => outcome.kind == Kind::Write,
        _ => true,
    }
}

/// What the calls of a pass did.
fn record(calls: &mut Calls<'_>, outcome: &mut Outcome) {
    outcome.done = calls.done;
    outcome.latencies_ns = calls.latencies_ns.take().unwrap_or_default();
    let (access, cell) = (outcome.pass.access, calls.cell);
    let offset = |number| place(access, number, cell.records(), calls.order) * cell.record_bytes;
    outcome.offsets = (0..outcome.latencies_ns.len() as u64).map(offset).collect();
}

fn seek(file: BorrowedFd<'_>, place: u64) -> Result<(), Fault> {
    match rustix::fs::seek(file, SeekFrom::Start(place)) {
        Ok(_) => Ok(()),
        Err(errno) => Err(Fault::step("lseek", errno, false)),
    }
}

/// A file as a pass holds it.
enum Open {
    Descriptor(OwnedFd),
    Mapped(Mapping, OwnedFd),
    Stream(Stream),
}

impl Open {
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Descriptor(file) | Self::Mapped(_, file) => file.as_fd(),
            Self::Stream(stream) => stream.descriptor(),
        }
    }

    fn sync(&mut self) -> Result<(), Fault> {
        let synced = match self {
            Self::Descriptor(file) => rustix::fs::fsync(file),
            Self::Mapped(mapping, _) => mapping.sync_all(),
            Self::Stream(stream) => {
                stream.flush().map_err(|errno| Fault::step("fflush", errno, false))?;
                rustix::fs::fsync(stream.descriptor())
            }
        };
        synced.map_err(|errno| Fault::step("fsync", errno, false))
    }

    fn close(self) -> Result<(), Fault> {
        let closed = match self {
            Self::Descriptor(file) => sys::close(file),
            Self::Mapped(mapping, file) => mapping.unmap().and_then(|()| sys::close(file)),
            Self::Stream(stream) => stream.close(),
        };
        closed.map_err(|errno| Fault::step("close", errno, false))
    }
}

/// `fsync` (of a mapping `msync`) and `close`, inside the interval or after it. With `close` inside and `fsync` not, there is no
/// `fsync` at all: dirty pages stay for the next pass, as with IOzone's -c without -e.
fn finish(setup: &Setup, mut open: Open, after: u64, outcome: &mut Outcome) -> Result<(), Fault> {
    (outcome.fsync_included, outcome.close_included) = (setup.fsync, setup.close);
    outcome.end_ns = after;
    if setup.fsync {
        open.sync()?;
        outcome.end_ns = now_ns();
        outcome.fsync_ns = Some(outcome.end_ns - after);
    }
    if setup.close {
        let before = outcome.end_ns;
        open.close()?;
        outcome.end_ns = now_ns();
        outcome.close_ns = Some(outcome.end_ns - before);
        return Ok(());
    }
    let before = now_ns();
    if !(setup.fsync && setup.plain) {
        open.sync()?;
    }
    let synced = now_ns();
    outcome.fsync_ns = outcome.fsync_ns.or(Some(synced - before));
    open.close()?;
    outcome.close_ns = Some(now_ns() - synced);
    Ok(())
}
