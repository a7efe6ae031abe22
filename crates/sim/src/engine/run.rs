//! A run over a load: chooses the engine that fits it, and begins and ends where other runs do.
//!
//! A run that is saved stops when its last request is issued, before anything follows from that. All of it is saved
//! then: the drive, queues and timers, requests in flight, the buffer, and what was counted. So a run that goes on has
//! the results of a run without the break, bit for bit (`tests/it/checkpoint.rs`).

use std::io::{self, Read, Write};

use ioassay_block::{Request, Source};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::controller::{ControllerEngine, Remains};
use super::core::Engine;
use super::elements::Elements;
use super::elements::parallel::ParallelElements;
use super::elements::serial::SerialElements;
use super::event_log::NoListener;
use super::event_loop::ReferenceEngine;
use super::inline_buffer::InlineBuffer;
use super::load::arrivals::Arrivals;
use super::load::flows::{Flow, Flows};
use super::load::lookahead::Lookahead;
use super::load::reshaping_buffer::ReshapingBuffer;
use super::load::trace_input::{IssueMode, TraceInput};
use super::tally::{Latencies, Tally};
use super::time_series::TimeSeries;
use super::timers::NEVER;
use super::workers::{OneThread, Workers};
use super::write_steps::WriteSteps;
use super::write_stream::WriteStream;
use super::{BufferMode, End, RunOptions, WriteBuffer};
use crate::Error;
use crate::drive::{Drive, Overlap, Spec};
use crate::error::require;
use crate::state::Stored;

/// Runs a drive over a load. The drive keeps its state, so that runs may follow each other.
pub fn run(
    drive: &mut Drive,
    source: &mut dyn Source,
    buffer: Option<WriteBuffer>,
    options: &RunOptions,
) -> Result<(Tally, TimeSeries), Error> {
    run_with(drive, source, buffer, options, &OneThread)
}

/// As [`run`], with the same results, by several threads where elements do not depend on each other. Of a source that is
/// repeatable it may fail with [`Error::NeedsEvents`], and has then changed the drive.
pub fn run_with(
    drive: &mut Drive,
    source: &mut dyn Source,
    buffer: Option<WriteBuffer>,
    options: &RunOptions,
    workers: &dyn Workers,
) -> Result<(Tally, TimeSeries), Error> {
    options.check()?;
    if !is_write_stream(drive.spec(), source, buffer.as_ref(), options) {
        let Settled { buffer, .. } = begin(drive, &mut Some(Settled::from(buffer)))?;
        let (lookahead, inline) = load_of(drive.spec(), source, buffer, options);
        return between(&mut *engine(drive, lookahead, inline, None, options), Extras::default());
    }
    let is_repeatable = source.is_repeatable();
    let (lookahead, _) = load_of(drive.spec(), source, buffer, options);
    if options.window.is_some() {
        return WriteSteps::new(drive, lookahead, options).run();
    }
    WriteStream::new(drive, lookahead, options, workers, is_repeatable).run()
}

/// The state of a drive between two runs, besides its tables.
#[derive(Default)]
pub struct Settled {
    pub buffer: Option<WriteBuffer>,
    /// The state of its controller, if it has one and this is not its first run.
    controller: Option<Remains>,
}

/// What a run has in addition to its load.
#[derive(Default)]
pub struct Extras<'from, 'to, 'end> {
    /// A run that was saved, which goes on.
    pub from: Option<&'from mut dyn Read>,
    /// Where the run is saved.
    pub to: Option<&'to mut dyn Write>,
    /// Whether the latency of each request is kept ([`Tally::latencies`]).
    pub latencies: bool,
    /// Sees the drive at the end of the run, before it settles.
    pub at_end: Option<&'end mut dyn FnMut(&Drive)>,
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

    /// A copy, with an empty buffer of the same kind in which it is made.
    pub(crate) fn copy(&self, mut buffer: Option<WriteBuffer>) -> Result<Self, Error> {
        if let (Some(from), Some(to)) = (&self.buffer, &mut buffer) {
            let mut bytes = Vec::new();
            from.policy.save(&mut bytes)?;
            to.policy.load(&mut &bytes[..])?;
            to.destager.clone_from(&from.destager);
        }
        Ok(Self { buffer, controller: self.controller.clone() })
    }
}

/// As [`run`], from a state that was saved and into one, or on a drive that has `settled`, always event by event. Leaves
/// there how the drive settles behind it, and `None` behind a run that failed or was given up.
pub fn run_between(
    drive: &mut Drive,
    source: &mut dyn Source,
    settled: &mut Option<Settled>,
    options: &RunOptions,
    extras: Extras<'_, '_, '_>,
) -> Result<(Tally, TimeSeries), Error> {
    options.check()?;
    let Settled { buffer, controller } = begin(drive, settled)?;
    let (lookahead, inline) = load_of(drive.spec(), source, buffer, options);
    let mut engine = engine(drive, lookahead, inline, controller, options);
    let done = between(&mut *engine, extras)?;
    *settled = remaining(engine, &done.0);
    Ok(done)
}

