//! The events of an online drive, and their record until they are fetched.

use super::listener::Listener;
use crate::policy::Page;

/// An event. Requests have the numbers that [`OnlineDrive::submit`](super::OnlineDrive::submit) gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Complete {
        request: u64,
        at_ps: u64,
    },
    /// A written page is in the write buffer, and replaces an older version there.
    Buffered {
        /// The request that wrote it.
        request: u64,
        page: Page,
    },
    /// The buffer dropped a page: it was discarded, or a write that bypasses the buffer replaces it.
    Dropped {
        page: Page,
    },
    /// A page was queued at its element; its content at this time will be programmed.
    ProgramIssued {
        /// The request that wrote it; `None` for an eviction of the buffer.
        request: Option<u64>,
        page: Page,
    },
    /// Such a page is programmed: it survives a power loss.
    Programmed {
        /// As in `ProgramIssued`. Evictions of one page are programmed in the order of issue.
        request: Option<u64>,
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

impl EventLog {
    fn request(&self, request: u32) -> u64 {
        self.requests[request as usize]
    }
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

    fn completed(&mut self, request: u32, at_ps: u64) {
        let request = self.request(request);
        self.events.push(Event::Complete { request, at_ps });
    }

    fn buffered(&mut self, request: u32, page: Page) {
        let request = self.request(request);
        self.events.push(Event::Buffered { request, page });
    }

    fn dropped(&mut self, page: Page) {
        self.events.push(Event::Dropped { page });
    }

    fn program_issued(&mut self, request: Option<u32>, page: Page) {
        let request = request.map(|request| self.request(request));
        self.events.push(Event::ProgramIssued { request, page });
    }

    fn programmed(&mut self, request: Option<u32>, page: Page) {
        let request = request.map(|request| self.request(request));
        self.events.push(Event::Programmed { request, page });
    }
}
