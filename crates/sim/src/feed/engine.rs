//! The run: what happens next, and what follows from it.

use ioassay_block::{Kind, Source};

use super::buffer::Buffer;
use super::channel::{Channel, Transfer};
use super::host::HostQueue;
use super::intake::{Feeding, Intake};
use super::requests::{Fed, InFlight, Slab};
use super::reshape::Reshape;
use super::server::{Job, Server, Waits, Work};
use super::slices::Slices;
use super::stream::Stream;
use super::supply::Supply;
use super::tally::Tally;
use super::tree::{NEVER, Tree};
use super::{End, Feed, Mode, WriteBuffer};
use crate::Error;
use crate::drive::{Counters, Drive, Overlap, Place, Spec};
use crate::policy::{Action, Outlook};

/// Runs a drive over a load. The drive keeps its state, so that runs may follow each other.
///
/// # Errors
/// [`Error::Trace`] and [`Error::Request`] for what the trace holds, [`Error::WornOut`].
pub fn run(
    drive: &mut Drive,
    source: &mut dyn Source,
    buffer: Option<WriteBuffer>,
    feed: &Feed,
) -> Result<(Tally, Slices), Error> {
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
    let mut engine = Engine::new(drive, supply, inline, feed, watches);
    engine.run()?;
    Ok(engine.finish())
}

/// Whether requests wait for nothing but the drive, in their own order.
fn flows(spec: &Spec, feed: &Feed) -> bool {
    feed.window.is_none()
        && !matches!(feed.feeding, Feeding::Closed(_))
        && spec.channels == 1
        && spec.overlap == Overlap::Off
}

struct Engine<'a> {
    drive: &'a mut Drive,
    supply: Supply<'a>,
    feed: &'a Feed,
    now_ps: u64,
    /// Clocks: first the elements, then the channels, so that of two that strike together a page's
    /// end comes first, and its completion goes before the channel's next transfer.
    clocks: Tree,
    channels: Vec<Channel>,
    servers: Vec<Server>,
    host: HostQueue,
    requests: Slab,
    buffer: Option<Buffer>,
    /// When each element will have done its work, as far as that can be told; kept up to date for
    /// policies that watch.
    free_at_ps: Vec<u64>,
    watches: bool,
    page_sectors: u32,
    channel_ps_per_sector: u64,
    write_ps: u64,
    reads_first: bool,
    tally: Tally,
    slices: Slices,
    counted: Counters,
}

impl<'a> Engine<'a> {
    fn new(
        drive: &'a mut Drive,
        supply: Supply<'a>,
        buffer: Option<Buffer>,
        feed: &'a Feed,
        watches: bool,
    ) -> Self {
        let spec = drive.spec();
        let (elements, channels) = (spec.elements as usize, spec.channels as usize);
        Self {
            now_ps: 0,
            clocks: Tree::new(channels + elements),
            channels: (0..channels).map(|_| Channel::default()).collect(),
            servers: (0..elements).map(|_| Server::default()).collect(),
            host: HostQueue::new(feed.scheduler, feed.window),
            requests: Slab::default(),
            buffer,
            free_at_ps: vec![0; elements],
            watches,
            page_sectors: spec.page_sectors(),
            channel_ps_per_sector: spec.channel_ps_per_sector,
            write_ps: spec.mean_write_ps(),
            reads_first: spec.read_priority,
            tally: Tally {
                busy_ps: vec![0; elements],
                ..Tally::default()
            },
            slices: Slices::new(feed.slices, elements),
            counted: drive.counters(),
            drive,
            supply,
            feed,
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        self.refill()?;
        loop {
            let (event_ps, clock) = self.clocks.next();
            let arrival_ps = self.next_arrival_ps();
            if event_ps <= arrival_ps {
                if event_ps == NEVER {
                    return Ok(());
                }
                self.reach(event_ps);
                self.strike(clock)?;
            } else {
                self.reach(arrival_ps);
                self.issue()?;
                if self.is_over() {
                    return Ok(());
                }
            }
        }
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
            free_at_ps: &self.free_at_ps,
        };
        self.supply.refill(self.drive, &outlook, &mut self.tally)
    }

    // Requests

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
    fn dispatch(&mut self, id: u32) -> Result<(), Error> {
        let now_ps = self.now_ps;
        let request = self.requests.get(id);
        request.dispatched_ps = now_ps;
        let fed = request.fed;
        match fed.kind {
            Kind::Write => self.cross(id, &fed),
            Kind::Read => self.read(id, &fed)?,
            Kind::Trim => {
                self.trim(&fed);
                self.requests.get(id).left = 1;
                self.part_done(id, 0);
            }
            Kind::Flush => self.flush(id)?,
        }
        Ok(())
    }

