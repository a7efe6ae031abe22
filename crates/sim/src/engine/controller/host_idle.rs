//! Tells when the host is idle, so that the SLC region is folded in the background.
//!
//! The host is idle when no request has been in the drive for some time. In a run over a trace it is
//! not idle behind the last request: nobody waits for what happens then.

use super::ControllerEngine;
use super::events::Event;
use crate::Error;
use crate::drive::{Folding, SlcOptions};
use crate::engine::core::{Engine, World};
pub(in crate::engine) struct HostIdle {
    /// Time without a request after which the host is idle, picoseconds; `None`: it does not matter.
    after_ps: Option<u64>,
    /// Whether requests may come at any time, beside those that are known.
    pub is_open_ended: bool,
    pub is_idle: bool,
    /// Number of the rest between requests.
    pub rest: u64,
}

impl HostIdle {
    pub fn new(slc: &SlcOptions) -> Self {
        let matters = slc.region_bytes > 0 && slc.folding != Folding::Full;
        Self { after_ps: matters.then_some(slc.idle_ps), is_open_ended: false, is_idle: false, rest: 0 }
    }

    #[inline]
    pub fn end(&mut self) {
        self.is_idle = false;
        self.rest = self.rest.wrapping_add(1);
    }
}

impl<W: World> ControllerEngine<W> {
    /// No request comes for some time, after which the drive finishes what it does.
    pub fn rest(&mut self, rest_ps: u64) -> Result<(), Error> {
        self.idle.is_open_ended = true;
        self.await_idle();
        self.advance_to(rest_ps)?;
        self.idle = HostIdle::new(&self.flash.controller.slc);
        Ok(())
    }

    /// A request has completed: if it was the last in the drive, the host will be idle.
    #[inline]
    pub(super) fn await_idle(&mut self) {
        let Some(after_ps) = self.idle.after_ps else {
            return;
        };
        if self.core.requests.len() == 0 && (self.idle.is_open_ended || !self.core.is_exhausted()) {
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
