//! The elements of an engine, and the buffer before them.

use std::ops::DerefMut;

use super::elements::{Elements, Job, Now, Waits, Work};
use super::event_loop::Engine;
use super::inline_buffer::Buffer;
use super::listener::Listener;
use super::load::arrivals::Arrivals;
use crate::Error;
use crate::drive::{Drive, Place};
use crate::policy::{Action, Outlook, Page};

impl<D, E, A, L> Engine<D, E, A, L>
where
    D: DerefMut<Target = Drive>,
    E: Elements,
    A: Arrivals,
    L: Listener,
{
    /// A written page is in the drive.
    #[inline]
    pub fn arrived(&mut self, id: u32, page: Page, place: Place) -> Result<(), Error> {
        let Some(buffer) = &mut self.buffer else {
            self.listener.leaves(Some(id), page);
            return self.enqueue(place, Work::Write, Waits::Request(id));
        };
        if self.requests.get(id).fed.through {
            if buffer.discard(page) {
                self.listener.dropped(page);
            }
            self.listener.leaves(Some(id), page);
            return self.enqueue(place, Work::Write, Waits::Request(id));
        }
        self.listener.arrived(id, page);
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

    pub fn carry_out(&mut self) -> Result<(), Error> {
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
                if waits == Waits::Place {
                    self.listener.leaves(None, page);
                }
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
    pub fn enqueue(&mut self, place: Place, work: Work, waits: Waits) -> Result<(), Error> {
        let job = Job {
            waits,
            local: place.local,
            work,
        };
        let now = Now {
            ps: self.now_ps,
            slices: &mut self.slices,
        };
        self.elements
            .offer(&mut self.drive, place.element, job, now)
    }

    #[inline]
    pub fn served(&mut self, clock: u32) -> Result<(), Error> {
        let now = Now {
            ps: self.now_ps,
            slices: &mut self.slices,
        };
        let Some((element, job)) = self.elements.strike(&mut self.drive, clock, now)? else {
            return Ok(());
        };
        let page = job.local * self.element_count + element;
        match job.waits {
            Waits::Request(id) => {
                if job.work == Work::Write {
                    self.listener.programmed(Some(id), page);
                }
                self.page_done(id, element)?;
            }
            Waits::Place => {
                self.listener.programmed(None, page);
                if let Some(buffer) = &mut self.buffer {
                    buffer.departed(page);
                }
                self.tend()?;
            }
            Waits::Nobody => {}
        }
        Ok(())
    }
}
