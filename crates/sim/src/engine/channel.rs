//! The host channels: one transfer at a time on each; completions go before new transfers.

use std::collections::VecDeque;

use super::timers::NEVER;
use crate::drive::{Place, Spec};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub request: u32,
    pub sectors: u32,
}

#[derive(Clone)]
struct Channel {
    /// What crosses it now, and until when.
    current: Option<Transfer>,
    until_ps: u64,
    /// Whether `current` brings what was read, so that its end completes the request.
    inbound: bool,
    /// Requests that are done but for this channel; writes wait for it and take no time.
    completions: VecDeque<Transfer>,
    transfers: VecDeque<Transfer>,
}

impl Channel {
    #[inline]
    fn is_free(&self) -> bool {
        self.current.is_none() && self.completions.is_empty() && self.transfers.is_empty()
    }

    #[inline]
    fn begin(&mut self, transfer: Transfer, inbound: bool, now_ps: u64, ps_per_sector: u64) {
        self.current = Some(transfer);
        self.inbound = inbound;
        self.until_ps = now_ps + u64::from(transfer.sectors) * ps_per_sector;
    }
}

/// What a channel does next.
pub(super) enum Turn {
    /// A request is complete; it needed no transfer.
    Completes(u32),
    /// A transfer has begun.
    Begun,
    /// Nothing waits, or the channel is busy.
    Nothing,
}

pub(super) struct Channels {
    all: Vec<Channel>,
    ps_per_sector: u64,
}

impl Channels {
    pub fn new(spec: &Spec) -> Self {
        let idle = Channel {
            current: None,
            until_ps: NEVER,
            inbound: false,
            completions: VecDeque::new(),
            transfers: VecDeque::new(),
        };
        Self {
            all: vec![idle; spec.channels as usize],
            ps_per_sector: spec.channel_ps_per_sector,
        }
    }

    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// The channel of an element.
    #[inline]
    pub fn of(&self, place: Place) -> u32 {
        if self.all.len() == 1 {
            0
        } else {
            place.element % self.count()
        }
    }

    /// When the next transfer ends, and on which channel.
    #[inline]
    pub fn next(&self) -> (u64, u32) {
        let mut next = (self.all[0].until_ps, 0);
        for (channel, number) in self.all.iter().zip(0..).skip(1) {
            if channel.until_ps < next.0 {
                next = (channel.until_ps, number);
            }
        }
        next
    }

    /// A transfer waits for its turn, which is at once on an idle channel: nothing waits there.
    #[inline]
    pub fn offer_transfer(&mut self, channel: u32, transfer: Transfer, now_ps: u64) {
        let channel = &mut self.all[channel as usize];
        if channel.is_free() {
            channel.begin(transfer, false, now_ps, self.ps_per_sector);
        } else {
            channel.transfers.push_back(transfer);
        }
    }

    /// Whether a completion would pass at once.
    #[inline]
    pub fn is_free(&self, channel: u32) -> bool {
        self.all[channel as usize].is_free()
    }

    #[inline]
    pub fn offer_completion(&mut self, channel: u32, transfer: Transfer) {
        self.all[channel as usize].completions.push_back(transfer);
    }

    /// The transfer that ends now, and whether it came from the drive.
    #[inline]
    pub fn end(&mut self, channel: u32) -> Option<(Transfer, bool)> {
        let channel = &mut self.all[channel as usize];
        channel.until_ps = NEVER;
        channel
            .current
            .take()
            .map(|transfer| (transfer, channel.inbound))
    }

    /// An idle channel takes what waits first: completions, then transfers.
    #[inline]
    pub fn turn(&mut self, channel: u32, now_ps: u64) -> Turn {
        let channel = &mut self.all[channel as usize];
        if channel.current.is_some() {
            return Turn::Nothing;
        }
        let (transfer, inbound) = if let Some(done) = channel.completions.pop_front() {
            if done.sectors == 0 {
                return Turn::Completes(done.request);
            }
            (done, true)
        } else if let Some(transfer) = channel.transfers.pop_front() {
            (transfer, false)
        } else {
            return Turn::Nothing;
        };
        channel.begin(transfer, inbound, now_ps, self.ps_per_sector);
        Turn::Begun
    }
}
