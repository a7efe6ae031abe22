//! The drive's back end: what arrives in the write buffer or at the elements, and what they finish.

use super::core::World;
use super::elements::{Context, Elements, PageJob, PageOp, Waiter};
use super::event_log::Event;
use super::event_loop::ReferenceEngine;
use super::inline_buffer::InlineBuffer;
use crate::Error;
use crate::drive::Place;
use crate::policy::{Action, DriveState, Page};

impl<W: World, E: Elements> ReferenceEngine<W, E> {
    /// A written page has crossed the channel: it goes into the buffer, or to its element.
    #[inline]
    pub fn on_page_received(&mut self, id: u32, page: Page, place: Place) -> Result<(), Error> {
        let Some(buffer) = &mut self.buffer else {
            self.core.record(Event::ProgramIssued { request: Some(id), page });
            return self.enqueue(place, PageOp::Write, Waiter::Request(id));
        };
        if self.core.requests.get(id).request.bypass {
            if buffer.discard(page) {
                self.core.record(Event::Dropped { page });
            }
            self.core.record(Event::ProgramIssued { request: Some(id), page });
            return self.enqueue(place, PageOp::Write, Waiter::Request(id));
        }
        self.core.record(Event::Buffered { request: id, page });
        let drive_state = DriveState { now_ps: self.core.now_ps, free_at_ps: self.elements.free_at_ps() };
        if buffer.write(id, page, &drive_state, &mut self.core.tally) {
            self.part_done(id, place.element);
        }
        self.advance_buffer()
    }

    /// Completes pages that got a slot, destages, and issues the evictions.
    fn advance_buffer(&mut self) -> Result<(), Error> {
        while let Some(id) = self.buffer.as_mut().and_then(InlineBuffer::pop_placed) {
            self.part_done(id, 0);
        }
        if let Some(buffer) = &mut self.buffer {
            let drive_state = DriveState { now_ps: self.core.now_ps, free_at_ps: self.elements.free_at_ps() };
            buffer.destage(&drive_state, &mut self.core.tally);
        }
        self.issue_evictions()
    }

    /// Queues the work of all pending evictions at the elements.
    pub fn issue_evictions(&mut self) -> Result<(), Error> {
        let Some(buffer) = &mut self.buffer else {
            return Ok(());
        };
        let pad_reads = buffer.pad_reads;
        let mut evicted = std::mem::take(&mut buffer.evicted);
        for eviction in &evicted {
            let (op, waiter) = match eviction.action {
                Action::Write => (PageOp::Write, Waiter::BufferSlot),
                Action::PadRead if !pad_reads => continue,
                Action::PadRead => (PageOp::Read(self.core.page_sectors), Waiter::Nobody),
                Action::PadWrite => (PageOp::Write, Waiter::Nobody),
            };
            for page in eviction.first..eviction.first + eviction.pages {
                if waiter == Waiter::BufferSlot {
                    self.core.record(Event::ProgramIssued { request: None, page });
                }
                self.enqueue(self.core.drive.place(page), op, waiter)?;
            }
        }
        evicted.clear();
        if let Some(buffer) = &mut self.buffer {
            buffer.evicted = evicted;
        }
        Ok(())
    }

    /// Queues work on one page at its element.
    #[inline]
    pub fn enqueue(&mut self, place: Place, op: PageOp, waiter: Waiter) -> Result<(), Error> {
        let job = PageJob { waiter, local: place.local, op };
        let context = Context { now_ps: self.core.now_ps, series: &mut self.core.series };
        self.elements.enqueue(&mut self.core.drive, place.element, job, context)
    }

    /// A timer of the elements fired: notifies whoever waited for the page.
    #[inline]
    pub fn on_element_done(&mut self, timer: u32) -> Result<(), Error> {
        let context = Context { now_ps: self.core.now_ps, series: &mut self.core.series };
        let Some((element, job)) = self.elements.on_timer(&mut self.core.drive, timer, context)? else {
            return Ok(());
        };
        let page = job.local * self.element_count + element;
        match job.waiter {
            Waiter::Request(id) => {
                if job.op == PageOp::Write {
                    self.core.record(Event::Programmed { request: Some(id), page });
                }
                self.page_done(id, element)?;
            }
            Waiter::BufferSlot => {
                self.core.record(Event::Programmed { request: None, page });
                if let Some(buffer) = &mut self.buffer {
                    buffer.on_programmed(page);
                }
                self.advance_buffer()?;
            }
            Waiter::Nobody => {}
        }
        Ok(())
    }
}
