//! A host channel: one transfer at a time; completions go before new transfers.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub request: u32,
    pub sectors: u32,
}

#[derive(Default)]
pub(super) struct Channel {
    /// What crosses it now.
    pub current: Option<Transfer>,
    /// Whether `current` brings what was read, so that its end completes the request.
    pub inbound: bool,
    /// Requests that are done but for this channel; writes wait for it and take no time.
    completions: VecDeque<Transfer>,
    transfers: VecDeque<Transfer>,
}

impl Channel {
    pub fn offer_transfer(&mut self, transfer: Transfer) {
        self.transfers.push_back(transfer);
    }

    pub fn offer_completion(&mut self, transfer: Transfer) {
        self.completions.push_back(transfer);
    }

    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    pub fn next_completion(&mut self) -> Option<Transfer> {
        self.completions.pop_front()
    }

    pub fn next_transfer(&mut self) -> Option<Transfer> {
        self.transfers.pop_front()
    }
}
