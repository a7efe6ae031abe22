//! The interface between a protocol and the loop over its connections.

use std::sync::Arc;
use std::time::Instant;

use rustls::ServerConfig;

use super::{Endpoint, Output, SharedMemory};
use crate::command::{Answer, Drive};
use crate::transport::Probe;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As soon as what is to be sent was: the client did what it must not, or is done.
    Now,
    /// When all its commands were answered.
    WhenAnswered,
}

/// What follows bytes that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// More bytes are needed. The whole next message has this number, as far as that is known.
    Wants(usize),
    /// There are whole messages left, but the connection has as much in flight as it may.
    Blocked,
    /// Everything after what is to be sent now is encrypted, in both directions, as [`Protocol::tls`] says.
    Encrypts,
    Ends(End),
}

/// How far a protocol came with bytes that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// How many of them are done with.
    pub consumed: usize,
    pub then: Then,
}

/// A protocol: what it has in common for all connections, with a session for each.
///
/// A protocol sees bytes and no sockets, and the time only as an argument.
pub trait Protocol {
    type Session;

    /// Its name, such as `nbd`.
    fn name(&self) -> &'static str;

    /// The address that clients connect to.
    fn address(&self, at: &Endpoint) -> String;

    /// The name of the NVMe subsystem, where there is one.
    fn nqn(&self) -> Option<String> {
        None
    }

    fn bound(&mut self, _at: &Endpoint) {}

    /// How connections are encrypted that come to [`Then::Encrypts`].
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        None
    }

    /// A client connected; its commands carry the transport's number and this queue's. What it keeps
    /// beyond a small bound of its own takes memory that all connections share.
    fn open(
        &mut self,
        transport: u32,
        queue: u32,
        now: Instant,
        memory: &SharedMemory,
        out: &mut Vec<u8>,
    ) -> Self::Session;

    /// Bytes arrived after those that were not consumed, which come again before them.
    fn received(
        &mut self,
        session: &mut Self::Session,
        bytes: &[u8],
        out: &mut Vec<u8>,
        drive: &mut dyn Drive,
    ) -> Received;

    /// A command's answer is due.
    fn answer(&mut self, session: &mut Self::Session, answer: Answer, out: &mut Output, drive: &dyn Drive);

    /// A command's answer is due and its client is gone.
    fn dropped(&mut self, session: &mut Self::Session, answer: Answer);

    /// Commands that the drive has and did not answer.
    fn in_flight(&self, session: &Self::Session) -> usize;

    /// Whether the session has shared memory.
    fn holds_memory(&self, _session: &Self::Session) -> bool {
        false
    }

    /// Shared memory that it waits for may be free.
    fn memory_freed(&mut self, _session: &mut Self::Session, _out: &mut Vec<u8>) {}

    /// Some time has passed, or [`Protocol::attention`] asked for this. Returns how the connection ends, if it does.
    fn tick(&mut self, session: &mut Self::Session, now: Instant, out: &mut Vec<u8>, drive: &dyn Drive) -> Option<End>;

    /// Whether an action of one connection concerns others, so that all are to be ticked now.
    fn attention(&mut self) -> bool {
        false
    }

    fn closed(&mut self, _session: &mut Self::Session) {}

    /// A client that measures how long the transport takes.
    fn probe(&self, _at: &Endpoint) -> Option<Probe> {
        None
    }
}
