//! The loop that issues requests and takes completions. It neither allocates nor reads a file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ioassay_block::{Kind, Request, Source};
use serde::Serialize;

use crate::Error;
use crate::census::{Census, Gate};
use crate::clock::{now_ns, thread_cpu_ns};
use crate::kernel::{COMPLETIONS, Memory, Op, Place, Ring, RingFacts, discard};
use crate::setup::{Pace, Setup};
use crate::slots::Slots;
use crate::supply::{Next, Supply};
use crate::tally::{Direction, Failures, Second, Summary, Tally};
use crate::target::{Bounds, Target, Trimming};

/// Requests that are handed to the kernel by one call, where none waits for its time.
const BATCH: u32 = 16;
/// So late, a request is issued together with those behind it: catching up matters more than when exactly.
const BACKLOG_NS: u64 = 100_000;
/// So near to the next due time no completion is taken: that costs about as long.
const GUARD_NS: u64 = 3_000;
/// From the beginning of the loop to the first due time.
const LEAD_NS: u64 = 1_000_000;
/// Between two looks at whether the user wants to stop, while nothing else happens.
const PATIENCE_NS: u64 = 20_000_000;
/// Reads that are outstanding begin at so many different places of their memory, as far as it goes.
const READ_STRIDE: usize = 64 << 10;
/// While the trace is not read as far as it is issued.
const STARVED_NS: u64 = 100_000;

/// What others may see of a replay while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    pub issued: AtomicU64,
    pub completed: AtomicU64,
    /// Of completed requests, errors included.
    pub bytes: AtomicU64,
    pub errors: AtomicU64,
    pub late: AtomicU64,
    /// Due time of the last request that was issued, since that of the first.
    pub trace_ns: AtomicU64,
}

/// Why a replay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// At the end of the trace.
    Trace,
    /// After the duration that was wanted.
    Duration,
    /// The user wanted to stop.
    Interrupted,
    /// At a request that could not be; see `reason`.
    Failed,
}

/// How often the next request could not be issued, and why: each is a cause of lateness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Waits {
    /// As many were outstanding as `depth` allows.
    pub depth: u64,
    /// The data of those outstanding took all memory of `buffer_bytes`.
    pub buffers: u64,
    /// It depends on one that was outstanding.
    pub order: u64,
    /// The trace had not been read so far.
    pub trace: u64,
}

/// What a replay gave. Times are of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    pub ended: Ended,
    pub reason: Option<String>,
    /// First issue and last completion.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Issued.
    pub requests: u64,
    pub read: Direction,
    pub write: Direction,
    pub trim: Direction,
    pub sync: Direction,
    pub errors: u64,
    pub failures: Vec<Failures>,
    /// From due time to issue, of all requests.
    pub lateness: Summary,
    /// Requests that were issued more than [`LATE_NS`](crate::LATE_NS) after their due time.
    pub late: u64,
    pub drift_ppm: Option<f64>,
    pub waits: Waits,
    /// Requests whose time in the trace is before that of the one before them; they were due with it.
    pub times_back: u64,
    pub most_outstanding: u32,
    /// From the first due time to the last.
    pub span_ns: u64,
    /// Of the thread that issues.
    pub cpu_ns: u64,
    /// How long before a due time that thread stops sleeping, and looks at the clock without pause.
    pub spin_ns: u64,
    pub ring: RingFacts,
    pub bounds: Bounds,
    pub series: Vec<Second>,
}

/// Replays a trace as `setup` says, in this thread and one that reads the trace. `known` is what a [`survey`] of the
/// same trace has found: a target on which nothing writes is then opened to read.
///
/// Once `stop` is set nothing more is issued, and what is outstanding is waited for. An error means that nothing was
/// issued; what goes wrong later is in the outcome.
///
/// [`survey`]: crate::survey
pub fn replay(
    source: Box<dyn Source + Send>,
    known: Option<&Census>,
    setup: &Setup,
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    setup.check()?;
    let target = Target::open(setup, known.is_none_or(|known| known.writes > 0))?;
    let memory = |seed| {
        let made = Memory::filled(setup.buffer_bytes as usize, seed);
        made.map_err(|errno| Error::System { path: "memory".into(), step: "map it for data", errno, advice: "" })
    };
    let (reads, writes) = (memory(None)?, memory(Some(setup.seed))?);
    let ring = Ring::new(&COMPLETIONS, target.file.as_ref(), setup.depth(), BATCH, setup.fixed, reads, writes)?;
    let gate = Gate::new(target.bounds, setup.buffer_bytes);
    let supply = Supply::of(source, gate, || stop.load(Ordering::Relaxed))?;
    let mut engine = Engine {
        setup,
        slots: Slots::new(setup.depth(), setup.buffer_bytes as usize),
        target,
        ring,
        supply,
        tally: Tally::new(),
        progress,
        stop,
        staged: None,
        counts: Counts::default(),
        start_ns: 0,
        first_at_ns: None,
        last_due_ns: 0,
        spin_ns: 0,
    };
    let begin_cpu_ns = thread_cpu_ns();
    let done = engine.run();
    // Whatever happened, the kernel uses the memory until all is done.
    let drained = engine.drain();
    engine.outcome(done.and_then(|ended| drained.map(|()| ended)), thread_cpu_ns() - begin_cpu_ns)
}

