//! The engine of a drive without a controller: its events, and what follows from them for requests and channels.
//!
//! The rules are those of `DiskSim` 4.0 with its SSD extension, written anew from a description: a host queue, at most
//! a window of requests in the drive, one serial channel, and a queue for each element. The drive takes requests first
//! come, first served, whenever the channel is free: a write crosses it whole and is then split into pages; a read is
//! split at once, and crosses when its last page is there. Completions take no time of a channel, but wait for a
//! transfer in progress, and go before what waits in the queue. What follows from events for the write buffer and the
//! elements is in `back_end`.

use ioassay_block::Kind;

use super::RunOptions;
use super::channel::{ChannelStep, Channels, Transfer};
use super::core::{Core, Engine, EventLoop, World};
use super::elements::{Elements, PageOp, Waiter};
use super::event_log::Event;
use super::inline_buffer::InlineBuffer;
use super::load::requests::DriveRequest;
use crate::Error;
use crate::drive::Place;
use crate::policy::Page;

/// The engine of a drive without a controller, with the schedule of its elements (`E`).
pub(super) struct ReferenceEngine<W: World, E> {
    pub core: Core<W>,
    pub elements: E,
    pub channels: Channels,
    pub buffer: Option<InlineBuffer>,
    pub element_count: u32,
}

impl<W: World, E: Elements> ReferenceEngine<W, E> {
    pub fn new(drive: W::Drive, arrivals: W::Arrivals, buffer: Option<InlineBuffer>, options: &RunOptions) -> Self {
        let spec = drive.spec();
        Self {
            elements: E::new(spec),
            channels: Channels::new(spec),
            buffer,
            element_count: spec.elements,
            core: Core::new(drive, arrivals, options),
        }
    }

    fn reset_elements(&mut self) {
        self.elements = E::new(self.core.drive.spec());
        self.channels = Channels::new(self.core.drive.spec());
    }

    // Requests

    /// The drive accepts a request. The caller then drives the channels.
    #[inline]
    fn dispatch(&mut self, id: u32) -> Result<(), Error> {
        let request = self.core.dispatch(id);
        match request.kind {
            Kind::Write => self.start_host_transfer(id, &request),
            Kind::Read => self.enqueue_read(id, &request)?,
            Kind::Trim => self.trim(id, &request),
            Kind::Flush => self.flush(id)?,
        }
        Ok(())
    }

    /// A write's data cross the channel whole; of several channels, each carries its own pages.
    #[inline]
    fn start_host_transfer(&mut self, id: u32, request: &DriveRequest) {
        self.core.requests.get(id).parts = request.pages;
        for channel in 0..self.channels.count() {
            let sectors = self.sectors_on_channel(request, channel);
            if sectors > 0 {
                let transfer = Transfer { request: id, sectors };
                self.channels.enqueue_transfer(channel, transfer, self.core.now_ps);
            }
        }
    }

    /// Sectors of a request that cross a channel.
    #[inline]
    fn sectors_on_channel(&self, request: &DriveRequest, channel: u32) -> u32 {
        if self.channels.count() == 1 {
            return request.sectors;
        }
        (0..request.pages)
            .filter(|&index| self.channels.of(self.core.drive.place(request.first + index)) == channel)
            .map(|index| request.sectors_of(index, self.core.page_sectors))
            .sum()
    }

    /// A read waits its turn behind the writes that came before it, on each channel of its pages.
    fn enqueue_read(&mut self, id: u32, request: &DriveRequest) -> Result<(), Error> {
        self.core.requests.get(id).parts = request.pages;
        for channel in 0..self.channels.count() {
            if self.sectors_on_channel(request, channel) > 0 && !self.channels.enqueue_read(channel, id) {
                self.read(id, request, channel)?;
            }
        }
        Ok(())
    }

    /// Queues a read's pages of a channel at their elements, except those that the buffer holds.
    fn read(&mut self, id: u32, request: &DriveRequest, channel: u32) -> Result<(), Error> {
        for index in 0..request.pages {
            let page = request.first + index;
            let place = self.core.drive.place(page);
            if self.channels.of(place) != channel {
                continue;
            }
            if let Some(buffer) = &mut self.buffer {
                if buffer.read(page, &mut self.core.tally) {
                    self.part_done(id, place.element);
                    continue;
                }
            }
            let op = PageOp::Read(request.sectors_of(index, self.core.page_sectors));
            self.enqueue(place, op, Waiter::Request(id))?;
        }
        Ok(())
    }

    fn trim(&mut self, id: u32, request: &DriveRequest) {
        for page in request.first..request.first + request.pages {
            if let Some(buffer) = &mut self.buffer {
                if buffer.discard(page) {
                    self.core.record(Event::Dropped { page });
                }
            }
            let place = self.core.drive.place(page);
            self.core.drive.trim(place);
        }
        self.core.requests.get(id).parts = 1;
        self.part_done(id, 0);
    }

    /// Evicts the buffer and queues a barrier at each element: complete when all earlier writes are in flash.
    fn flush(&mut self, id: u32) -> Result<(), Error> {
        if let Some(buffer) = &mut self.buffer {
            buffer.drain(&mut self.core.tally);
        }
        self.issue_evictions()?;
        self.core.requests.get(id).parts = self.element_count;
        for element in 0..self.element_count {
            self.enqueue(Place { element, local: 0 }, PageOp::Barrier, Waiter::Request(id))?;
        }
        Ok(())
    }