/// How a drive settles behind a run; `None` where that was given up.
fn remaining<'a, A: Arrivals>(engine: Box<dyn LoadEngine<'a, A> + 'a>, tally: &Tally) -> Option<Settled> {
    if tally.gave_up { None } else { engine.settle().ok() }
}

/// All of a run, from a state that was saved and into one.
fn between<'a, A: Arrivals>(
    engine: &mut (dyn LoadEngine<'a, A> + 'a),
    extras: Extras<'_, '_, '_>,
) -> Result<(Tally, TimeSeries), Error> {
    if let Some(input) = extras.from {
        engine.load(input)?;
    }
    engine.core_mut().tally.latencies = extras.latencies.then(Latencies::default);
    engine.refill()?;
    if let Some(output) = extras.to {
        engine.core_mut().pauses_at_end = true;
        if !engine.core().is_exhausted() {
            engine.advance_to(NEVER)?;
        }
        engine.parts().into_iter().try_for_each(|part| part.save(output))?;
        engine.core_mut().pauses_at_end = false;
    }
    if engine.core().goes_on() {
        engine.advance_to(NEVER)?;
    }
    let buffered_pages = engine.buffered_pages();
    let done = engine.core_mut().finish(buffered_pages);
    if let Some(at_end) = extras.at_end {
        at_end(engine.core().drive);
    }
    Ok(done)
}

/// As [`run_between`], of several loads at once; the last result is what each flow had.
pub fn run_flows(
    drive: &mut Drive,
    flows: Vec<Flow<'_>>,
    settled: &mut Option<Settled>,
    options: &RunOptions,
    extras: Extras<'_, '_, '_>,
) -> Result<(Tally, TimeSeries, Vec<Tally>), Error> {
    options.check()?;
    Flow::check(&flows, options)?;
    let Settled { buffer, controller } = begin(drive, settled)?;
    // A buffer in front of the drive merges the pages of flows.
    let is_inline = buffer.as_ref().is_none_or(|buffer| buffer.mode == BufferMode::Inline);
    require(is_inline, "mode", "reshape", || "inline, or no buffer, with several flows")?;
    let flows = Flows::new(flows, drive.spec(), options.unaligned);
    let mut engine = engine(drive, flows, buffer.map(InlineBuffer::new), controller, options);
    let (tally, series) = between(&mut *engine, extras)?;
    let tallies = engine.core_mut().arrivals.take_tallies();
    *settled = remaining(engine, &tally);
    Ok((tally, series, tallies))
}

/// What a drive has settled with, its buffer ready for another run.
fn begin(drive: &Drive, settled: &mut Option<Settled>) -> Result<Settled, Error> {
    let mut before = settled.take().ok_or(Error::Unsettled)?;
    if let Some(buffer) = &mut before.buffer {
        buffer.mode.check(drive.spec())?;
        buffer.policy.begin(drive.spec().mean_write_ps());
    }
    Ok(before)
}

/// Loads a drive and its buffer, and lets all requests that were in flight complete. What that run counted is of no
/// interest, nor how it was issued.
pub fn settle(drive: &mut Drive, buffer: Option<WriteBuffer>, from: &mut dyn Read) -> Result<Settled, Error> {
    let mut nothing: &[Request] = &[];
    let options = RunOptions::default();
    let (lookahead, inline) = load_of(drive.spec(), &mut nothing, buffer, &options);
    let mut engine = engine(drive, lookahead, inline, None, &options);
    engine.load(from)?;
    engine.settle()
}

/// No request comes for some time, which a drive may use. Leaves how it settles, as [`run_between`].
pub fn rest(drive: &mut Drive, settled: &mut Option<Settled>, rest_ps: u64) -> Result<(), Error> {
    let mut nothing: &[Request] = &[];
    let Settled { buffer, controller } = settled.take().ok_or(Error::Unsettled)?;
    let options = RunOptions::default();
    let (lookahead, inline) = load_of(drive.spec(), &mut nothing, buffer, &options);
    let mut engine = engine(drive, lookahead, inline, controller, &options);
    engine.rest(rest_ps)?;
    *settled = Some(engine.settle()?);
    Ok(())
}

