//! The events of an online drive, and their record until they are fetched.

use crate::policy::Page;

/// Receives the events of an engine. By default nothing happens, so that a run over a trace pays nothing for them.
pub(super) trait Listener {
    /// A request is issued.
    fn issued(&mut self, _request: u32) {}

    /// An event. Requests have the engine's own numbers, which are used again after their completion.
    fn record(&mut self, _event: Event<u32>) {}
}

#[derive(Default)]
pub(super) struct NoListener;

impl Listener for NoListener {}

/// An event. Requests have the numbers that [`OnlineDrive::submit`](super::OnlineDrive::submit) gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<R = u64> {
    Complete {
        request: R,
        at_ps: u64,
    },
    /// A written page is in the write buffer, and replaces an older version there.
    Buffered {
        /// The request that wrote it.
        request: R,
        page: Page,
    },
    /// The buffer dropped a page: it was discarded, or a write that bypasses the buffer replaces it.
    Dropped {
        page: Page,
    },
    /// A page was queued at its element; its content at this time will be programmed.
    ProgramIssued {
        /// The request that wrote it; `None` for an eviction of the buffer.
        request: Option<R>,
        page: Page,
    },
    /// Such a page is programmed: it survives a power loss.
    Programmed {
        /// As in `ProgramIssued`. Evictions of one page are programmed in the order of issue.
        request: Option<R>,
        page: Page,
    },
}

/// Events not fetched yet, and the callers' numbers of requests.
#[derive(Default)]
pub(super) struct EventLog {
    pub events: Vec<Event>,
    /// Callers' numbers, by the engine's.
    requests: Vec<u64>,
    pub issued: u64,
}

impl Listener for EventLog {
    fn issued(&mut self, request: u32) {
        let id = request as usize;
        if id >= self.requests.len() {
            self.requests.resize(id + 1, 0);
        }
        self.requests[id] = self.issued;
        self.issued += 1;
    }

    fn record(&mut self, event: Event<u32>) {
        let number = |request: u32| self.requests[request as usize];
        self.events.push(match event {
            Event::Complete { request, at_ps } => Event::Complete { request: number(request), at_ps },
            Event::Buffered { request, page } => Event::Buffered { request: number(request), page },
            Event::Dropped { page } => Event::Dropped { page },
            Event::ProgramIssued { request, page } => Event::ProgramIssued { request: request.map(number), page },
            Event::Programmed { request, page } => Event::Programmed { request: request.map(number), page },
        });
    }
}
