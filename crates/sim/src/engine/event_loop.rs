//! The run: what happens next, and what follows from it. What happens at the elements and in the
//! buffer before them is in `flash`.

use std::ops::DerefMut;

use ioassay_block::Kind;

use super::channel::{Channels, Transfer, Turn};
use super::elements::{Elements, Waits, Work};
use super::host_queue::HostQueue;
use super::inline_buffer::Buffer;
use super::listener::Listener;
use super::load::arrivals::Arrivals;
use super::load::requests::{Fed, InFlight, Slab};
use super::load::trace_input::Feeding;
use super::tally::Tally;
use super::time_series::Slices;
use super::timers::NEVER;
use super::{End, Feed};
use crate::Error;
use crate::drive::{Counters, Drive, Place};
use crate::policy::Outlook;

/// A drive at work: owned by it or lent (`D`), its elements (`E`), what is issued to it (`A`), and
/// who is told what happens (`L`).
pub(super) struct Engine<D, E, A, L> {
    pub drive: D,
    pub arrivals: A,
    pub listener: L,
    feed: Feed,
    pub now_ps: u64,
    pub elements: E,
    channels: Channels,
    host: HostQueue,
    pub requests: Slab,
    pub buffer: Option<Buffer>,
    /// Whether the buffer's policy looks at the elements.
    pub watches: bool,
    pub page_sectors: u32,
    pub element_count: u32,
    pub tally: Tally,
    pub slices: Slices,
    counted: Counters,
}