/// The engine that fits a drive, which remains as another run left it.
fn engine<'a, A: Arrivals + Stored + 'a>(
    drive: &'a mut Drive,
    arrivals: A,
    inline: Option<InlineBuffer>,
    remains: Option<Remains>,
    options: &RunOptions,
) -> Box<dyn LoadEngine<'a, A> + 'a> {
    let (controller, overlap) = (drive.spec().controller.clone(), drive.spec().overlap);
    if let Some(controller) = controller {
        let mut engine = ControllerEngine::<LoadWorld<'a, A>>::new(drive, &controller, arrivals, options);
        if let Some(remains) = remains {
            engine.begin_with(remains);
        }
        return Box::new(engine);
    }
    if overlap == Overlap::Off {
        return Box::new(ReferenceEngine::<LoadWorld<'a, A>, SerialElements>::new(drive, arrivals, inline, options));
    }
    Box::new(ReferenceEngine::<LoadWorld<'a, A>, ParallelElements>::new(drive, arrivals, inline, options))
}

type LoadWorld<'a, A> = (&'a mut Drive, A, NoListener);

/// An engine over a load, which can be saved when all requests are issued.
trait LoadEngine<'a, A: Arrivals>: Engine<LoadWorld<'a, A>> {
    /// All that a run consists of, in the order in which it is saved.
    fn parts(&mut self) -> Vec<&mut dyn Stored>;

    /// The state that remains when nothing happens in the drive.
    fn into_settled(self: Box<Self>) -> Settled;

    /// No request comes for some time. A drive without a controller does nothing in it.
    fn rest(&mut self, _rest_ps: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Lets all requests that are in flight complete, without counting them.
    fn settle(mut self: Box<Self>) -> Result<Settled, Error> {
        self.core_mut().reset_counts();
        self.advance_to(NEVER)?;
        Ok(self.into_settled())
    }

    /// Takes over what was saved, all of it.
    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        self.parts().into_iter().try_for_each(|part| part.load(input))?;
        match io::copy(input, &mut io::sink()) {
            Ok(0) => Ok(()),
            Ok(more) => Err(Error::State(format!("{more} bytes too many"))),
            Err(error) => Err(Error::State(error.to_string())),
        }
    }
}

impl<'a, A, E> LoadEngine<'a, A> for ReferenceEngine<LoadWorld<'a, A>, E>
where
    A: Arrivals + Stored,
    E: Elements + Serialize + DeserializeOwned,
{
    fn parts(&mut self) -> Vec<&mut dyn Stored> {
        let core = &mut self.core;
        let mut parts: Vec<&mut dyn Stored> = vec![
            &mut *core.drive,
            &mut core.arrivals,
            &mut core.now_ps,
            &mut self.elements,
            &mut self.channels,
            &mut core.host_queue,
            &mut core.requests,
        ];
        parts.extend(self.buffer.iter_mut().flat_map(InlineBuffer::parts));
        parts.extend([&mut core.tally as _, &mut core.series as _, &mut core.counters_before as _]);
        parts
    }

    fn into_settled(self: Box<Self>) -> Settled {
        let Self { buffer, core, .. } = *self;
        Settled::from(buffer.map(InlineBuffer::into_buffer).or_else(|| core.arrivals.into_buffer()))
    }
}

impl<'a, A: Arrivals + Stored> LoadEngine<'a, A> for ControllerEngine<LoadWorld<'a, A>> {
    fn rest(&mut self, rest_ps: u64) -> Result<(), Error> {
        self.rest(rest_ps)
    }

    fn parts(&mut self) -> Vec<&mut dyn Stored> {
        self.parts()
    }

    fn into_settled(self: Box<Self>) -> Settled {
        let (arrivals, remains) = self.into_remains();
        Settled { buffer: arrivals.into_buffer(), controller: Some(remains) }
    }
}

/// The load that the engine issues, and the buffer within the drive.
fn load_of<'a>(
    spec: &Spec,
    source: &'a mut dyn Source,
    buffer: Option<WriteBuffer>,
    options: &RunOptions,
) -> (Lookahead<'a>, Option<InlineBuffer>) {
    let watches_elements = buffer.as_ref().is_some_and(|buffer| buffer.policy.watches_elements());
    let input = TraceInput::new(source, spec, options.issue_mode, options.unaligned);
    let (reshape, inline) = match buffer {
        Some(buffer) if buffer.mode == BufferMode::Inline => (None, Some(InlineBuffer::new(buffer))),
        buffer => (buffer.map(|buffer| ReshapingBuffer::new(buffer, spec.page_sectors())), None),
    };
    (Lookahead::new(input, options, reshape, watches_elements), inline)
}

/// Whether there are only writes, as far as is known, and all of which complete: then [`WriteStream`] gives the engine's
/// results if they wait for nothing but the drive, in their own order, and [`WriteSteps`] if they also wait in the host's
/// queue. Pages that take no time complete at the time of other events, and only an engine orders those.
fn is_write_stream(spec: &Spec, source: &dyn Source, buffer: Option<&WriteBuffer>, options: &RunOptions) -> bool {
    (source.is_repeatable() || (source.only_writes() && options.window.is_none()))
        && buffer.is_none_or(|buffer| {
            let policy = &buffer.policy;
            buffer.mode == BufferMode::Reshape && !(buffer.pad_reads && policy.pads()) && !policy.watches_elements()
        })
        && options.end == End::Drained
        && spec.mean_write_ps() > 0
        && !matches!(options.issue_mode, IssueMode::ClosedLoop(_))
        && spec.channels == 1
        && spec.overlap == Overlap::Off
        && spec.controller.is_none()
}
