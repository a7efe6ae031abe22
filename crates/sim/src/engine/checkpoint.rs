//! A run that begins where another one stopped, or stops where another one will begin.
//!
//! A run stops when its last request is issued, before anything follows from that. All of it is saved
//! then: the drive, queues and timers, requests in flight, the buffer, and what was counted. So a
//! run that goes on has the results of a run without the break, bit for bit
//! (`tests/it/checkpoint.rs`). It always takes the event loop, whose results are those of the fast path.

use std::io::{self, Read, Write};

use ioassay_block::Source;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::controller::{ControllerEngine, Idle};
use super::elements::Elements;
use super::elements::parallel::ParallelElements;
use super::elements::serial::SerialElements;
use super::event_loop::Engine;
use super::inline_buffer::InlineBuffer;
use super::listener::NoListener;
use super::load::lookahead::Lookahead;
use super::run::load_of;
use super::tally::Tally;
use super::time_series::TimeSeries;
use super::timers::NEVER;
use super::{End, RunOptions, WriteBuffer};
use crate::Error;
use crate::drive::{Drive, Overlap};
use crate::state::{ensure, put, take};

/// What a drive has between two runs, beside its tables.
#[derive(Default)]
pub struct Settled {
    pub buffer: Option<WriteBuffer>,
    /// What its controller has, if it has one and this is not its first run.
    controller: Option<Idle>,
}

impl From<Option<WriteBuffer>> for Settled {
    fn from(buffer: Option<WriteBuffer>) -> Self {
        Self { buffer, controller: None }
    }
}

impl Settled {
    /// Whether tables and buffer are all there is.
    pub(crate) fn is_by_tables(&self) -> bool {
        self.controller.is_none()
    }
}

/// As [`run`](super::run()), from a state that was saved (`from`) and into one (`to`), or on a drive
/// that has `settled`.
pub fn run_between(
    drive: &mut Drive,
    source: &mut dyn Source,
    settled: Settled,
    options: &RunOptions,
    from: Option<&mut dyn Read>,
    to: Option<&mut dyn Write>,
) -> Result<(Tally, TimeSeries), Error> {
    options.check()?;
    if let Some(buffer) = &settled.buffer {
        buffer.mode.check(drive.spec())?;
    }
    let (lookahead, inline) = load_of(drive, source, settled.buffer, options);
    if let Some(controller) = drive.spec().controller.clone() {
        let mut engine = ControllerEngine::new(drive, controller, lookahead, options, NoListener);
        if let Some(idle) = settled.controller {
            engine.begin_with(idle);
        }
        return engine.run_between(from, to);
    }
    if drive.spec().overlap == Overlap::Off {
        let elements = SerialElements::new(drive.spec());
        return Engine::new(drive, lookahead, elements, inline, options, NoListener).run_between(from, to);
    }
    let elements = ParallelElements::new(drive.spec());
    Engine::new(drive, lookahead, elements, inline, options, NoListener).run_between(from, to)
}

/// Loads a drive and its buffer, and lets all requests that were in flight complete.
pub fn settle(drive: &mut Drive, buffer: Option<WriteBuffer>, from: &mut dyn Read) -> Result<Settled, Error> {
    let options = RunOptions::default();
    let mut nothing: &[ioassay_block::Request] = &[];
    let (lookahead, inline) = load_of(drive, &mut nothing, buffer, &options);
    if let Some(controller) = drive.spec().controller.clone() {
        let engine = ControllerEngine::new(drive, controller, lookahead, &options, NoListener);
        let (buffer, idle) = engine.settle(from)?;
        return Ok(Settled { buffer, controller: Some(idle) });
    }
    let buffer = if drive.spec().overlap == Overlap::Off {
        let elements = SerialElements::new(drive.spec());
        Engine::new(drive, lookahead, elements, inline, &options, NoListener).settle(from)
    } else {
        let elements = ParallelElements::new(drive.spec());
        Engine::new(drive, lookahead, elements, inline, &options, NoListener).settle(from)
    };
    buffer.map(Settled::from)
}

/// An engine whose run can stop when its last request is issued, and go on from there.
pub(super) trait Pausable: Sized {
    /// Writes all that the run consists of, when all its requests are issued.
    fn save(&self, output: &mut dyn Write) -> Result<(), Error>;
    /// Takes over what was written.
    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error>;
    fn refill(&mut self) -> Result<(), Error>;
    fn advance_to(&mut self, until_ps: u64) -> Result<(), Error>;
    /// Whether `advance_to` stops when the last request is issued.
    fn pause_at_end(&mut self, pauses: bool);
    /// Whether all requests are issued.
    fn is_exhausted(&self) -> bool;
    /// Whether the run is not over when it has paused.
    fn goes_on(&self) -> bool;
    /// Refuses a state whose requests are still in flight when no event is left: all its parts can agree
    /// and yet wait for something that never happens.
    fn check_end(&self) -> Result<(), Error>;
    fn finish(self) -> (Tally, TimeSeries);

