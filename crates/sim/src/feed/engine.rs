//! The run: what happens next, and what follows from it.

use ioassay_block::Kind;

use super::buffer::Buffer;
use super::channel::{Channels, Transfer, Turn};
use super::clocks::NEVER;
use super::host::HostQueue;
use super::intake::Feeding;
use super::jobs::{Elements, Job, Now, Waits, Work};
use super::requests::{Fed, InFlight, Slab};
use super::slices::Slices;
use super::supply::Supply;
use super::tally::Tally;
use super::{End, Feed};
use crate::Error;
use crate::drive::{Counters, Drive, Place};
use crate::policy::{Action, Outlook, Page};

pub(super) struct Engine<'a, E> {
    drive: &'a mut Drive,
    supply: Supply<'a>,
    feed: &'a Feed,
    now_ps: u64,
    elements: E,
    channels: Channels,
    host: HostQueue,
    requests: Slab,
    buffer: Option<Buffer>,
    /// Whether the buffer's policy looks at the elements.
    watches: bool,
    page_sectors: u32,
    element_count: u32,
    tally: Tally,
    slices: Slices,
    counted: Counters,
}

impl<'a, E: Elements> Engine<'a, E> {
    pub fn new(
        drive: &'a mut Drive,
        supply: Supply<'a>,
        elements: E,
        buffer: Option<Buffer>,
        feed: &'a Feed,
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
            supply,
            feed,
        }
    }

    pub fn run(mut self) -> Result<(Tally, Slices), Error> {
        self.refill()?;
        // Of what happens at one time a page's end comes first, so that its completion goes before
        // the channel's next transfer; an arrival comes last.
        loop {
            let (element_ps, clock) = self.elements.next();
            let (channel_ps, channel) = self.channels.next();
            let arrival_ps = self.next_arrival_ps();
            if element_ps <= channel_ps.min(arrival_ps) {
                if element_ps == NEVER {
                    break;
                }
                self.reach(element_ps);
                self.served(clock)?;
                self.drive_channels()?;
            } else if channel_ps <= arrival_ps {
                self.reach(channel_ps);
                self.transferred(channel)?;
                self.drive_channels()?;
            } else {
                self.reach(arrival_ps);
                self.issue()?;
                if self.is_over() {
                    break;
                }
            }
        }
        Ok(self.finish())
    }

    /// When the next request is issued, `NEVER` if that depends on a completion, or at the end.
    #[inline]
    fn next_arrival_ps(&self) -> u64 {
        match (self.supply.peek(), self.feed.feeding) {
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
        self.feed.end == End::LastIssued && self.supply.peek().is_none()
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
        self.supply.refill(self.drive, &outlook, &mut self.tally)
    }

    // Requests

    #[inline]
    fn issue(&mut self) -> Result<(), Error> {
        let Some(&fed) = self.supply.peek() else {
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
        self.tally.last_issue_ps = self.now_ps;
        if self.host.issue(id, sector) {
            self.dispatch(id)?;
            self.drive_channels()?;
        }
        self.supply.pass();
        if self.supply.peek().is_none() {
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
                buffer.discard(page);
            }
            self.drive.trim(self.drive.place(page));
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
    fn part_done(&mut self, id: u32, element: u32) {
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
    fn page_done(&mut self, id: u32, element: u32) -> Result<(), Error> {
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

    // Elements, and the buffer before them

    /// A written page is in the drive.
    #[inline]
    fn arrived(&mut self, id: u32, page: Page, place: Place) -> Result<(), Error> {
        let Some(buffer) = &mut self.buffer else {
            return self.enqueue(place, Work::Write, Waits::Request(id));
        };
        let outlook = Outlook {
            now_ps: self.now_ps,
            free_at_ps: self.elements.free_at_ps(),
        };
        if buffer.write(id, page, &outlook, &mut self.tally) {
            self.part_done(id, place.element);
        }
        self.tend()
    }

    /// Pages that have a place now are done; the buffer evicts ahead of need, and what it evicts is
    /// carried out.
    fn tend(&mut self) -> Result<(), Error> {
        while let Some(id) = self.buffer.as_mut().and_then(Buffer::settled) {
            self.part_done(id, 0);
        }
        if self.watches {
            if let Some(buffer) = &mut self.buffer {
                let outlook = Outlook {
                    now_ps: self.now_ps,
                    free_at_ps: self.elements.free_at_ps(),
                };
                buffer.write_back(&outlook, &mut self.tally);
            }
        }
        self.carry_out()
    }

    fn carry_out(&mut self) -> Result<(), Error> {
        let Some(buffer) = &mut self.buffer else {
            return Ok(());
        };
        let pad_reads = buffer.pad_reads;
        let mut evicted = std::mem::take(&mut buffer.evicted);
        for eviction in &evicted {
            let (work, waits) = match eviction.action {
                Action::Write => (Work::Write, Waits::Place),
                Action::PadRead if !pad_reads => continue,
                Action::PadRead => (Work::Read(self.page_sectors), Waits::Nobody),
                Action::PadWrite => (Work::Write, Waits::Nobody),
            };
            for page in eviction.first..eviction.first + eviction.pages {
                self.enqueue(self.drive.place(page), work, waits)?;
            }
        }
        evicted.clear();
        if let Some(buffer) = &mut self.buffer {
            buffer.evicted = evicted;
        }
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, place: Place, work: Work, waits: Waits) -> Result<(), Error> {
        let job = Job {
            waits,
            local: place.local,
            work,
        };
        let now = Now {
            ps: self.now_ps,
            slices: &mut self.slices,
        };
        self.elements.offer(self.drive, place.element, job, now)
    }

    #[inline]
    fn served(&mut self, clock: u32) -> Result<(), Error> {
        let now = Now {
            ps: self.now_ps,
            slices: &mut self.slices,
        };
        let Some((element, job)) = self.elements.strike(self.drive, clock, now)? else {
            return Ok(());
        };
        match job.waits {
            Waits::Request(id) => self.page_done(id, element)?,
            Waits::Place => {
                if let Some(buffer) = &mut self.buffer {
                    buffer.departed(job.local * self.element_count + element);
                }
                self.tend()?;
            }
            Waits::Nobody => {}
        }
        Ok(())
    }

    fn finish(mut self) -> (Tally, Slices) {
        let counters = self.fresh_counters();
        let outstanding = self.requests.len() as u64;
        self.slices.close(outstanding, counters);
        self.tally.busy_ps = self.slices.busy_ps();
        self.tally.settle();
        self.tally.unfinished = outstanding;
        self.tally.left_in_buffer =
            self.supply.held() + self.buffer.as_ref().map_or(0, Buffer::held);
        (self.tally, self.slices)
    }
}
