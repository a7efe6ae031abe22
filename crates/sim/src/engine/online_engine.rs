//! What an online drive needs of the engine that advances it.

use std::collections::VecDeque;

use super::controller::ControllerEngine;
use super::elements::Elements;
use super::elements::parallel::ParallelElements;
use super::elements::serial::SerialElements;
use super::event_log::EventLog;
use super::event_loop::Engine;
use super::inline_buffer::InlineBuffer;
use super::load::requests::DriveRequest;
use super::tally::Tally;
use crate::Error;
use crate::drive::{Drive, Overlap, Spec};
use crate::policy::Page;

type ElementEngine = Engine<Box<Drive>, Box<dyn Elements + Send>, VecDeque<DriveRequest>, EventLog>;
type OnlineController = ControllerEngine<Box<Drive>, VecDeque<DriveRequest>, EventLog>;

/// An engine that is advanced step by step.
pub(super) trait OnlineEngine: Send {
    /// Time of the next event; `NEVER` without one.
    fn next_ps(&self) -> u64;
    fn advance_to(&mut self, until_ps: u64) -> Result<(), Error>;
    /// Power loss, behind the requests that have not arrived.
    fn cut_power(&mut self);
    fn reset_clock(&mut self);
    fn now_ps(&self) -> u64;
    fn free_at_ps(&self) -> &[u64];
    /// Busy time of each element.
    fn busy_ps(&self) -> Vec<u64>;
    /// Requests that have arrived and are not complete.
    fn in_flight(&self) -> usize;
    fn arrivals(&self) -> &VecDeque<DriveRequest>;
    fn arrivals_mut(&mut self) -> &mut VecDeque<DriveRequest>;
    fn log_mut(&mut self) -> &mut EventLog;
    fn tally(&self) -> &Tally;
    fn tally_mut(&mut self) -> &mut Tally;
    fn drive(&self) -> &Drive;
    fn drive_mut(&mut self) -> &mut Drive;
    /// Whether the buffer can serve a read of the page.
    fn is_buffered(&self, page: Page) -> bool;
    fn buffered_pages(&self) -> u64;
    /// Pages that the buffer can hold; 0 without one.
    fn buffer_capacity_pages(&self) -> u64;
}

/// The methods that only name a field of both engines.
macro_rules! fields {
    () => {
        fn next_ps(&self) -> u64 {
            self.next_ps()
        }

        fn advance_to(&mut self, until_ps: u64) -> Result<(), Error> {
            self.advance_to(until_ps)
        }

        fn now_ps(&self) -> u64 {
            self.now_ps
        }

        fn busy_ps(&self) -> Vec<u64> {
            self.series.busy_ps()
        }

        fn in_flight(&self) -> usize {
            self.requests.len()
        }

        fn arrivals(&self) -> &VecDeque<DriveRequest> {
            &self.arrivals
        }

        fn arrivals_mut(&mut self) -> &mut VecDeque<DriveRequest> {
            &mut self.arrivals
        }

        fn log_mut(&mut self) -> &mut EventLog {
            &mut self.listener
        }

        fn tally(&self) -> &Tally {
            &self.tally
        }

        fn tally_mut(&mut self) -> &mut Tally {
            &mut self.tally
        }

        fn drive(&self) -> &Drive {
            &self.drive
        }

        fn drive_mut(&mut self) -> &mut Drive {
            &mut self.drive
        }
    };
}

impl OnlineEngine for ElementEngine {
    fields!();

    fn cut_power(&mut self) {
        let elements = elements(self.drive.spec());
        self.cut_power(elements);
    }

    fn reset_clock(&mut self) {
        let elements = elements(self.drive.spec());
        self.reset_clock(elements);
    }

    fn free_at_ps(&self) -> &[u64] {
        self.elements.free_at_ps()
    }

    fn is_buffered(&self, page: Page) -> bool {
        let buffer = self.buffer.as_ref();
        buffer.is_some_and(|buffer| buffer.contains(page))
    }

    fn buffered_pages(&self) -> u64 {
        self.buffer.as_ref().map_or(0, InlineBuffer::held_pages)
    }

    fn buffer_capacity_pages(&self) -> u64 {
        self.buffer.as_ref().map_or(0, InlineBuffer::capacity_pages)
    }
}

impl OnlineEngine for OnlineController {
    fields!();

    fn cut_power(&mut self) {
        self.cut_power();
    }

    fn reset_clock(&mut self) {
        self.reset_clock();
    }

    fn free_at_ps(&self) -> &[u64] {
        self.free_at_ps()
    }

    fn is_buffered(&self, page: Page) -> bool {
        self.cache.contains(page)
    }

    fn buffered_pages(&self) -> u64 {
        self.cache.staged_pages() as u64
    }

    fn buffer_capacity_pages(&self) -> u64 {
        self.cache.capacity() as u64
    }
}

/// The elements of a drive without a controller.
pub(super) fn elements(spec: &Spec) -> Box<dyn Elements + Send> {
    if spec.overlap == Overlap::Off {
        Box::new(SerialElements::new(spec))
    } else {
        Box::new(ParallelElements::new(spec))
    }
}
