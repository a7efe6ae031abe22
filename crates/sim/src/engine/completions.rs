//! Completes the requests of a write stream, and counts their response times.

use super::tally::Responses;
use super::time_series::{Interval, row_of};
use super::write_batch::Pending;

#[derive(Default, Clone, Copy)]
pub(super) struct Transfer {
    pub start_ps: u64,
    pub end_ps: u64,
}

/// The transfers of the channel that a search may still reach, numbered from `first` on.
#[derive(Default)]
pub(super) struct Transfers {
    pub known: Vec<Transfer>,
    pub first: u32,
}

impl Transfers {
    /// Forgets the transfers before all of some.
    pub fn forget_before_all(&mut self, some: impl Iterator<Item = u32>) {
        let places = some.map(|transfer| transfer.wrapping_sub(self.first) as usize);
        let passed = places.min().unwrap_or(self.known.len());
        self.known.drain(..passed);
        self.first = self.first.wrapping_add(passed as u32);
    }

    /// When a request with all its pages done completes: then, or after the transfer in progress.
    #[inline]
    fn completion_ps(&self, pending: &Pending) -> u64 {
        let done_ps = pending.done_ps;
        let started = |transfer: &Transfer| transfer.start_ps < done_ps;
        let later = &self.known[pending.transfer.wrapping_sub(self.first) as usize..];
        let in_progress = match later.first_chunk::<NEAR>() {
            // Mostly it is among the next few: then the search has no branch.
            Some(near) if !started(&near[NEAR - 1]) => {
                let mut low = 0;
                for step in [32, 16, 8, 4, 2, 1] {
                    low += usize::from(started(&near[low + step])) * step;
                }
                near[low]
            }
            _ => {
                let mut width = NEAR;
                while later.get(width).is_some_and(started) {
                    width *= 4;
                }
                let near = &later[..width.min(later.len())];
                near[near.partition_point(started) - 1]
            }
        };
        in_progress.end_ps.max(done_ps)
    }
}

/// Transfers among which the one in progress mostly is.
const NEAR: usize = 64;

/// Completions that were counted by one worker at a time.
#[derive(Default)]
pub(super) struct Share {
    pub responses: Responses,
    pub last_ps: u64,
    /// The counts since they were taken last.
    pub intervals: Vec<Interval>,
}

impl Share {
    /// Counts the requests that are done by `until_ps`, in rows of `row_ps`.
    pub fn count(&mut self, pending: &[Pending], until_ps: u64, transfers: &Transfers, row_ps: u64) {
        let mut interval = Interval::default();
        let mut last_ps = self.last_ps;
        for request in pending {
            if request.done_ps > until_ps {
                continue;
            }
            let at_ps = transfers.completion_ps(request);
            if !interval.row.contains(&at_ps) {
                self.intervals.push(interval);
                interval = Interval { row: row_of(at_ps, row_ps), ..Interval::default() };
            }
            last_ps = last_ps.max(at_ps);
            let response_ps = at_ps - request.issued_ps;
            interval.completed += 1;
            interval.response_ps += u128::from(response_ps);
            self.responses.sectors += u64::from(request.sectors);
            self.responses.record_response(response_ps);
        }
        self.intervals.push(interval);
        self.last_ps = last_ps;
    }
}
