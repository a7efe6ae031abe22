//! A run over a load: chooses the engine that fits it.

use ioassay_block::Source;

use super::controller::ControllerEngine;
use super::elements::parallel::ParallelElements;
use super::elements::serial::SerialElements;
use super::event_loop::Engine;
use super::inline_buffer::InlineBuffer;
use super::listener::NoListener;
use super::load::lookahead::Lookahead;
use super::load::reshaping_buffer::ReshapingBuffer;
use super::load::trace_input::{IssueMode, TraceInput};
use super::tally::Tally;
use super::time_series::TimeSeries;
use super::workers::{OneThread, Workers};
use super::write_stream::WriteStream;
use super::{BufferMode, End, RunOptions, WriteBuffer};
use crate::Error;
use crate::drive::{Drive, Overlap, Spec};

/// Runs a drive over a load. The drive keeps its state, so that runs may follow each other.
pub fn run(
    drive: &mut Drive,
    source: &mut dyn Source,
    buffer: Option<WriteBuffer>,
    options: &RunOptions,
) -> Result<(Tally, TimeSeries), Error> {
    run_with(drive, source, buffer, options, &OneThread)
}

/// As [`run`], with the same results, by several threads where elements do not depend on each other.
pub fn run_with(
    drive: &mut Drive,
    source: &mut dyn Source,
    buffer: Option<WriteBuffer>,
    options: &RunOptions,
    workers: &dyn Workers,
) -> Result<(Tally, TimeSeries), Error> {
    options.check()?;
    if let Some(buffer) = &buffer {
        buffer.mode.check(drive.spec())?;
    }
    let pads = buffer.as_ref().is_some_and(|buffer| buffer.pad_reads && buffer.policy.pads());
    let only_writes = source.only_writes() && !pads;
    let (lookahead, inline) = load_of(drive, source, buffer, options);
    if let Some(controller) = drive.spec().controller.clone() {
        return ControllerEngine::new(drive, controller, lookahead, options, NoListener).run();
    }
    if inline.is_none() && only_writes && is_write_stream(drive.spec(), options) {
        return WriteStream::new(drive, lookahead, options, workers).run();
    }
    if drive.spec().overlap == Overlap::Off {
        let elements = SerialElements::new(drive.spec());
        return Engine::new(drive, lookahead, elements, inline, options, NoListener).run();
    }
    let elements = ParallelElements::new(drive.spec());
    Engine::new(drive, lookahead, elements, inline, options, NoListener).run()
}

/// What the engine issues, and the buffer within the drive.
pub(super) fn load_of<'a>(
    drive: &Drive,
    source: &'a mut dyn Source,
    buffer: Option<WriteBuffer>,
    options: &RunOptions,
) -> (Lookahead<'a>, Option<InlineBuffer>) {
    let watches_elements = buffer.as_ref().is_some_and(|buffer| buffer.policy.watches_elements());
    let input = TraceInput::new(source, drive.spec(), options.issue_mode, options.unaligned);
    let page_sectors = drive.spec().page_sectors();
    let (reshape, inline) = match buffer {
        Some(buffer) if buffer.mode == BufferMode::Inline => (None, Some(InlineBuffer::new(buffer))),
        buffer => (buffer.map(|buffer| ReshapingBuffer::new(buffer, page_sectors)), None),
    };
    let lookahead = Lookahead::new(input, options, reshape, watches_elements);
    (lookahead, inline)
}

/// Whether requests wait for nothing but the drive, in their own order, and all of them complete: then
/// [`WriteStream`] gives the engine's results. Pages that take no time complete at the time of other
/// events, and only the event loop orders those.
fn is_write_stream(spec: &Spec, options: &RunOptions) -> bool {
    options.window.is_none()
        && options.end == End::Drained
        && spec.mean_write_ps() > 0
        && !matches!(options.issue_mode, IssueMode::ClosedLoop(_))
        && spec.channels == 1
        && spec.overlap == Overlap::Off
}
