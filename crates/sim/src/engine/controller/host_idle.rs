//! Tells when the host is idle, so that the SLC region is folded in the background.
//!
//! The host is idle when no request has been in the drive for some time. In a run over a trace it is
//! not idle behind the last request: nobody waits for what happens then.

use std::io::{Read, Write};
use std::ops::DerefMut;

use super::ControllerEngine;
use super::events::Event;
use crate::Error;
use crate::drive::{Drive, Folding, SlcOptions};
use crate::engine::listener::Listener;
use crate::engine::load::arrivals::Arrivals;
use crate::state::{Stored, put, take};

pub(in crate::engine) struct HostIdle {
    /// Time without a request after which the host is idle, picoseconds; `None`: it does not matter.
    after_ps: Option<u64>,
    /// Whether requests may come at any time, beside those that are known.
    pub is_open_ended: bool,
    is_idle: bool,
    /// Number of the rest between requests.
    rest: u64,
}

impl HostIdle {
    pub fn new(slc: &SlcOptions) -> Self {
        let matters = slc.region_bytes > 0 && slc.folding != Folding::Full;
        Self { after_ps: matters.then_some(slc.idle_ps), is_open_ended: false, is_idle: false, rest: 0 }
    }

    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    #[inline]
    pub fn end(&mut self) {
        self.is_idle = false;
        self.rest = self.rest.wrapping_add(1);
    }
}

impl Stored for HostIdle {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        put(output, &(self.is_idle, self.rest))
    }

    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        (self.is_idle, self.rest) = take(input)?;
        Ok(())
    }
}

impl<D, A, L> ControllerEngine<D, A, L>
where
    D: DerefMut<Target = Drive>,
    A: Arrivals,
    L: Listener,
{
    /// A request has completed: if it was the last in the drive, the host will be idle.
    #[inline]
    pub(super) fn await_idle(&mut self) {
        let Some(after_ps) = self.idle.after_ps else {
            return;
        };
        if self.core.requests.len() == 0 && (self.idle.is_open_ended || self.core.arrivals.peek().is_some()) {
            let event = Event::Idle(self.idle.rest);
            let at_ps = self.core.now_ps + after_ps;
            self.events.schedule(self.core.now_ps, at_ps, event);
        }
    }

    /// The host is idle, if no request has arrived meanwhile.
    pub(super) fn begin_idle(&mut self, rest: u64) -> Result<(), Error> {
        if self.idle.rest != rest {
            return Ok(());
        }
        self.idle.is_idle = true;
        self.start_collections()
    }
}