impl<D, E, A, L> Engine<D, E, A, L>
where
    D: DerefMut<Target = Drive>,
    E: Elements,
    A: Arrivals,
    L: Listener,
{
    pub fn new(
        drive: D,
        arrivals: A,
        elements: E,
        buffer: Option<Buffer>,
        feed: &Feed,
        listener: L,
    ) -> Self {
        let spec = drive.spec();
        Self {
            now_ps: 0,
            elements,
            channels: Channels::new(spec),
            host: HostQueue::new(feed.scheduler, feed.window),
            requests: Slab::default(),
            watches: buffer.as_ref().is_some_and(Buffer::watches_elements),
            buffer,
            page_sectors: spec.page_sectors(),
            element_count: spec.elements,
            tally: Tally::default(),
            slices: Slices::new(feed.slices, spec.elements as usize),
            counted: drive.counters(),
            drive,
            arrivals,
            listener,
            feed: feed.clone(),
        }
    }

    pub fn run(mut self) -> Result<(Tally, Slices), Error> {
        self.refill()?;
        self.go_on(NEVER)?;
        Ok(self.finish())
    }

    /// Lets everything happen that happens by `until_ps`, or until the run is over.
    pub fn go_on(&mut self, until_ps: u64) -> Result<(), Error> {
        // Of what happens at one time a page's end comes first, so that its completion goes before
        // the channel's next transfer; an arrival comes last.
        loop {
            let (element_ps, clock) = self.elements.next();
            let (channel_ps, channel) = self.channels.next();
            let arrival_ps = self.next_arrival_ps();
            if element_ps <= channel_ps.min(arrival_ps) {
                if element_ps == NEVER || element_ps > until_ps {
                    return Ok(());
                }
                self.reach(element_ps);
                self.served(clock)?;
                self.drive_channels()?;
            } else if channel_ps <= arrival_ps {
                if channel_ps > until_ps {
                    return Ok(());
                }
                self.reach(channel_ps);
                self.transferred(channel)?;
                self.drive_channels()?;
            } else {
                if arrival_ps > until_ps {
                    return Ok(());
                }
                self.reach(arrival_ps);
                self.issue()?;
                if self.is_over() {
                    return Ok(());
                }
            }
        }
    }

    /// When something happens next; `NEVER` if nothing does.
    pub fn next_ps(&self) -> u64 {
        let within_ps = self.elements.next().0.min(self.channels.next().0);
        within_ps.min(self.next_arrival_ps())
    }

    /// All that is on its way is gone, the buffer's content too: what the mapping says stays.
    pub fn stop(&mut self, elements: E) {
        self.elements = elements;
        self.channels = Channels::new(self.drive.spec());
        self.host = HostQueue::new(self.feed.scheduler, self.feed.window);
        self.requests = Slab::default();
        if let Some(buffer) = &mut self.buffer {
            buffer.forget();
        }
    }

    /// Time begins anew for a drive in which nothing is on its way.
    pub fn rest(&mut self, elements: E) {
        self.now_ps = 0;
        self.elements = elements;
        self.channels = Channels::new(self.drive.spec());
        self.slices = Slices::new(self.feed.slices, self.element_count as usize);
    }

    /// When the next request is issued, `NEVER` if that depends on a completion, or at the end.
    #[inline]
    fn next_arrival_ps(&self) -> u64 {
        match (self.arrivals.peek(), self.feed.feeding) {
            (None, _) => NEVER,
            (Some(_), Feeding::Closed(most)) => {
                if self.requests.len() < most as usize {
                    self.now_ps
                } else {
                    NEVER
                }
            }
            (Some(fed), _) => fed.at_ps,
        }
    }

    fn is_over(&mut self) -> bool {
        if self.requests.len() > self.feed.max_outstanding {
            self.tally.gave_up = true;
            return true;
        }
        self.feed.end == End::LastIssued && self.arrivals.peek().is_none()
    }

    #[inline]
    fn reach(&mut self, at_ps: u64) {
        self.now_ps = at_ps;
        if at_ps >= self.slices.until_ps {
            let counters = self.fresh_counters();
            self.slices
                .advance(at_ps, self.requests.len() as u64, counters);
        }
    }

    fn fresh_counters(&mut self) -> Counters {
        let all = self.drive.counters();
        let fresh = all.since(self.counted);
        self.counted = all;
        fresh
    }

    fn refill(&mut self) -> Result<(), Error> {
        let outlook = Outlook {
            now_ps: self.now_ps,
            free_at_ps: self.elements.free_at_ps(),
        };
        self.arrivals.refill(&self.drive, &outlook, &mut self.tally)
    }

    // Requests

    #[inline]
    fn issue(&mut self) -> Result<(), Error> {
        let Some(&fed) = self.arrivals.peek() else {
            return Ok(());
        };
        self.tally.issued += 1;
        self.slices.now().issued += 1;
        let sector = u64::from(fed.first) * u64::from(self.page_sectors) + u64::from(fed.skip);
        let id = self.requests.insert(InFlight {
            fed,
            issued_ps: self.now_ps,
            dispatched_ps: self.now_ps,
            left: 0,
        });
        self.listener.issued(id);
        self.tally.last_issue_ps = self.now_ps;
        if self.host.issue(id, sector) {
            self.dispatch(id)?;
            self.drive_channels()?;
        }
        self.arrivals.pass();
        if self.arrivals.peek().is_none() {
            self.refill()?;
        }
        Ok(())
    }

    /// The drive takes a request; its channels are to be driven then.
    #[inline]
    fn dispatch(&mut self, id: u32) -> Result<(), Error> {
        let now_ps = self.now_ps;
        let request = self.requests.get(id);
        request.dispatched_ps = now_ps;
        let fed = request.fed;
        match fed.kind {
            Kind::Write => self.cross(id, &fed),
            Kind::Read => self.read(id, &fed)?,
            Kind::Trim => self.trim(id, &fed),
            Kind::Flush => self.flush(id)?,
        }
        Ok(())
    }

    /// A write's data cross: on the one channel whole, on several each channel's pages.
    #[inline]
    fn cross(&mut self, id: u32, fed: &Fed) {
        self.requests.get(id).left = fed.pages;
        for channel in 0..self.channels.count() {
            let sectors = self.share(fed, channel);
            if sectors > 0 {
                let transfer = Transfer {
                    request: id,
                    sectors,
                };
                self.channels.offer_transfer(channel, transfer, self.now_ps);
            }
        }
    }

    /// Sectors of a request that cross a channel.
    #[inline]
    fn share(&self, fed: &Fed, channel: u32) -> u32 {
        if self.channels.count() == 1 {
            return fed.sectors;
        }
        (0..fed.pages)
            .filter(|&index| self.channels.of(self.drive.place(fed.first + index)) == channel)
            .map(|index| fed.sectors_of(index, self.page_sectors))
            .sum()
    }

    /// A read's pages go to their elements at once, but for those that the buffer holds.
    fn read(&mut self, id: u32, fed: &Fed) -> Result<(), Error> {
        self.requests.get(id).left = fed.pages;
        for index in 0..fed.pages {
            let page = fed.first + index;
            let place = self.drive.place(page);
            if let Some(buffer) = &mut self.buffer {
                if buffer.read(page, &mut self.tally) {
                    self.part_done(id, place.element);
                    continue;
                }
            }
            let work = Work::Read(fed.sectors_of(index, self.page_sectors));
            self.enqueue(place, work, Waits::Request(id))?;
        }
        Ok(())
    }

    fn trim(&mut self, id: u32, fed: &Fed) {
        for page in fed.first..fed.first + fed.pages {
            if let Some(buffer) = &mut self.buffer {
                if buffer.discard(page) {
                    self.listener.dropped(page);
                }
            }
            let place = self.drive.place(page);
            self.drive.trim(place);
        }
        self.requests.get(id).left = 1;
        self.part_done(id, 0);
    }

    /// Complete when all that was written before is in flash.
    fn flush(&mut self, id: u32) -> Result<(), Error> {
        if let Some(buffer) = &mut self.buffer {
            buffer.drain(&mut self.tally);
        }
        self.carry_out()?;
        self.requests.get(id).left = self.element_count;
        for element in 0..self.element_count {
            self.enqueue(
                Place { element, local: 0 },
                Work::Barrier,
                Waits::Request(id),
            )?;
        }
        Ok(())
    }

    /// A part of a request is done; the last one completes it, over the channel of its element.
    #[inline]
    pub fn part_done(&mut self, id: u32, element: u32) {
        let request = self.requests.get(id);
        request.left -= 1;
        if request.left > 0 {
            return;
        }
        let fed = request.fed;
        if fed.kind == Kind::Read && self.channels.count() > 1 {
            return self.bring_shares(id, &fed);
        }
        let sectors = if fed.kind == Kind::Read {
            fed.sectors
        } else {
            0
        };
        request.left = 1;
        let channel = self.channels.of(Place { element, local: 0 });
        self.channels.offer_completion(
            channel,
            Transfer {
                request: id,
                sectors,
            },
        );
    }

    /// As `part_done`, for a page that its element has done: mostly it is the only page of a write,
    /// and nothing crosses the channel, so that the request completes.
    #[inline]
    pub fn page_done(&mut self, id: u32, element: u32) -> Result<(), Error> {
        let request = self.requests.get(id);
        let channel = self.channels.of(Place { element, local: 0 });
        if request.left == 1 && request.fed.kind == Kind::Write && self.channels.is_free(channel) {
            return self.complete(id);
        }
        self.part_done(id, element);
        Ok(())
    }

    fn bring_shares(&mut self, id: u32, fed: &Fed) {
        for channel in 0..self.channels.count() {
            let sectors = self.share(fed, channel);
            if sectors > 0 {
                self.requests.get(id).left += 1;
                self.channels.offer_completion(
                    channel,
                    Transfer {
                        request: id,
                        sectors,
                    },
                );
            }
        }
    }

    /// A transfer to the host has ended, or none was needed.
    #[inline]
    fn brought(&mut self, id: u32) -> Result<(), Error> {
        let request = self.requests.get(id);
        request.left -= 1;
        if request.left == 0 {
            self.complete(id)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn complete(&mut self, id: u32) -> Result<(), Error> {
        let request = self.requests.remove(id);
        let response_ps = self.now_ps - request.issued_ps;
        let device_ps = self.now_ps - request.dispatched_ps;
        self.tally.complete(
            request.fed.kind,
            response_ps,
            device_ps,
            request.fed.sectors,
        );
        self.listener.completed(id, self.now_ps);
        self.tally.last_completion_ps = self.now_ps;
        let slice = self.slices.now();
        slice.completed += 1;
        slice.response_ps += u128::from(response_ps);
        match self.host.complete() {
            Some(next) => self.dispatch(next),
            None => Ok(()),
        }
    }

    // Channels

    #[inline]
    fn transferred(&mut self, channel: u32) -> Result<(), Error> {
        let Some((transfer, inbound)) = self.channels.end(channel) else {
            return Ok(());
        };
        if inbound {
            return self.brought(transfer.request);
        }
        let fed = self.requests.get(transfer.request).fed;
        for page in fed.first..fed.first + fed.pages {
            let place = self.drive.place(page);
            if self.channels.of(place) == channel {
                self.arrived(transfer.request, page, place)?;
            }
        }
        Ok(())
    }

    /// Idle channels take what waits for them, until none can: a completion on one may bring work
    /// for another.
    #[inline]
    fn drive_channels(&mut self) -> Result<(), Error> {
        loop {
            let mut completed = false;
            for channel in 0..self.channels.count() {
                while let Turn::Completes(id) = self.channels.turn(channel, self.now_ps) {
                    completed = true;
                    self.brought(id)?;
                }
            }
            if !completed || self.channels.count() == 1 {
                return Ok(());
            }
        }
    }

    fn finish(mut self) -> (Tally, Slices) {
        let counters = self.fresh_counters();
        let outstanding = self.requests.len() as u64;
        self.slices.close(outstanding, counters);
        self.tally.busy_ps = self.slices.busy_ps();
        self.tally.settle();
        self.tally.unfinished = outstanding;
        self.tally.left_in_buffer =
            self.arrivals.held() + self.buffer.as_ref().map_or(0, Buffer::held);
        (self.tally, self.slices)
    }
}