    /// A write's data cross: on the one channel whole, on several each channel's pages.
    fn cross(&mut self, id: u32, fed: &Fed) {
        if self.channels.len() == 1 {
            self.requests.get(id).left = fed.pages;
            self.channels[0].offer_transfer(Transfer {
                request: id,
                sectors: fed.sectors,
            });
            return;
        }
        self.requests.get(id).left = fed.pages;
        for channel in 0..self.channels.len() as u32 {
            let sectors = self.share(fed, channel);
            if sectors > 0 {
                self.channels[channel as usize].offer_transfer(Transfer {
                    request: id,
                    sectors,
                });
            }
        }
    }

    /// Sectors of a request that cross a channel.
    fn share(&self, fed: &Fed, channel: u32) -> u32 {
        if self.channels.len() == 1 {
            return fed.sectors;
        }
        (0..fed.pages)
            .filter(|&index| self.channel_of(self.drive.place(fed.first + index)) == channel)
            .map(|index| fed.sectors_of(index, self.page_sectors))
            .sum()
    }

    #[inline]
    fn channel_of(&self, place: Place) -> u32 {
        if self.channels.len() == 1 {
            0
        } else {
            place.element % self.channels.len() as u32
        }
    }

    /// A read's pages go to their elements at once, but for those that the buffer holds.
    fn read(&mut self, id: u32, fed: &Fed) -> Result<(), Error> {
        self.requests.get(id).left = fed.pages;
        for index in 0..fed.pages {
            let page = fed.first + index;
            if let Some(buffer) = &mut self.buffer {
                if buffer.read(page, &mut self.tally) {
                    self.part_done(id, self.drive.place(page).element);
                    continue;
                }
            }
            let work = Work::Read(fed.sectors_of(index, self.page_sectors));
            let place = self.drive.place(page);
            self.enqueue(place, work, Waits::Request(id))?;
        }
        Ok(())
    }

    fn trim(&mut self, fed: &Fed) {
        for page in fed.first..fed.first + fed.pages {
            if let Some(buffer) = &mut self.buffer {
                buffer.discard(page);
            }
            self.drive.trim(self.drive.place(page));
        }
    }

