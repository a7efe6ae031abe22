//! A drive that is served: requests come one by one, and what happens is told as it does.
//!
//! The rules are those of a trace's run, to the letter: the same engine goes on as far as it is let,
//! instead of to the end (`tests/online_drive.rs`). There is no window and no host queue: who submits bounds
//! how much is on its way.

use std::collections::VecDeque;

use ioassay_block::Request;

use super::elements::Elements;
use super::elements::parallel::Overlapped;
use super::elements::serial::Single;
use super::event_loop::Engine;
use super::host_queue::Scheduler;
use super::inline_buffer::Buffer;
use super::listener::Listener;
use super::load::paging::Paging;
use super::load::requests::Fed;
use super::load::trace_input::Unaligned;
use super::{End, Feed, Mode, Tally, WriteBuffer};
use crate::drive::{Drive, Overlap, Spec};
use crate::policy::Page;
use crate::{Error, error};

/// What happened. Requests have the numbers that [`Live::submit`] gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request is complete.
    Complete {
        /// Its number.
        request: u64,
        /// When, picoseconds.
        at_ps: u64,
    },
    /// A written page is in the buffer, and replaces what was there of it.
    Arrived {
        /// The request that wrote it.
        request: u64,
        /// The page.
        page: Page,
    },
    /// A page was dropped from the buffer: it was discarded, or is written past the buffer.
    Dropped {
        /// The page.
        page: Page,
    },
    /// A page was given to its element; its content of this moment will be programmed.
    Leaves {
        /// The request that wrote it, or `None` where it comes out of the buffer.
        request: Option<u64>,
        /// The page.
        page: Page,
    },
    /// A page that left is programmed: it outlasts a power cut.
    Programmed {
        /// As when it left. Those out of the buffer come in the order in which they left.
        request: Option<u64>,
        /// The page.
        page: Page,
    },
}

/// What was told and not fetched, and the numbers that requests have outside.
#[derive(Default)]
struct Told {
    events: Vec<Event>,
    /// By the engine's numbers.
    requests: Vec<u64>,
    issued: u64,
}

impl Told {
    fn request(&self, request: u32) -> u64 {
        self.requests[request as usize]
    }
}

impl Listener for Told {
    fn issued(&mut self, request: u32) {
        let place = request as usize;
        if place >= self.requests.len() {
            self.requests.resize(place + 1, 0);
        }
        self.requests[place] = self.issued;
        self.issued += 1;
    }

    fn completed(&mut self, request: u32, at_ps: u64) {
        let request = self.request(request);
        self.events.push(Event::Complete { request, at_ps });
    }

    fn arrived(&mut self, request: u32, page: Page) {
        let request = self.request(request);
        self.events.push(Event::Arrived { request, page });
    }

    fn dropped(&mut self, page: Page) {
        self.events.push(Event::Dropped { page });
    }

    fn leaves(&mut self, request: Option<u32>, page: Page) {
        let request = request.map(|request| self.request(request));
        self.events.push(Event::Leaves { request, page });
    }

    fn programmed(&mut self, request: Option<u32>, page: Page) {
        let request = request.map(|request| self.request(request));
        self.events.push(Event::Programmed { request, page });
    }
}

/// A drive that is served.
pub struct Live {
    engine: Engine<Box<Drive>, Box<dyn Elements + Send>, VecDeque<Fed>, Told>,
    paging: Paging,
    submitted: u64,
    last_ps: u64,
}

impl Live {
    /// A drive at time 0, with a write buffer within it, if there is one.
    ///
    /// # Errors
    /// [`Error::Option`] for a buffer that stands before the drive.
    pub fn new(drive: Drive, buffer: Option<WriteBuffer>) -> Result<Self, Error> {
        if buffer
            .as_ref()
            .is_some_and(|buffer| buffer.mode != Mode::Inline)
        {
            return Err(Error::option("mode", "reshape", "inline, to be served"));
        }
        let feed = Feed {
            window: None,
            scheduler: Scheduler::Fcfs,
            end: End::Drained,
            max_outstanding: usize::MAX,
            slices: 2,
            ..Feed::default()
        };
        let paging = Paging::new(drive.spec(), Unaligned::Round);
        let elements = elements(drive.spec());
        let buffer = buffer.map(Buffer::new);
        let (drive, told) = (Box::new(drive), Told::default());
        Ok(Self {
            engine: Engine::new(drive, VecDeque::new(), elements, buffer, &feed, told),
            paging,
            submitted: 0,
            last_ps: 0,
        })
    }

    /// A request is issued at `at_ps`, or as soon after it as nothing later has happened; its time
    /// stamp does not matter. Returns its number: they count from 0. Nothing happens until
    /// [`Live::advance`].
    ///
    /// # Errors
    /// [`Error::Request`] for a range that the drive has not, or a time after 100 days.
    pub fn submit(&mut self, at_ps: u64, request: &Request) -> Result<u64, Error> {
        self.take(at_ps, request, false)
    }