    /// A part of a request is done; the last one completes it, over the channel of its element.
    #[inline]
    pub fn part_done(&mut self, id: u32, element: u32) {
        let in_flight = self.core.requests.get(id);
        in_flight.parts -= 1;
        if in_flight.parts > 0 {
            return;
        }
        let request = in_flight.request;
        if request.kind == Kind::Read && self.channels.count() > 1 {
            return self.enqueue_read_transfers(id, &request);
        }
        let sectors = if request.kind == Kind::Read { request.sectors } else { 0 };
        in_flight.parts = 1;
        let channel = self.channels.of(Place { element, local: 0 });
        self.channels.enqueue_completion(channel, Transfer { request: id, sectors });
    }

    /// As `part_done`, for a page that its element has finished. Mostly it is the only page of a
    /// write on an idle channel, so that the request completes at once.
    #[inline]
    pub fn page_done(&mut self, id: u32, element: u32) -> Result<(), Error> {
        let in_flight = self.core.requests.get(id);
        let channel = self.channels.of(Place { element, local: 0 });
        if in_flight.parts == 1 && in_flight.request.kind == Kind::Write && self.channels.is_free(channel) {
            return self.complete(id);
        }
        self.part_done(id, element);
        Ok(())
    }

    fn enqueue_read_transfers(&mut self, id: u32, request: &DriveRequest) {
        for channel in 0..self.channels.count() {
            let sectors = self.sectors_on_channel(request, channel);
            if sectors > 0 {
                self.core.requests.get(id).parts += 1;
                self.channels.enqueue_completion(channel, Transfer { request: id, sectors });
            }
        }
    }

    /// A transfer to the host has ended, or the completion needed none.
    #[inline]
    fn on_host_transfer_done(&mut self, id: u32) -> Result<(), Error> {
        let in_flight = self.core.requests.get(id);
        in_flight.parts -= 1;
        if in_flight.parts == 0 { self.complete(id) } else { Ok(()) }
    }

    #[inline]
    fn complete(&mut self, id: u32) -> Result<(), Error> {
        match self.core.complete(id) {
            Some(next) => self.dispatch(next),
            None => Ok(()),
        }
    }

    // Channels

    #[inline]
    fn on_channel_done(&mut self, channel: u32) -> Result<(), Error> {
        let Some((transfer, to_host)) = self.channels.end(channel) else {
            return Ok(());
        };
        if to_host {
            return self.on_host_transfer_done(transfer.request);
        }
        let request = self.core.requests.get(transfer.request).request;
        for page in request.first..request.first + request.pages {
            let place = self.core.drive.place(page);
            if self.channels.of(place) == channel {
                self.on_page_received(transfer.request, page, place)?;
            }
        }
        Ok(())
    }

    /// Lets idle channels start what waits for them, until none can: a completion on one may make work for another.
    #[inline]
    fn drive_channels(&mut self) -> Result<(), Error> {
        while self.channels.are_ready() {
            for channel in 0..self.channels.count() {
                self.drive_channel(channel)?;
            }
        }
        Ok(())
    }

    fn drive_channel(&mut self, channel: u32) -> Result<(), Error> {
        loop {
            match self.channels.start_next(channel, self.core.now_ps) {
                ChannelStep::Completes(id) => self.on_host_transfer_done(id)?,
                ChannelStep::Admits(id) => {
                    let request = self.core.requests.get(id).request;
                    self.read(id, &request, channel)?;
                }
                ChannelStep::Started | ChannelStep::Idle => return Ok(()),
            }
        }
    }
}

impl<W: World, E: Elements> Engine<W> for ReferenceEngine<W, E> {
    fn core(&self) -> &Core<W> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core<W> {
        &mut self.core
    }

    fn next_event_ps(&self) -> u64 {
        self.elements.next().0.min(self.channels.next().0)
    }

    fn advance_to(&mut self, until_ps: u64) -> Result<(), Error> {
        self.run_until(until_ps)
    }

    fn refill(&mut self) -> Result<(), Error> {
        self.core.refill(self.elements.free_at_ps())
    }

    fn free_at_ps(&self) -> &[u64] {
        self.elements.free_at_ps()
    }

    fn cut_power(&mut self) {
        self.core.drop_requests();
        self.reset_elements();
        if let Some(buffer) = &mut self.buffer {
            buffer.clear();
        }
    }

    fn reset_clock(&mut self) {
        self.core.reset_clock();
        self.reset_elements();
        if let Some(buffer) = &mut self.buffer {
            buffer.begin(self.core.drive.spec().mean_write_ps());
        }
    }

    fn is_buffered(&self, page: Page) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.contains(page))
    }

    fn buffered_pages(&self) -> u64 {
        self.buffer.as_ref().map_or(0, InlineBuffer::held_pages)
    }

    fn buffer_capacity_pages(&self) -> u64 {
        self.buffer.as_ref().map_or(0, InlineBuffer::capacity_pages)
    }
}

impl<W: World, E: Elements> EventLoop<W> for ReferenceEngine<W, E> {
    /// Of events at the same time, the end of a page's work comes first, so that its completion goes before the
    /// channel's next transfer.
    #[inline]
    fn step(&mut self, limit_ps: u64) -> Result<bool, Error> {
        let (element_ps, timer) = self.elements.next();
        let (channel_ps, channel) = self.channels.next();
        let next_ps = element_ps.min(channel_ps);
        if next_ps > limit_ps {
            return Ok(false);
        }
        self.core.set_now(next_ps)?;
        if element_ps <= channel_ps {
            self.on_element_done(timer)?;
        } else {
            self.on_channel_done(channel)?;
        }
        self.drive_channels()?;
        Ok(true)
    }

    #[inline]
    fn admit(&mut self, id: u32) -> Result<(), Error> {
        self.dispatch(id)?;
        self.drive_channels()
    }
}