    /// Complete when all that was written before is in flash.
    fn flush(&mut self, id: u32) -> Result<(), Error> {
        if let Some(buffer) = &mut self.buffer {
            buffer.drain(&mut self.tally);
        }
        self.carry_out()?;
        let elements = self.servers.len() as u32;
        self.requests.get(id).left = elements;
        for element in 0..elements {
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
        if fed.kind == Kind::Read && self.channels.len() > 1 {
            return self.bring_shares(id, &fed);
        }
        let sectors = if fed.kind == Kind::Read {
            fed.sectors
        } else {
            0
        };
        request.left = 1;
        let channel = self.channel_of(Place { element, local: 0 });
        self.channels[channel as usize].offer_completion(Transfer {
            request: id,
            sectors,
        });
    }

    fn bring_shares(&mut self, id: u32, fed: &Fed) {
        for channel in 0..self.channels.len() as u32 {
            let sectors = self.share(fed, channel);
            if sectors > 0 {
                self.requests.get(id).left += 1;
                self.channels[channel as usize].offer_completion(Transfer {
                    request: id,
                    sectors,
                });
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

    // Clocks

    /// A channel's transfer or an element's page is over.
    #[inline]
    fn strike(&mut self, clock: u32) -> Result<(), Error> {
        let elements = self.servers.len() as u32;
        if clock < elements {
            self.served(clock)?;
        } else {
            self.transferred(clock - elements)?;
        }
        self.drive_channels()
    }

    fn transferred(&mut self, channel: u32) -> Result<(), Error> {
        self.clocks.set(self.servers.len() as u32 + channel, NEVER);
        let Some(transfer) = self.channels[channel as usize].current.take() else {
            return Ok(());
        };
        if self.channels[channel as usize].inbound {
            return self.brought(transfer.request);
        }
        let fed = self.requests.get(transfer.request).fed;
        for page in fed.first..fed.first + fed.pages {
            let place = self.drive.place(page);
            if self.channel_of(place) == channel {
                self.arrived(transfer.request, page, place)?;
            }
        }
        Ok(())
    }

    /// A written page is in the drive.
    #[inline]
    fn arrived(&mut self, id: u32, page: u32, place: Place) -> Result<(), Error> {
        let Some(buffer) = &mut self.buffer else {
            return self.enqueue(place, Work::Write, Waits::Request(id));
        };
        let outlook = Outlook {
            now_ps: self.now_ps,
            free_at_ps: &self.free_at_ps,
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
                    free_at_ps: &self.free_at_ps,
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
        let mut evicted = std::mem::take(&mut buffer.evicted);
        let pad_reads = buffer.pad_reads;
        for eviction in &evicted {
            if eviction.action == Action::PadRead && !pad_reads {
                continue;
            }
            let (work, waits) = match eviction.action {
                Action::Write => (Work::Write, Waits::Place),
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

    // Elements

    #[inline]
    fn enqueue(&mut self, place: Place, work: Work, waits: Waits) -> Result<(), Error> {
        let job = Job {
            waits,
            local: place.local,
            work,
        };
        let server = &mut self.servers[place.element as usize];
        if server.current.is_none() {
            return self.begin(place.element, job);
        }
        server.wait(job, self.reads_first);
        if self.watches {
            self.free_at_ps[place.element as usize] += self.write_ps;
        }
        Ok(())
    }

    /// An idle element cleans if it has to, and serves a page.
    #[inline]
    fn begin(&mut self, element: u32, job: Job) -> Result<(), Error> {
        let place = Place {
            element,
            local: job.local,
        };
        let mut busy_ps = self.drive.clean(element);
        busy_ps += match job.work {
            Work::Write => self.drive.write(place)?,
            Work::Read(sectors) => self.drive.read(place, sectors),
            Work::Barrier => 0,
        };
        let server = &mut self.servers[element as usize];
        server.current = Some(job);
        let until_ps = self.now_ps + busy_ps;
        if self.watches {
            self.free_at_ps[element as usize] = until_ps + server.len() as u64 * self.write_ps;
        }
        self.tally.busy_ps[element as usize] += busy_ps;
        self.slices.now().busy_ps[element as usize] += busy_ps;
        self.clocks.set(element, until_ps);
        Ok(())
    }

    fn served(&mut self, element: u32) -> Result<(), Error> {
        let server = &mut self.servers[element as usize];
        let Some(job) = server.current.take() else {
            return Ok(());
        };
        match server.next() {
            Some(next) => self.begin(element, next)?,
            None => self.clocks.set(element, NEVER),
        }
        match job.waits {
            Waits::Request(id) => self.part_done(id, element),
            Waits::Place => self.departed(job.local * self.servers.len() as u32 + element)?,
            Waits::Nobody => {}
        }
        Ok(())
    }

    /// Flash has a page of the buffer's: whoever waited for a place has one.
    fn departed(&mut self, page: u32) -> Result<(), Error> {
        if let Some(buffer) = &mut self.buffer {
            buffer.departed(page);
        }
        self.tend()
    }

    // Channels

    /// Idle channels take what waits for them, until none can: a completion on one may bring work
    /// for another.
    #[inline]
    fn drive_channels(&mut self) -> Result<(), Error> {
        loop {
            let mut moved = false;
            for channel in 0..self.channels.len() {
                while self.channels[channel].is_idle() && self.advance(channel)? {
                    moved = true;
                }
            }
            if !moved || self.channels.len() == 1 {
                return Ok(());
            }
        }
    }

    /// An idle channel takes what is first, completions before transfers; whether there was any.
    #[inline]
    fn advance(&mut self, channel: usize) -> Result<bool, Error> {
        if let Some(done) = self.channels[channel].next_completion() {
            if done.sectors == 0 {
                self.brought(done.request)?;
            } else {
                self.start(channel, done, true);
            }
        } else if let Some(transfer) = self.channels[channel].next_transfer() {
            self.start(channel, transfer, false);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    #[inline]
    fn start(&mut self, channel: usize, transfer: Transfer, inbound: bool) {
        let until_ps = self.now_ps + u64::from(transfer.sectors) * self.channel_ps_per_sector;
        self.channels[channel].current = Some(transfer);
        self.channels[channel].inbound = inbound;
        self.clocks
            .set((self.servers.len() + channel) as u32, until_ps);
    }

    fn finish(mut self) -> (Tally, Slices) {
        let counters = self.fresh_counters();
        let outstanding = self.requests.len() as u64;
        self.slices.close(outstanding, counters);
        self.tally.settle();
        self.tally.unfinished = outstanding;
        self.tally.left_in_buffer =
            self.supply.held() + self.buffer.as_ref().map_or(0, Buffer::held);
        (self.tally, self.slices)
    }
}
