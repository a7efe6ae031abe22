//! The host channels, each with a queue, first come, first served. A write at its head occupies the
//! channel; a read leaves for its elements at once. Completions go before the queue.

use std::collections::VecDeque;

use super::timers::{NEVER, after};
use crate::drive::{Place, Spec};

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Transfer {
    pub request: u32,
    pub sectors: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Waiting {
    Write(Transfer),
    /// A read, which takes no channel before its data are there.
    Read(u32),
}

#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct Channel {
    /// The transfer in progress, and when it ends.
    current: Option<Transfer>,
    until_ps: u64,
    /// Whether `current` carries read data to the host, so that its end completes the request.
    to_host: bool,
    /// Requests that are done except for this channel. Those of writes take no time on it.
    completions: VecDeque<Transfer>,
    queue: VecDeque<Waiting>,
}

impl Channel {
    #[inline]
    fn is_free(&self) -> bool {
        self.current.is_none() && self.completions.is_empty() && self.queue.is_empty()
    }

    #[inline]
    fn start(&mut self, transfer: Transfer, to_host: bool, now_ps: u64, ps_per_sector: u64) {
        self.current = Some(transfer);
        self.to_host = to_host;
        self.until_ps = after(now_ps, u64::from(transfer.sectors) * ps_per_sector);
    }
}

/// What an idle channel did.
pub(super) enum ChannelStep {
    /// A request is complete; it needed no transfer.
    Completes(u32),
    /// It is a read's turn: its pages on this channel go to their elements.
    Admits(u32),
    Started,
    /// Nothing waits, or the channel is busy.
    Idle,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Channels {
    channels: Vec<Channel>,
    ps_per_sector: u64,
}

impl Channels {
    pub fn new(spec: &Spec) -> Self {
        let idle = Channel { until_ps: NEVER, ..Channel::default() };
        Self { channels: vec![idle; spec.channels as usize], ps_per_sector: spec.channel_ps_per_sector }
    }

    pub fn count(&self) -> u32 {
        self.channels.len() as u32
    }

    /// The channel of an element.
    #[inline]
    pub fn of(&self, place: Place) -> u32 {
        if self.channels.len() == 1 { 0 } else { place.element % self.count() }
    }

    /// When the next transfer ends, and on which channel.
    #[inline]
    pub fn next(&self) -> (u64, u32) {
        let mut next = (self.channels[0].until_ps, 0);
        for (channel, number) in self.channels.iter().zip(0..).skip(1) {
            if channel.until_ps < next.0 {
                next = (channel.until_ps, number);
            }
        }
        next
    }

    /// Queues a transfer; an idle channel starts it at once.
    #[inline]
    pub fn enqueue_transfer(&mut self, channel: u32, transfer: Transfer, now_ps: u64) {
        let channel = &mut self.channels[channel as usize];
        if channel.is_free() {
            channel.start(transfer, false, now_ps, self.ps_per_sector);
        } else {
            channel.queue.push_back(Waiting::Write(transfer));
        }
    }

    /// Queues a read; false where its turn is now.
    #[inline]
    pub fn enqueue_read(&mut self, channel: u32, request: u32) -> bool {
        let channel = &mut self.channels[channel as usize];
        let waits = !channel.is_free();
        if waits {
            channel.queue.push_back(Waiting::Read(request));
        }
        waits
    }

    /// Whether the channel is idle with empty queues, so that a completion would pass at once.
    #[inline]
    pub fn is_free(&self, channel: u32) -> bool {
        self.channels[channel as usize].is_free()
    }

    /// Whether an idle channel has something to start.
    #[inline]
    pub fn are_ready(&self) -> bool {
        self.channels
            .iter()
            .any(|channel| channel.current.is_none() && !(channel.completions.is_empty() && channel.queue.is_empty()))
    }

    #[inline]
    pub fn enqueue_completion(&mut self, channel: u32, transfer: Transfer) {
        self.channels[channel as usize].completions.push_back(transfer);
    }

    /// The transfer that ends now, and whether it went to the host.
    #[inline]
    pub fn end(&mut self, channel: u32) -> Option<(Transfer, bool)> {
        let channel = &mut self.channels[channel as usize];
        channel.until_ps = NEVER;
        channel.current.take().map(|transfer| (transfer, channel.to_host))
    }

    /// An idle channel starts what waits: completions first, then the head of its queue.
    #[inline]
    pub fn start_next(&mut self, channel: u32, now_ps: u64) -> ChannelStep {
        let channel = &mut self.channels[channel as usize];
        if channel.current.is_some() {
            return ChannelStep::Idle;
        }
        let (transfer, to_host) = if let Some(done) = channel.completions.pop_front() {
            if done.sectors == 0 {
                return ChannelStep::Completes(done.request);
            }
            (done, true)
        } else {
            match channel.queue.pop_front() {
                Some(Waiting::Write(transfer)) => (transfer, false),
                Some(Waiting::Read(request)) => return ChannelStep::Admits(request),
                None => return ChannelStep::Idle,
            }
        };
        channel.start(transfer, to_host, now_ps, self.ps_per_sector);
        ChannelStep::Started
    }
}
