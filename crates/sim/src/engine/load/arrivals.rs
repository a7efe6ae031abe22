//! Where an engine's requests come from: a trace, or a caller that submits them one by one.

use std::collections::VecDeque;

use crate::Error;
use crate::drive::Drive;
use crate::engine::WriteBuffer;
use crate::engine::load::requests::DriveRequest;
use crate::engine::load::trace_input::IssueMode;
use crate::engine::tally::Tally;
use crate::engine::timers::NEVER;
use crate::policy::DriveState;

/// Requests in order of time.
pub(in crate::engine) trait Arrivals {
    /// The next request, which stays; `None` when none is ready.
    fn peek(&self) -> Option<&DriveRequest>;

    /// When it is issued, while `outstanding` are; `NEVER` if that depends on a completion, or at the end.
    #[inline]
    fn due_ps(&self, issue_mode: IssueMode, outstanding: usize, now_ps: u64) -> u64 {
        match (self.peek(), issue_mode) {
            (Some(_), IssueMode::ClosedLoop(most)) if outstanding < most as usize => now_ps,
            (None, _) | (_, IssueMode::ClosedLoop(_)) => NEVER,
            (Some(request), _) => request.at_ps,
        }
    }

    /// The request that `peek` shows is issued; whether it leaves the host's queue before others.
    #[inline]
    fn issued(&mut self, _at_ps: u64) -> bool {
        false
    }

    /// A request is complete.
    #[inline]
    fn completed(&mut self, _request: &DriveRequest, _at_ps: u64, _response_ps: u64, _device_ps: u64) {}

    /// Removes the request that `peek` showed. Call `refill` when it is wanted afterwards.
    fn pop(&mut self);

    /// Whether no request is ready.
    #[inline]
    fn wants_refill(&self) -> bool {
        self.peek().is_none()
    }

    /// Makes further requests ready, if there are any.
    fn refill(&mut self, drive: &Drive, drive_state: &DriveState<'_>, tally: &mut Tally) -> Result<(), Error>;

    /// Pages held by a buffer in front of the drive.
    fn held_pages(&self) -> u64;

    /// The buffer in front of the drive with its pages.
    fn into_buffer(self) -> Option<WriteBuffer>
    where
        Self: Sized,
    {
        None
    }
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
