//! A drive for requests that are submitted one by one. It reports events as they occur, and an emulated drive advances
//! it in real time.
//!
//! The rules are exactly those of a run over a trace: the same engine advances to a given time instead of to the end
//! (`tests/it/online_drive.rs`). There is no window and no host queue: the caller bounds the requests in flight.

use std::collections::VecDeque;

use ioassay_block::Request;

use super::controller::ControllerEngine;
use super::core::Engine;
use super::elements::parallel::ParallelElements;
use super::elements::serial::SerialElements;
use super::event_log::{Event, EventLog};
use super::event_loop::ReferenceEngine;
use super::host_queue::Scheduler;
use super::inline_buffer::InlineBuffer;
use super::load::paging::{Paging, Unaligned};
use super::load::requests::DriveRequest;
use super::timers::NEVER;
use super::{BufferMode, End, RunOptions, Tally, WriteBuffer};
use crate::drive::{Drive, Overlap};
use crate::policy::Page;
use crate::{Error, error};

type OnlineWorld = (Box<Drive>, VecDeque<DriveRequest>, EventLog);
type OnlineEngine = dyn Engine<OnlineWorld> + Send;

/// A drive with its write buffer, advanced event by event.
pub struct OnlineDrive {
    engine: Box<OnlineEngine>,
    paging: Paging,
    submitted: u64,
    last_ps: u64,
}

impl OnlineDrive {
    /// A drive at time 0, with its inline write buffer, if it has one.
    pub fn new(drive: Drive, mut buffer: Option<WriteBuffer>) -> Result<Self, Error> {
        if buffer.as_ref().is_some_and(|buffer| buffer.mode != BufferMode::Inline) {
            return Err(Error::option("mode", "reshape", "inline, to be served"));
        }
        if let Some(buffer) = &mut buffer {
            buffer.mode.check(drive.spec())?;
            buffer.policy.begin(drive.spec().mean_write_ps());
        }
        let options = RunOptions {
            window: None,
            scheduler: Scheduler::Fcfs,
            end: End::Drained,
            max_outstanding: usize::MAX,
            series_rows: 2,
            ..RunOptions::default()
        };
        let paging = Paging::new(drive.spec(), Unaligned::Round);
        let drive = Box::new(drive);
        let arrivals = VecDeque::new();
        let (controller, overlap) = (drive.spec().controller.clone(), drive.spec().overlap);
        let buffer = buffer.map(InlineBuffer::new);
        let engine: Box<OnlineEngine> = if let Some(controller) = controller {
            let mut engine = ControllerEngine::<OnlineWorld>::new(drive, &controller, arrivals, &options);
            engine.idle.is_open_ended = true;
            Box::new(engine)
        } else if overlap == Overlap::Off {
            Box::new(ReferenceEngine::<OnlineWorld, SerialElements>::new(drive, arrivals, buffer, &options))
        } else {
            Box::new(ReferenceEngine::<OnlineWorld, ParallelElements>::new(drive, arrivals, buffer, &options))
        };
        Ok(Self { engine, paging, submitted: 0, last_ps: 0 })
    }

    /// Issues a request at `at_ps`, or at the time of the latest event if that is later; its time stamp does not
    /// matter. Returns its number, counted from 0. Nothing happens until [`OnlineDrive::advance_to`].
    pub fn submit(&mut self, at_ps: u64, request: &Request) -> Result<u64, Error> {
        self.submit_at(at_ps, request, false)
    }

    /// As [`OnlineDrive::submit`], for a write that bypasses the buffer: it completes when it is programmed.
    pub fn submit_bypass(&mut self, at_ps: u64, request: &Request) -> Result<u64, Error> {
        self.submit_at(at_ps, request, true)
    }

    fn submit_at(&mut self, at_ps: u64, request: &Request, bypass: bool) -> Result<u64, Error> {
        let at_ps = at_ps.max(self.last_ps).max(self.engine.core().now_ps);
        let drive_request = self.paging.drive_request(request, at_ps, self.submitted + 1)?;
        if at_ps > error::LONGEST_PS {
            return Err(Error::Request {
                number: self.submitted + 1,
                what: format!("at {at_ps} ps, is more than 100 days after the beginning"),
                wanted: "a drive whose clock begins anew when it rests".into(),
            });
        }
        self.engine.core_mut().arrivals.push_back(DriveRequest { bypass, ..drive_request });
        self.last_ps = at_ps;
        self.submitted += 1;
        Ok(self.submitted - 1)
    }

    /// Time of the next event; `None` if there is none without a further request.
    pub fn next_ps(&self) -> Option<u64> {
        Some(self.engine.next_ps()).filter(|&next_ps| next_ps != NEVER)
    }

    /// Time of the latest event, before which nothing can be submitted.
    pub fn now_ps(&self) -> u64 {
        self.engine.core().now_ps
    }

    /// Advances to `to_ps`, and appends the events up to and including then to `events`, in order.
    pub fn advance_to(&mut self, to_ps: u64, events: &mut Vec<Event>) -> Result<(), Error> {
        std::mem::swap(events, &mut self.engine.core_mut().listener.events);
        let done = self.engine.advance_to(to_ps);
        std::mem::swap(events, &mut self.engine.core_mut().listener.events);
        done
    }

    /// Power loss: the requests in flight and the buffer's content are gone, and none of them will
    /// complete. The mapping has every page whose programming has started.
    pub fn cut_power(&mut self) {
        self.engine.core_mut().arrivals.clear();
        let log = &mut self.engine.core_mut().listener;
        log.events.clear();
        log.issued = self.submitted;
        self.engine.cut_power();
    }

    /// Restarts the clock at 0 if no request is in flight; returns false otherwise.
    pub fn reset_clock(&mut self) -> bool {
        if self.next_ps().is_some() || self.in_flight() > 0 {
            return false;
        }
        self.engine.reset_clock();
        self.last_ps = 0;
        true
    }

    /// Requests submitted and not complete.
    pub fn in_flight(&self) -> usize {
        self.engine.core().requests.len() + self.engine.core().arrivals.len()
    }

    /// Whether the buffer can serve a read of the page.
    pub fn is_buffered(&self, page: Page) -> bool {
        self.engine.is_buffered(page)
    }

    pub fn buffered_pages(&self) -> u64 {
        self.engine.buffered_pages()
    }

    /// Pages that the buffer can hold; 0 without one.
    pub fn buffer_capacity_pages(&self) -> u64 {
        self.engine.buffer_capacity_pages()
    }

    /// Estimated time at which each element will have finished its queue.
    pub fn free_at_ps(&self) -> &[u64] {
        self.engine.free_at_ps()
    }

    /// The drive: its elements and their counters.
    pub fn drive(&self) -> &Drive {
        &self.engine.core().drive
    }

    /// The drive, to be preconditioned while no request is in flight.
    pub fn drive_mut(&mut self) -> &mut Drive {
        &mut self.engine.core_mut().drive
    }

    /// Takes the tally of requests and pages since the beginning, or since the last call.
    pub fn take_tally(&mut self) -> Tally {
        let mut tally = std::mem::take(&mut self.engine.core_mut().tally);
        tally.busy_ps = self.engine.core().series.busy_ps();
        tally.record_recent();
        tally.unfinished = self.in_flight() as u64;
        tally.buffered_at_end = self.buffered_pages();
        tally
    }

    /// The counts since [`OnlineDrive::take_tally`], without busy times and work in progress.
    pub fn tally(&self) -> &Tally {
        &self.engine.core().tally
    }
}