#[derive(Default)]
struct Counts {
    issued: u64,
    taken: u64,
    completed: u64,
    bytes: u64,
    waits: Waits,
    /// The last request that is counted in `waits`.
    held: u64,
    times_back: u64,
    most_outstanding: u32,
    begin_ns: u64,
    end_ns: u64,
}

struct Engine<'a> {
    setup: &'a Setup,
    target: Target,
    ring: Ring,
    slots: Slots,
    supply: Supply,
    tally: Tally,
    progress: &'a Progress,
    stop: &'a AtomicBool,
    /// The next request, all ready but for its time.
    staged: Option<Staged>,
    counts: Counts,
    /// When the first request is due.
    start_ns: u64,
    first_at_ns: Option<u64>,
    last_due_ns: u64,
    spin_ns: u64,
}

#[derive(Clone, Copy)]
struct Staged {
    slot: u32,
    due_ns: u64,
    place: Place,
}

/// Whether the next request can be issued, as far as it is up to us.
enum Stage {
    Ready(Staged),
    /// A completion has to come first.
    Full,
    Starved,
    Ended,
}

impl Engine<'_> {
    fn run(&mut self) -> Result<Ended, Error> {
        if self.setup.pace == Pace::Timed {
            self.spin_ns = self.calibrated()?;
        }
        self.start_ns = now_ns() + LEAD_NS;
        match self.setup.pace {
            Pace::Timed => self.timed(),
            Pace::Fast => self.fast(),
        }
    }

    /// How much later than wanted a sleep ends, mostly: so long before a due time there is no sleeping.
    fn calibrated(&mut self) -> Result<u64, Error> {
        const SLEEP_NS: u64 = 100_000;
        let mut over_ns = [0; 20];
        for over_ns in &mut over_ns {
            let begin_ns = now_ns();
            self.ring.wait(SLEEP_NS)?;
            *over_ns = (now_ns() - begin_ns).saturating_sub(SLEEP_NS);
        }
        over_ns.sort_unstable();
        // Where more is needed the machine is busy, and no margin is enough.
        Ok((over_ns[17] * 3 / 2).clamp(20_000, 500_000))
    }

    fn timed(&mut self) -> Result<Ended, Error> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Ended::Interrupted);
            }
            match self.stage() {
                Stage::Ready(staged) => {
                    if self.is_over(staged.due_ns) {
                        return Ok(Ended::Duration);
                    }
                    let now_ns = now_ns();
                    match staged.due_ns.checked_sub(now_ns).filter(|&left_ns| left_ns > 0) {
                        None => self.issue_due(staged, now_ns)?,
                        Some(left_ns) if left_ns > self.spin_ns + GUARD_NS => {
                            self.ring.wait((left_ns - self.spin_ns).min(PATIENCE_NS))?;
                            self.reap()?;
                        }
                        Some(left_ns) if left_ns > GUARD_NS && self.ring.has_completions() => self.reap()?,
                        Some(_) => std::hint::spin_loop(),
                    }
                }
                Stage::Full => self.wait(PATIENCE_NS)?,
                Stage::Starved => self.starve()?,
                Stage::Ended => return Ok(self.at_end()),
            }
        }
    }

    /// Issues what is due: one request, so that its time is exact, or those behind one that is late anyway.
    fn issue_due(&mut self, first: Staged, at_ns: u64) -> Result<(), Error> {
        let most = if at_ns - first.due_ns > BACKLOG_NS { BATCH } else { 1 };
        let mut slots = [0; BATCH as usize];
        let mut count = 0;
        let mut next = first;
        loop {
            slots[count] = next.slot;
            count += 1;
            self.push(next)?;
            if count == most as usize {
                break;
            }
            match self.stage() {
                Stage::Ready(staged) if staged.due_ns <= at_ns && !self.is_over(staged.due_ns) => next = staged,
                _ => break,
            }
        }
        self.submit(&slots[..count])?;
        self.reap()
    }

    fn fast(&mut self) -> Result<Ended, Error> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Ended::Interrupted);
            }
            if self.is_over(now_ns()) {
                return Ok(Ended::Duration);
            }
            let mut slots = [0; BATCH as usize];
            let mut count = 0;
            let held = loop {
                if count == slots.len() {
                    break None;
                }
                match self.stage() {
                    Stage::Ready(staged) => {
                        let request = self.slots.get(staged.slot).request;
                        if self.slots.depends(&request) {
                            self.hold(|waits| &mut waits.order);
                            break Some(Stage::Full);
                        }
                        slots[count] = staged.slot;
                        count += 1;
                        self.push(staged)?;
                    }
                    other => break Some(other),
                }
            };
            if count > 0 {
                self.submit(&slots[..count])?;
                self.reap()?;
            } else {
                match held {
                    Some(Stage::Full) => self.wait(PATIENCE_NS)?,
                    Some(Stage::Starved) => self.starve()?,
                    Some(Stage::Ended) => return Ok(self.at_end()),
                    Some(Stage::Ready(_)) | None => {}
                }
            }
        }
    }

    fn is_over(&self, at_ns: u64) -> bool {
        self.setup.duration_ns.is_some_and(|duration_ns| at_ns.saturating_sub(self.start_ns) >= duration_ns)
    }

    fn at_end(&self) -> Ended {
        if self.supply.failure.is_some() { Ended::Failed } else { Ended::Trace }
    }

    /// Makes the next request ready: its slot, its data.
    #[inline]
    fn stage(&mut self) -> Stage {
        if self.staged.is_none() {
            match self.supply.peek() {
                Next::Request(request) => self.staged = self.staged(&request),
                Next::Starved => return Stage::Starved,
                Next::Ended => return Stage::Ended,
            }
        }
        let Some(staged) = self.staged else {
            self.hold(|waits| &mut waits.buffers);
            return Stage::Full;
        };
        if self.slots.outstanding() == self.setup.depth() {
            self.hold(|waits| &mut waits.depth);
            return Stage::Full;
        }
        Stage::Ready(staged)
    }

    /// The next request has to wait: counted once, by what it had to wait for first.
    #[cold]
    fn hold(&mut self, cause: fn(&mut Waits) -> &mut u64) {
        let next = self.counts.taken + u64::from(self.staged.is_none());
        if self.counts.held != next {
            self.counts.held = next;
            *cause(&mut self.counts.waits) += 1;
        }
    }

    fn staged(&mut self, request: &Request) -> Option<Staged> {
        let since_ns = request.at_ns.saturating_sub(self.first_at_ns.unwrap_or(request.at_ns));
        let due_ns = self.start_ns.saturating_add(since_ns).max(self.last_due_ns);
        let (slot, place) = self.slots.take(request, self.counts.taken + 1, due_ns)?;
        self.first_at_ns.get_or_insert(request.at_ns);
        self.counts.taken += 1;
        self.counts.times_back += u64::from(self.start_ns.saturating_add(since_ns) < due_ns);
        self.last_due_ns = due_ns;
        if request.kind == Kind::Write {
            self.ring.mark(place, self.setup.seed, self.counts.taken, request.offset_bytes);
        }
        self.supply.advance();
        Some(Staged { slot, due_ns, place })
    }

    /// Puts the staged request into the ring. A trim that waits is done here.
    #[inline]
    fn push(&mut self, staged: Staged) -> Result<(), Error> {
        self.staged = None;
        self.slots.issue(staged.slot);
        let Request { kind, offset_bytes, length_bytes, .. } = self.slots.get(staged.slot).request;
        let op = match (kind, self.target.bounds.trimming) {
            // The call is made once this is issued.
            (_, Trimming::Nothing) | (Kind::Trim, Trimming::Ioctl) => Op::Nothing,
            (Kind::Read, _) => Op::Read { to: self.read_place(staged.slot, length_bytes as usize), offset_bytes },
            (Kind::Write, _) => Op::Write { from: staged.place, offset_bytes },
            (Kind::Flush, _) => Op::Sync,
            (Kind::Trim, Trimming::Punch) => Op::Punch { offset_bytes, length_bytes },
            (Kind::Trim, Trimming::Discard) => Op::Discard { offset_bytes, length_bytes },
        };
        self.ring.push(staged.slot, op)
    }

    /// Reads may share memory, as nothing looks at what they gave: each slot begins at another place, as long as that
    /// is possible.
    fn read_place(&self, slot: u32, length: usize) -> Place {
        let places = (self.setup.buffer_bytes as usize - length) / READ_STRIDE + 1;
        Place { start: slot as usize % places * READ_STRIDE, length }
    }

    /// Hands what was pushed to the kernel, and notes when.
    #[inline]
    fn submit(&mut self, pushed: &[u32]) -> Result<(), Error> {
        let issue_ns = now_ns();
        for &slot in pushed {
            self.slots.get(slot).issue_ns = issue_ns;
        }
        self.ring.submit()?;
        for &slot in pushed {
            self.note_issue(slot, issue_ns);
        }
        Ok(())
    }

    #[inline]
    fn note_issue(&mut self, slot: u32, issue_ns: u64) {
        if self.counts.issued == 0 {
            self.counts.begin_ns = issue_ns;
        }
        self.counts.issued += 1;
        let held = self.slots.get(slot);
        if self.setup.pace == Pace::Fast {
            held.due_ns = issue_ns;
        }
        let (request, due_ns) = (held.request, held.due_ns);
        let since_ns = due_ns.saturating_sub(self.start_ns);
        self.tally.issue(since_ns, issue_ns.saturating_sub(due_ns));
        self.counts.most_outstanding = self.counts.most_outstanding.max(self.slots.outstanding());
        self.progress.issued.store(self.counts.issued, Ordering::Relaxed);
        self.progress.late.store(self.tally.late, Ordering::Relaxed);
        self.progress.trace_ns.store(since_ns, Ordering::Relaxed);
        if request.kind == Kind::Trim && self.target.bounds.trimming == Trimming::Ioctl {
            if let Some(file) = &self.target.file {
                self.slots.get(slot).result = discard(file, request.offset_bytes, request.length_bytes);
            }
        }
    }

    fn wait(&mut self, most_ns: u64) -> Result<(), Error> {
        self.ring.wait(most_ns)?;
        self.reap()
    }

    fn starve(&mut self) -> Result<(), Error> {
        self.hold(|waits| &mut waits.trace);
        self.wait(STARVED_NS)
    }

    #[inline]
    fn reap(&mut self) -> Result<(), Error> {
        let Self { ring, slots, tally, counts, progress, start_ns, target, .. } = self;
        let does_nothing = target.file.is_none();
        let mut now = 0;
        let before = counts.completed;
        ring.reap(|slot, result| {
            if now == 0 {
                now = now_ns();
            }
            let done = slots.complete(slot);
            counts.completed += 1;
            counts.bytes += done.request.length_bytes;
            let result = match done.result {
                _ if does_nothing => i64::MAX,
                0 => result.into(),
                of_call => of_call.into(),
            };
            tally.complete(&done, result, now, now.saturating_sub(*start_ns));
        })?;
        if counts.completed > before {
            counts.end_ns = now;
            progress.completed.store(counts.completed, Ordering::Relaxed);
            progress.bytes.store(counts.bytes, Ordering::Relaxed);
            progress.errors.store(tally.errors, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits for all that is outstanding.
    fn drain(&mut self) -> Result<(), Error> {
        while self.slots.outstanding() > 0 {
            self.wait(PATIENCE_NS)?;
        }
        Ok(())
    }

    fn outcome(mut self, done: Result<Ended, Error>, cpu_ns: u64) -> Result<Outcome, Error> {
        let (ended, reason) = match done {
            Ok(Ended::Failed) => (Ended::Failed, self.supply.failure.take()),
            Ok(ended) => (ended, None),
            Err(error) => (Ended::Failed, Some(error)),
        };
        match reason {
            Some(error) if self.counts.issued == 0 => Err(error),
            reason => {
                let (counts, tally) = (&self.counts, &self.tally);
                Ok(Outcome {
                    ended,
                    reason: reason.map(|error| error.to_string()),
                    begin_ns: counts.begin_ns,
                    end_ns: counts.end_ns,
                    requests: counts.issued,
                    read: tally.direction(Kind::Read),
                    write: tally.direction(Kind::Write),
                    trim: tally.direction(Kind::Trim),
                    sync: tally.direction(Kind::Flush),
                    errors: tally.errors,
                    failures: tally.failures(),
                    lateness: tally.lateness(),
                    late: tally.late,
                    drift_ppm: tally.drift_ppm(),
                    waits: counts.waits,
                    times_back: counts.times_back,
                    most_outstanding: counts.most_outstanding,
                    span_ns: self.last_due_ns.saturating_sub(self.start_ns),
                    cpu_ns,
                    spin_ns: self.spin_ns,
                    ring: self.ring.facts,
                    bounds: self.target.bounds,
                    series: tally.series(),
                })
            }
        }
    }
}
