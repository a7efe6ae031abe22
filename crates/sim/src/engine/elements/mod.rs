//! One page's work at an element, and who does such work.

pub(in crate::engine) mod parallel;
pub(in crate::engine) mod serial;

use crate::Error;
use crate::drive::{Drive, Place};
use crate::engine::time_series::Slices;

/// Who waits for a page's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Waits {
    /// A request, by its number.
    Request(u32),
    /// A place in the buffer.
    Place,
    /// Nobody: a page that only completes a block.
    Nobody,
}

/// What is done with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Work {
    /// So many sectors are read.
    Read(u32),
    Write,
    /// Nothing: all work before it is to be done first.
    Barrier,
}

/// One page's work at an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Job {
    pub waits: Waits,
    /// Number of the page within the element.
    pub local: u32,
    pub work: Work,
}

/// The elements of a drive at work: what waits for each, what each is doing, when it is done.
pub(in crate::engine) trait Elements {
    /// When the next of them is done with something, and which of their clocks says so.
    fn next(&self) -> (u64, u32);

    /// A page's work is given to its element.
    fn offer(
        &mut self,
        drive: &mut Drive,
        element: u32,
        job: Job,
        now: Now<'_>,
    ) -> Result<(), Error>;

    /// A clock strikes: the work that is done then, and the element that did it.
    fn strike(
        &mut self,
        drive: &mut Drive,
        clock: u32,
        now: Now<'_>,
    ) -> Result<Option<(u32, Job)>, Error>;

    /// When each will have done its work, as far as that can be told.
    fn free_at_ps(&self) -> &[u64];
}

/// The time, and where work is written down that begins now.
pub(in crate::engine) struct Now<'a> {
    pub ps: u64,
    pub slices: &'a mut Slices,
}

impl Now<'_> {
    #[inline]
    pub fn works(&mut self, element: u32, busy_ps: u64) {
        self.slices.now().busy_ps[element as usize] += busy_ps;
    }
}

/// Does a job on an element that does one thing at a time; for how long.
#[inline]
pub(in crate::engine) fn done_alone(
    drive: &mut Drive,
    element: u32,
    job: Job,
) -> Result<u64, Error> {
    let place = Place {
        element,
        local: job.local,
    };
    Ok(match job.work {
        Work::Write => drive.write(place)?,
        Work::Read(sectors) => drive.read(place, sectors),
        Work::Barrier => 0,
    })
}

impl<T: Elements + ?Sized> Elements for Box<T> {
    fn next(&self) -> (u64, u32) {
        (**self).next()
    }

    fn offer(
        &mut self,
        drive: &mut Drive,
        element: u32,
        job: Job,
        now: Now<'_>,
    ) -> Result<(), Error> {
        (**self).offer(drive, element, job, now)
    }

    fn strike(
        &mut self,
        drive: &mut Drive,
        clock: u32,
        now: Now<'_>,
    ) -> Result<Option<(u32, Job)>, Error> {
        (**self).strike(drive, clock, now)
    }

    fn free_at_ps(&self) -> &[u64] {
        (**self).free_at_ps()
    }
}
