//! The run of writes that wait for nothing but the drive: open loop, no window, one channel, all
//! served to the end.
//!
//! Then the order of transfers and of each element's pages is that of the requests, so each
//! request's times follow from those before it, and no clock has to strike. It gives exactly what
//! the [engine](super::engine) gives (`tests/engines_agree.rs`), several times as fast.

use std::collections::VecDeque;

use super::load::arrivals::Arrivals;
use super::load::lookahead::Supply;
use super::tally::Tally;
use super::{Feed, Slices};
use crate::Error;
use crate::drive::{Counters, Drive};
use crate::policy::Outlook;

/// A request whose last page is done at `done_ps`, and which completes then, unless the channel is
/// in the middle of a transfer.
#[derive(Clone, Copy)]
struct Pending {
    issued_ps: u64,
    done_ps: u64,
    sectors: u32,
    /// Number of its own transfer, to begin the search for the one that is under way.
    transfer: u32,
}

#[derive(Clone, Copy)]
struct Transfer {
    start_ps: u64,
    end_ps: u64,
}

pub(super) struct Stream<'a> {
    pub drive: &'a mut Drive,
    pub supply: Supply<'a>,
    feed: &'a Feed,
    pub tally: Tally,
    pub slices: Slices,
    /// When each element has done what it was given.
    free_at_ps: Vec<u64>,
    channel_free_ps: u64,
    channel_ps_per_sector: u64,
    /// For each element the requests that it completes, in their order.
    pending: Vec<VecDeque<Pending>>,
    outstanding: usize,
    /// Transfers that may yet be looked for; the first has the number `first_transfer`.
    transfers: Vec<Transfer>,
    first_transfer: u32,
    now_ps: u64,
    counted: Counters,
}

impl<'a> Stream<'a> {
    pub fn new(drive: &'a mut Drive, supply: Supply<'a>, feed: &'a Feed) -> Self {
        let elements = drive.spec().elements as usize;
        Self {
            channel_ps_per_sector: drive.spec().channel_ps_per_sector,
            counted: drive.counters(),
            drive,
            supply,
            feed,
            tally: Tally::default(),
            slices: Slices::new(feed.slices, elements),
            free_at_ps: vec![0; elements],
            channel_free_ps: 0,
            pending: vec![VecDeque::new(); elements],
            outstanding: 0,
            transfers: Vec::new(),
            first_transfer: 0,
            now_ps: 0,
        }
    }

    pub fn run(mut self) -> Result<(Tally, Slices), Error> {
        loop {
            let outlook = Outlook {
                now_ps: self.now_ps,
                free_at_ps: &self.free_at_ps,
            };
            self.supply.refill(self.drive, &outlook, &mut self.tally)?;
            if self.supply.peek().is_none() {
                break;
            }
            self.take_all()?;
            if self.outstanding > self.feed.max_outstanding {
                self.settle(self.now_ps);
                if self.outstanding > self.feed.max_outstanding {
                    self.tally.gave_up = true;
                    break;
                }
            }
        }
        Ok(self.finish())
    }

    /// Issues all that is ready.
    fn take_all(&mut self) -> Result<(), Error> {
        let ready = self.supply.take_ready();
        let before = self.now_ps;
        for fed in &ready {
            self.issue(fed)?;
        }
        self.supply.give_back(ready);
        // Often enough that little is searched, and not for a handful.
        if self.outstanding >= SETTLED_AT && self.now_ps > before {
            self.settle(self.now_ps);
        }
        Ok(())
    }

