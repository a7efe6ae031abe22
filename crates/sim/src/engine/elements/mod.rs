//! Work on single pages at the flash elements (dies or packages), and how elements schedule it.

pub(in crate::engine) mod parallel;
pub(in crate::engine) mod serial;

use crate::Error;
use crate::drive::{Drive, Place, Spec};
use crate::engine::time_series::TimeSeries;

/// Who waits for the work on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::engine) enum Waiter {
    /// A request, by its number.
    Request(u32),
    /// A slot of the write buffer, which comes free when the page is programmed.
    BufferSlot,
    /// Nobody: the page only pads a block.
    Nobody,
}

/// The work on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::engine) enum PageOp {
    /// Read this number of sectors.
    Read(u32),
    Write,
    /// No work of its own; done when all work queued before it is done.
    Barrier,
}

/// Work on one page of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::engine) struct PageJob {
    pub waiter: Waiter,
    /// Number of the page within the element.
    pub local: u32,
    pub op: PageOp,
}

/// The schedule of a drive's elements: their queues, their work in progress, their timers.
pub(in crate::engine) trait Elements {
    /// Elements in which nothing happens.
    fn new(spec: &Spec) -> Self;

    /// Time of the next event, and the timer that fires then.
    fn next(&self) -> (u64, u32);

    /// Queues work at an element; an idle one starts it at once.
    fn enqueue(&mut self, drive: &mut Drive, element: u32, job: PageJob, context: Context<'_>) -> Result<(), Error>;

    /// A timer fires: returns the work that is done, if any, and its element.
    fn on_timer(
        &mut self,
        drive: &mut Drive,
        timer: u32,
        context: Context<'_>,
    ) -> Result<Option<(u32, PageJob)>, Error>;

    /// Estimated time at which each element will have finished its queue.
    fn free_at_ps(&self) -> &[u64];
}

/// The time of the event, and the series in which work that starts now is recorded.
pub(in crate::engine) struct Context<'a> {
    pub now_ps: u64,
    pub series: &'a mut TimeSeries,
}

impl Context<'_> {
    #[inline]
    pub fn record_busy(&mut self, element: u32, busy_ps: u64) {
        self.series.current_row().busy_ps[element as usize] += busy_ps;
    }
}

/// Executes a job on an element that does one at a time; returns its duration, picoseconds.
#[inline]
pub(in crate::engine) fn execute_serially(drive: &mut Drive, element: u32, job: PageJob) -> Result<u64, Error> {
    let place = Place { element, local: job.local };
    Ok(match job.op {
        PageOp::Write => drive.write(place)?,
        PageOp::Read(sectors) => drive.read(place, sectors),
        PageOp::Barrier => 0,
    })
}
