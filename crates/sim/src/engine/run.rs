//! Which way a run goes.

use ioassay_block::Source;

use super::elements::parallel::Overlapped;
use super::elements::serial::Single;
use super::event_loop::Engine;
use super::inline_buffer::Buffer;
use super::listener::Nobody;
use super::load::lookahead::Supply;
use super::load::reshaping_buffer::Reshape;
use super::load::trace_input::{Feeding, Intake};
use super::tally::Tally;
use super::time_series::Slices;
use super::write_stream::Stream;
use super::{End, Feed, Mode, WriteBuffer};
use crate::Error;
use crate::drive::{Drive, Overlap, Spec};

/// Runs a drive over a load. The drive keeps its state, so that runs may follow each other.
///
/// # Errors
/// [`Error::Option`] for a feeding that cannot be, [`Error::Trace`] and [`Error::Request`] for what
/// the trace holds, [`Error::WornOut`].
pub fn run(
    drive: &mut Drive,
    source: &mut dyn Source,
    buffer: Option<WriteBuffer>,
    feed: &Feed,
) -> Result<(Tally, Slices), Error> {
    feed.check()?;
    let pads = buffer
        .as_ref()
        .is_some_and(|buffer| buffer.pad_reads && buffer.policy.pads());
    let watches = buffer
        .as_ref()
        .is_some_and(|buffer| buffer.policy.watches_elements());
    let only_writes = source.only_writes() && !pads;
    let intake = Intake::new(source, drive.spec(), feed.feeding, feed.unaligned);
    let page_sectors = drive.spec().page_sectors();
    let (reshape, inline) = match buffer {
        Some(buffer) if buffer.mode == Mode::Inline => (None, Some(Buffer::new(buffer))),
        buffer => (
            buffer.map(|buffer| Reshape::new(buffer, page_sectors)),
            None,
        ),
    };
    let supply = Supply::new(intake, feed, reshape, watches);
    if inline.is_none() && only_writes && flows(drive.spec(), feed) {
        return Stream::new(drive, supply, feed).run();
    }
    if drive.spec().overlap == Overlap::Off {
        let elements = Single::new(drive.spec());
        return Engine::new(drive, supply, elements, inline, feed, Nobody).run();
    }
    let elements = Overlapped::new(drive.spec());
    Engine::new(drive, supply, elements, inline, feed, Nobody).run()
}

/// Whether requests wait for nothing but the drive, in their own order, and all of them are served.
/// Pages that take no time complete at the instant of other events, whose order only clocks tell.
fn flows(spec: &Spec, feed: &Feed) -> bool {
    feed.window.is_none()
        && feed.end == End::Drained
        && spec.mean_write_ps() > 0
        && !matches!(feed.feeding, Feeding::Closed(_))
        && spec.channels == 1
        && spec.overlap == Overlap::Off
}