    fn run_between(
        mut self,
        from: Option<&mut dyn Read>,
        to: Option<&mut dyn Write>,
    ) -> Result<(Tally, TimeSeries), Error> {
        let is_continued = from.is_some();
        if let Some(input) = from {
            self.load(input)?;
        }
        self.refill()?;
        if let Some(output) = to {
            self.pause_at_end(true);
            if !self.is_exhausted() {
                self.advance_to(NEVER)?;
            }
            self.save(output)?;
            self.pause_at_end(false);
        }
        if self.goes_on() {
            self.advance_to(NEVER)?;
            if is_continued && self.goes_on() {
                self.check_end()?;
            }
        }
        Ok(self.finish())
    }
}

/// Refuses a state that goes on behind its end.
pub(super) fn at_end(input: &mut dyn Read) -> Result<(), Error> {
    match io::copy(input, &mut io::sink()) {
        Ok(0) => Ok(()),
        Ok(more) => Err(Error::State(format!("{more} bytes too many"))),
        Err(error) => Err(Error::State(error.to_string())),
    }
}

impl<E> Engine<&mut Drive, E, Lookahead<'_>, NoListener>
where
    E: Elements + Serialize + DeserializeOwned,
{
    fn settle(mut self, input: &mut dyn Read) -> Result<Option<WriteBuffer>, Error> {
        self.load(input)?;
        self.advance_to(NEVER)?;
        self.check_end()?;
        Ok(match self.buffer {
            Some(buffer) => Some(buffer.into_buffer()),
            None => self.arrivals.into_buffer(),
        })
    }
}

impl<E> Pausable for Engine<&mut Drive, E, Lookahead<'_>, NoListener>
where
    E: Elements + Serialize + DeserializeOwned,
{
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        self.drive.save(output)?;
        self.arrivals.save(output)?;
        put(output, &self.now_ps)?;
        put(output, &self.elements)?;
        put(output, &self.channels)?;
        put(output, &self.host_queue)?;
        put(output, &self.requests)?;
        if let Some(buffer) = &self.buffer {
            buffer.save(output)?;
        }
        put(output, &self.tally)?;
        put(output, &self.series)?;
        put(output, &self.counters_before)
    }

    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        self.drive.load(input)?;
        self.arrivals.load(input)?;
        self.now_ps = take(input)?;
        self.elements = take(input)?;
        self.channels = take(input)?;
        self.host_queue = take(input)?;
        self.requests = take(input)?;
        if let Some(buffer) = &mut self.buffer {
            buffer.load(input)?;
        }
        self.tally = take(input)?;
        self.series = take(input)?;
        self.counters_before = take(input)?;
        at_end(input)
    }

    fn refill(&mut self) -> Result<(), Error> {
        Engine::refill(self)
    }

    fn advance_to(&mut self, until_ps: u64) -> Result<(), Error> {
        Engine::advance_to(self, until_ps)
    }

    fn pause_at_end(&mut self, pauses: bool) {
        self.pauses_at_end = pauses;
    }

    fn is_exhausted(&self) -> bool {
        Engine::is_exhausted(self)
    }

    fn goes_on(&self) -> bool {
        !self.tally.gave_up && (self.options.end == End::Drained || !self.is_exhausted())
    }

    fn check_end(&self) -> Result<(), Error> {
        ensure(self.requests.len() == 0, "a request in it never completes")
    }

    fn finish(self) -> (Tally, TimeSeries) {
        Engine::finish(self)
    }
}

/// The parts of an inline buffer beside its policy.
impl InlineBuffer {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        self.policy.save(output)?;
        put(output, &self.destager)?;
        put(output, &self.programming)?;
        put(output, &self.programming_pages)?;
        put(output, &self.waiting)?;
        put(output, &self.missing_slots)?;
        put(output, &self.evicted)
    }

    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        self.policy.load(input)?;
        self.destager = take(input)?;
        self.programming = take(input)?;
        self.programming_pages = take(input)?;
        self.waiting = take(input)?;
        self.missing_slots = take(input)?;
        self.evicted = take(input)?;
        Ok(())
    }
}