    #[inline]
    fn issue(&mut self, fed: &super::load::requests::Fed) -> Result<(), Error> {
        self.now_ps = fed.at_ps;
        if fed.at_ps >= self.slices.until_ps {
            self.next_slice();
        }
        let start_ps = fed.at_ps.max(self.channel_free_ps);
        let end_ps = start_ps + u64::from(fed.sectors) * self.channel_ps_per_sector;
        self.channel_free_ps = end_ps;
        self.transfers.push(Transfer { start_ps, end_ps });
        let (mut done_ps, mut last) = (0, 0);
        let row = self.slices.now();
        row.issued += 1;
        self.tally.issued += 1;
        for page in fed.first..fed.first + fed.pages {
            let place = self.drive.place(page);
            let element = place.element as usize;
            let Some(busy_ps) = self.drive.serve_write(place) else {
                return Err(self.drive.worn_out(place.element));
            };
            let free_ps = self.free_at_ps[element].max(end_ps).saturating_add(busy_ps);
            self.free_at_ps[element] = free_ps;
            row.busy_ps[element] += busy_ps;
            if free_ps > done_ps {
                (done_ps, last) = (free_ps, element);
            }
        }
        self.pending[last].push_back(Pending {
            issued_ps: fed.at_ps,
            done_ps,
            sectors: fed.sectors,
            transfer: self.first_transfer + (self.transfers.len() - 1) as u32,
        });
        self.outstanding += 1;
        Ok(())
    }

    #[cold]
    fn next_slice(&mut self) {
        self.settle(self.now_ps);
        let all = self.drive.counters();
        self.slices.advance(
            self.now_ps,
            self.outstanding as u64,
            all.since(self.counted),
        );
        self.counted = all;
    }

    /// Completes what is done by `until_ps`. Transfers that are not known yet start later.
    fn settle(&mut self, until_ps: u64) {
        let mut oldest = self.first_transfer + self.transfers.len() as u32;
        for element in 0..self.pending.len() {
            while let Some(&pending) = self.pending[element].front() {
                if pending.done_ps > until_ps {
                    oldest = oldest.min(pending.transfer);
                    break;
                }
                let at_ps = self.completion_ps(&pending);
                self.pending[element].pop_front();
                self.outstanding -= 1;
                self.complete(&pending, at_ps);
            }
        }
        let known = (oldest - self.first_transfer) as usize;
        // Moved down seldom enough that each transfer moves a few times at most.
        if known > 1024 && known * 2 > self.transfers.len() {
            self.transfers.drain(..known);
            self.first_transfer = oldest;
        }
    }

    #[inline]
    fn complete(&mut self, pending: &Pending, at_ps: u64) {
        let response_ps = at_ps - pending.issued_ps;
        self.tally.complete(
            ioassay_block::Kind::Write,
            response_ps,
            response_ps,
            pending.sectors,
        );
        self.tally.last_completion_ps = self.tally.last_completion_ps.max(at_ps);
        let row = self.slices.at(at_ps);
        row.completed += 1;
        row.response_ps += u128::from(response_ps);
    }

    /// When a request completes whose pages are done: then, or at the end of the transfer under way.
    #[inline]
    fn completion_ps(&self, pending: &Pending) -> u64 {
        let from = (pending.transfer - self.first_transfer) as usize;
        let later = &self.transfers[from..];
        let under_way = started_before(later, pending.done_ps);
        later[under_way].end_ps.max(pending.done_ps)
    }

    fn finish(mut self) -> (Tally, Slices) {
        self.tally.last_issue_ps = self.now_ps;
        self.settle(self.now_ps);
        if !self.tally.gave_up {
            self.settle(u64::MAX);
        }
        let fresh = self.drive.counters().since(self.counted);
        self.slices.close(self.outstanding as u64, fresh);
        self.tally.busy_ps = self.slices.busy_ps();
        self.tally.settle();
        self.tally.unfinished = self.outstanding as u64;
        self.tally.left_in_buffer = self.supply.held();
        (self.tally, self.slices)
    }
}

/// Outstanding requests below which settling waits for more.
const SETTLED_AT: usize = 1024;

/// The last transfer that started before `done_ps`; the first one has. Steps double until they
/// are too long, then halve: the answer is seldom far away, and the halving needs no branch that
/// the processor could guess wrong.
#[inline]
fn started_before(transfers: &[Transfer], done_ps: u64) -> usize {
    let has = |index: usize| {
        transfers
            .get(index)
            .is_some_and(|transfer| transfer.start_ps < done_ps)
    };
    let mut width = 16;
    while has(width) {
        width *= 4;
    }
    let (mut low, mut step) = (0, width / 2);
    while step > 0 {
        low += usize::from(has(low + step)) * step;
        step /= 2;
    }
    low
}