    /// As [`Live::submit`], for a write that passes the buffer by: it is complete when flash has it.
    ///
    /// # Errors
    /// As [`Live::submit`].
    pub fn submit_through(&mut self, at_ps: u64, request: &Request) -> Result<u64, Error> {
        self.take(at_ps, request, true)
    }

    fn take(&mut self, at_ps: u64, request: &Request, through: bool) -> Result<u64, Error> {
        let at_ps = at_ps.max(self.last_ps).max(self.engine.now_ps);
        let fed = self.paging.fed(request, at_ps, self.submitted + 1)?;
        if at_ps > error::LONGEST_PS {
            return Err(Error::Request {
                number: self.submitted + 1,
                what: format!("at {at_ps} ps, is more than 100 days after the beginning"),
                wanted: "a drive whose clock begins anew when it rests".into(),
            });
        }
        self.engine.arrivals.push_back(Fed { through, ..fed });
        self.last_ps = at_ps;
        self.submitted += 1;
        Ok(self.submitted - 1)
    }

    /// When something happens next; `None` when nothing does without a request.
    #[must_use]
    pub fn next_ps(&self) -> Option<u64> {
        Some(self.engine.next_ps()).filter(|&next_ps| next_ps != u64::MAX)
    }

    /// When the last thing happened: nothing can be submitted before.
    #[must_use]
    pub fn now_ps(&self) -> u64 {
        self.engine.now_ps
    }

    /// Lets all happen that happens by `to_ps`, and appends it to `events` in its order.
    ///
    /// # Errors
    /// [`Error::WornOut`]: then only [`Live::cut_power`] makes sense, and no write after it.
    pub fn advance(&mut self, to_ps: u64, events: &mut Vec<Event>) -> Result<(), Error> {
        std::mem::swap(events, &mut self.engine.listener.events);
        let done = self.engine.go_on(to_ps);
        std::mem::swap(events, &mut self.engine.listener.events);
        done
    }

    /// All that is on its way is gone, and what the buffer holds: none of it will complete. What
    /// elements have begun to program they have, as far as the mapping goes.
    pub fn cut_power(&mut self) {
        self.engine.arrivals.clear();
        self.engine.listener.events.clear();
        self.engine.listener.issued = self.submitted;
        let elements = elements(self.engine.drive.spec());
        self.engine.stop(elements);
    }

    /// The clock begins anew at 0, if nothing is on its way; whether it does.
    pub fn rest(&mut self) -> bool {
        if self.next_ps().is_some() || self.in_flight() > 0 {
            return false;
        }
        let elements = elements(self.engine.drive.spec());
        self.engine.rest(elements);
        self.last_ps = 0;
        true
    }

    /// Requests that were submitted and are not complete.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.engine.requests.len() + self.engine.arrivals.len()
    }

    /// Whether a read of the page needs no flash.
    #[must_use]
    pub fn held(&self, page: Page) -> bool {
        let buffer = self.engine.buffer.as_ref();
        buffer.is_some_and(|buffer| buffer.has(page))
    }

    /// Pages in the buffer.
    #[must_use]
    pub fn buffered_pages(&self) -> u64 {
        self.engine.buffer.as_ref().map_or(0, Buffer::held)
    }

    /// Pages that the buffer can hold; 0 without one.
    #[must_use]
    pub fn buffer_capacity_pages(&self) -> u64 {
        self.engine.buffer.as_ref().map_or(0, Buffer::capacity)
    }

    /// For each element when it will have done its work, as far as that can be told.
    #[must_use]
    pub fn free_at_ps(&self) -> &[u64] {
        self.engine.elements.free_at_ps()
    }

    /// The drive: its elements and what they counted.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        &self.engine.drive
    }

    /// The drive, to be preconditioned while nothing is on its way.
    pub fn drive_mut(&mut self) -> &mut Drive {
        &mut self.engine.drive
    }

    /// What was counted of requests and pages since the beginning, or since it was taken last.
    pub fn take_tally(&mut self) -> Tally {
        let mut tally = std::mem::take(&mut self.engine.tally);
        tally.busy_ps = self.engine.slices.busy_ps();
        tally.settle();
        tally.unfinished = self.in_flight() as u64;
        tally.left_in_buffer = self.buffered_pages();
        tally
    }

    /// Pages written to the buffer, and among them those that were in it; pages read, and among
    /// them those that it had: since [`Live::take_tally`].
    #[must_use]
    pub fn buffer_hits(&self) -> [(u64, u64); 2] {
        let tally = &self.engine.tally;
        [
            (tally.buffered_writes, tally.write_hits),
            (tally.buffered_reads, tally.read_hits),
        ]
    }
}

fn elements(spec: &Spec) -> Box<dyn Elements + Send> {
    if spec.overlap == Overlap::Off {
        Box::new(Single::new(spec))
    } else {
        Box::new(Overlapped::new(spec))
    }
}
