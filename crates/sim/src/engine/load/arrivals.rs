//! Where an engine's requests come from: a trace, or a caller that submits them one by one.

use std::collections::VecDeque;

use crate::Error;
use crate::drive::Drive;
use crate::engine::load::requests::DriveRequest;
use crate::engine::tally::Tally;
use crate::policy::DriveState;

/// Requests in order of time.
pub(in crate::engine) trait Arrivals {
    /// The next request, which stays; `None` when none is ready.
    fn peek(&self) -> Option<&DriveRequest>;

    /// Removes the request that `peek` showed. Call `refill` when `peek` shows none afterwards.
    fn pop(&mut self);

    /// Makes further requests ready, if there are any.
    fn refill(&mut self, drive: &Drive, drive_state: &DriveState<'_>, tally: &mut Tally) -> Result<(), Error>;

    /// Pages held by a buffer in front of the drive.
    fn held_pages(&self) -> u64;
}

impl Arrivals for VecDeque<DriveRequest> {
    fn peek(&self) -> Option<&DriveRequest> {
        self.front()
    }

    fn pop(&mut self) {
        self.pop_front();
    }

    fn refill(&mut self, _: &Drive, _: &DriveState<'_>, _: &mut Tally) -> Result<(), Error> {
        Ok(())
    }

    fn held_pages(&self) -> u64 {
        0
    }
}
