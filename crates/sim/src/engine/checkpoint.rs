//! A run that begins where another one stopped, or stops where another one will begin.
//!
//! A run stops when its last request is issued, before anything follows from that. All of it is saved
//! then: the drive, queues and timers, requests in flight, the buffer, and what was counted. So a
//! run that goes on has the results of a run without the break, bit for bit
//! (`tests/checkpoint.rs`). It always takes the event loop, whose results are those of the fast path.

use std::io::{self, Read, Write};

use ioassay_block::Source;
use serde::Serialize;
use serde::de::DeserializeOwned;

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
use crate::state::{put, take};

/// As [`run`](super::run()), from a state that was saved (`from`) and into one (`to`).
///
/// # Errors
/// As `run`, and [`Error::State`].
pub fn run_between(
    drive: &mut Drive,
    source: &mut dyn Source,
    buffer: Option<WriteBuffer>,
    options: &RunOptions,
    from: Option<&mut dyn Read>,
    to: Option<&mut dyn Write>,
) -> Result<(Tally, TimeSeries), Error> {
    options.check()?;
    let (lookahead, inline) = load_of(drive, source, buffer, options);
    if drive.spec().overlap == Overlap::Off {
        let elements = SerialElements::new(drive.spec());
        return Engine::new(drive, lookahead, elements, inline, options, NoListener)
            .run_between(from, to);
    }
    let elements = ParallelElements::new(drive.spec());
    Engine::new(drive, lookahead, elements, inline, options, NoListener).run_between(from, to)
}

/// Loads a drive and its buffer, and lets all requests that were in flight complete.
///
/// # Errors
/// [`Error::State`], [`Error::WornOut`].
pub fn settle(
    drive: &mut Drive,
    buffer: Option<WriteBuffer>,
    from: &mut dyn Read,
) -> Result<Option<WriteBuffer>, Error> {
    let options = RunOptions::default();
    let mut nothing: &[ioassay_block::Request] = &[];
    let (lookahead, inline) = load_of(drive, &mut nothing, buffer, &options);
    if drive.spec().overlap == Overlap::Off {
        let elements = SerialElements::new(drive.spec());
        return Engine::new(drive, lookahead, elements, inline, &options, NoListener).settle(from);
    }
    let elements = ParallelElements::new(drive.spec());
    Engine::new(drive, lookahead, elements, inline, &options, NoListener).settle(from)
}

impl<E> Engine<&mut Drive, E, Lookahead<'_>, NoListener>
where
    E: Elements + Serialize + DeserializeOwned,
{
    fn run_between(
        mut self,
        from: Option<&mut dyn Read>,
        to: Option<&mut dyn Write>,
    ) -> Result<(Tally, TimeSeries), Error> {
        if let Some(input) = from {
            self.load(input)?;
        }
        self.refill()?;
        if let Some(output) = to {
            self.pauses_at_end = true;
            self.advance_to_end()?;
            self.save(output)?;
            self.pauses_at_end = false;
        }
        if !self.tally.gave_up && (self.options.end == End::Drained || !self.is_exhausted()) {
            self.advance_to(NEVER)?;
        }
        Ok(self.finish())
    }

    /// Handles all events up to the issue of the last request.
    fn advance_to_end(&mut self) -> Result<(), Error> {
        if self.is_exhausted() {
            return Ok(());
        }
        self.advance_to(NEVER)
    }

    fn settle(mut self, input: &mut dyn Read) -> Result<Option<WriteBuffer>, Error> {
        self.load(input)?;
        self.advance_to(NEVER)?;
        Ok(match self.buffer {
            Some(buffer) => Some(buffer.into_buffer()),
            None => self.arrivals.into_buffer(),
        })
    }

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
        match io::copy(input, &mut io::sink()) {
            Ok(0) => Ok(()),
            Ok(more) => Err(Error::State(format!("{more} bytes too many"))),
            Err(error) => Err(Error::State(error.to_string())),
        }
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
