//! What a controller tells its host unasked: so far, that the namespace changed (NVM Express Base
//! Specification 2.0, section 5.2).

use std::collections::VecDeque;

/// Requests that are held, at most.
pub const MAX_REQUESTS: usize = 4;

/// Events, and the host's requests for them.
#[derive(Debug, Default)]
pub struct Events {
    /// Numbers of the requests that are held.
    pub requests: VecDeque<u16>,
    /// Those that a reset dropped; their numbers are free again.
    pub dropped: Vec<u16>,
    /// The host is to be told.
    due: bool,
    /// It was told, and did not read the log since.
    told: bool,
    /// The namespace changed since the host read the log.
    changed: bool,
}

impl Events {
    /// The namespace changed; the host is told if it wants to be, and once until it reads the log.
    pub fn change(&mut self, wanted: bool) {
        self.changed = true;
        self.due = wanted && !self.told;
    }

    /// The request that is to be answered now.
    pub fn next(&mut self) -> Option<u16> {
        let request = if self.due {
            self.requests.pop_front()
        } else {
            None
        };
        if request.is_some() {
            (self.due, self.told) = (false, true);
        }
        request
    }

    /// The host reads the log: whether the namespace changed since it last did.
    pub fn read(&mut self, keeps_event: bool) -> bool {
        self.told &= keeps_event;
        std::mem::take(&mut self.changed)
    }

    /// The controller was reset.
    pub fn reset(&mut self) {
        self.dropped.extend(self.requests.drain(..));
        (self.due, self.told) = (false, false);
    }
}
