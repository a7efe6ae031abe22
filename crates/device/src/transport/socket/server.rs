//! The loop over the connections of one protocol: a [`Transport`].
//!
//! A connection that was busy lately is read from directly; the kernel is asked about all others, and
//! about new clients, with one system call every few polls. So a busy drive spends one call for many
//! requests and one for many answers, and an idle connection costs next to nothing.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use slab::Slab;

use super::slot::{Slot, State};
use super::{End, Endpoint, ListenError, Listener, Output, Protocol, SharedMemory, Stream};
use crate::command::{Answer, Drive};
use crate::transport::{Probe, Transport};

/// The kernel is asked once in this number of polls while connections are busy, and while none is: others of
/// the drive's transports may be.
const LOOK_EVERY: u64 = 16;
const IDLE_LOOK_EVERY: u64 = 8;

/// A connection counts as busy for this number of polls after it last sent something.
const BUSY_POLLS: u64 = 4096;

/// The clock is read once in this number of polls, and sessions are ticked in this interval.
const CLOCK_EVERY: u64 = 256;
const TICK_TIME: Duration = Duration::from_millis(100);

/// Events that the kernel reports at once.
const EVENTS: usize = 64;

/// Clients taken in one look.
const ACCEPTS: usize = 16;

/// The token of the listening socket.
const LISTENER: u64 = u64::MAX;

/// A protocol served at one place.
pub struct Server<P: Protocol> {
    protocol: P,
    transport: u32,
    limit: usize,
    listener: Listener,
    memory: SharedMemory,
    memory_changes: u64,
    epoll: OwnedFd,
    slots: Slab<Slot<P::Session>>,
    hot: Vec<u32>,
    dirty: Vec<u32>,
    polls: u64,
    ticked: Instant,
}

impl<P: Protocol> Server<P> {
    /// Listens. `transport` is the number that its commands carry; further clients than `limit` are turned away.
    pub fn bind(mut protocol: P, transport: u32, endpoint: &Endpoint, limit: usize) -> Result<Self, ListenError> {
        let listener = Listener::bind(endpoint)?;
        let watch_for_clients = || {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
            Ok(epoll)
        };
        let epoll = watch_for_clients()
            .map_err(|error: Errno| ListenError::Failed { endpoint: endpoint.clone(), source: error.into() })?;
        protocol.bound(listener.endpoint());
        Ok(Self {
            protocol,
            transport,
            limit,
            listener,
            memory: SharedMemory::default(),
            memory_changes: 0,
            epoll,
            slots: Slab::new(),
            hot: Vec::new(),
            dirty: Vec::new(),
            polls: 0,
            ticked: Instant::now(),
        })
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.listener.endpoint()
    }

    /// Asks the kernel which connections have something, and takes new clients.
    fn look(&mut self, drive: &mut dyn Drive) -> io::Result<bool> {
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let events = match epoll::wait(&self.epoll, &mut room[..], Some(&Timespec::default())) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut any = false;
        for event in events {
            match event.data.u64() {
                LISTENER => any |= self.accept(drive)?,
                token => {
                    let flags = event.flags;
                    let is = |flag| flags.intersects(flag | epoll::EventFlags::ERR | epoll::EventFlags::HUP);
                    // A client that reads again may have requests in its buffer that waited for it.
                    if is(epoll::EventFlags::OUT) {
                        self.mark_dirty(token as u32);
                    }
                    if is(epoll::EventFlags::IN) {
                        self.mark_hot(token as u32);
                    }
                    any = true;
                }
            }
        }
        Ok(any)
    }

    fn accept(&mut self, drive: &mut dyn Drive) -> io::Result<bool> {
        let mut any = false;
        for _ in 0..ACCEPTS {
            if !self.listener.has_client()? {
                break;
            }
            let mut has_room = self.slots.len() < self.limit;
            if !has_room && self.reap_disconnected(drive) {
                has_room = self.slots.len() < self.limit;
                if !has_room {
                    break; // the client waits for the answers to one that left
                }
            }
            let Some(stream) = self.listener.accept()? else {
                break;
            };
            any = true;
            // Beyond the limit the stream is dropped here, which tells the client at once.
            if has_room {
                self.open(stream);
            }
        }
        Ok(any)
    }

    /// Reads the connections of clients that left. Returns true if there are any.
    fn reap_disconnected(&mut self, drive: &mut dyn Drive) -> bool {
        let slots = self.slots.iter().filter(|(_, slot)| slot.is_leaving());
        let leaving: Vec<u32> = slots.map(|(at, _)| at as u32).collect();
        for &at in &leaving {
            self.mark_hot(at);
        }
        self.receive(drive);
        !leaving.is_empty()
    }

    fn open(&mut self, stream: Stream) {
        let entry = self.slots.vacant_entry();
        let at = entry.key() as u32;
        let token = epoll::EventData::new_u64(at.into());
        if epoll::add(&self.epoll, &stream, token, epoll::EventFlags::IN).is_err() {
            return;
        }
        let mut output = Output::default();
        let session = self.protocol.open(self.transport, at, Instant::now(), &self.memory, &mut output.bytes);
        entry.insert(Slot::new(stream, session, self.memory.share(), output));
        self.dirty.push(at);
        self.mark_hot(at);
    }

    /// The numbers of all slots.
    fn numbers(&self) -> Vec<u32> {
        self.slots.iter().map(|(at, _)| at as u32).collect()
    }

    fn mark_hot(&mut self, at: u32) {
        let hot_until = self.polls + BUSY_POLLS;
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        slot.hot_until = hot_until;
        if !std::mem::replace(&mut slot.hot, true) {
            self.hot.push(at);
        }
    }

    fn mark_dirty(&mut self, at: u32) {
        let slot = self.slots.get_mut(at as usize);
        let is_new = slot.is_some_and(|slot| !std::mem::replace(&mut slot.dirty, true));
        if is_new {
            self.dirty.push(at);
        }
    }

    /// Takes what busy connections sent.
    fn receive(&mut self, drive: &mut dyn Drive) -> bool {
        let mut any = false;
        let mut at = 0;
        while at < self.hot.len() {
            let (stays, progress) = self.receive_from(self.hot[at], drive);
            any |= progress;
            if stays {
                at += 1;
            } else {
                self.hot.swap_remove(at);
            }
        }
        any
    }

    /// Whether the connection stays busy, and whether it had anything.
    fn receive_from(&mut self, at: u32, drive: &mut dyn Drive) -> (bool, bool) {
        let Some(slot) = self.slots.get_mut(at as usize) else {
            return (false, false);
        };
        let Ok(progress) = slot.receive(&mut self.protocol, drive) else {
            slot.hot = false;
            self.close(at);
            return (false, true);
        };
        if progress {
            slot.hot_until = self.polls + BUSY_POLLS;
        }
        let (stays, sends) = (slot.stays_hot(self.polls), slot.gets_dirty(progress));
        slot.hot = stays;
        if sends {
            self.mark_dirty(at);
        }
        (stays, progress)
    }

    fn close(&mut self, at: u32) {
        let Some(slot) = self.slots.get_mut(at as usize) else {
            return;
        };
        if slot.state != State::Gone {
            slot.close();
            self.protocol.closed(&mut slot.session);
        }
        if self.protocol.in_flight(&slot.session) == 0 {
            self.slots.remove(at as usize);
        }
    }

    /// Lets connections go on that waited for memory.
    fn share_memory(&mut self) {
        for at in self.numbers() {
            let slot = &mut self.slots[at as usize];
            if slot.state != State::Open {
                continue;
            }
            self.protocol.memory_freed(&mut slot.session, &mut slot.output.bytes);
            self.mark_dirty(at);
            self.mark_hot(at);
        }
    }

    fn tick(&mut self, now: Instant, drive: &dyn Drive) {
        self.ticked = now;
        let is_short = self.memory.is_short();
        for at in self.numbers() {
            let slot = &mut self.slots[at as usize];
            if slot.state == State::Gone {
                continue;
            }
            let holds = is_short
                && (slot.memory.held_bytes() > 0 || self.protocol.holds_memory(&slot.session))
                && self.protocol.in_flight(&slot.session) == 0;
            if slot.is_late(now) || slot.memory_timed_out(now) && holds {
                self.close(at);
                continue;
            }
            if slot.state != State::Open {
                continue;
            }
            let end = self.protocol.tick(&mut slot.session, now, &mut slot.output.bytes, drive);
            if let Some(end) = end {
                slot.end(end);
            }
            if end.is_some() || slot.output.left() > 0 {
                self.mark_dirty(at);
            }
        }
    }
}

impl<P: Protocol> Transport for Server<P> {
    fn name(&self) -> &'static str {
        self.protocol.name()
    }

    fn address(&self) -> String {
        self.protocol.address(self.listener.endpoint())
    }

    fn nqn(&self) -> Option<String> {
        self.protocol.nqn()
    }

    fn poll(&mut self, drive: &mut dyn Drive) -> io::Result<bool> {
        self.polls += 1;
        let mut any = false;
        let changes = self.memory.changes();
        if changes != self.memory_changes {
            self.memory_changes = changes;
            self.share_memory();
            any = true;
        }
        let every = if self.hot.is_empty() { IDLE_LOOK_EVERY } else { LOOK_EVERY };
        if self.polls % every == 0 {
            any |= self.look(drive)?;
        }
        any |= self.receive(drive);
        if self.polls % CLOCK_EVERY == 0 || !any {
            let now = Instant::now();
            if now.duration_since(self.ticked) >= TICK_TIME {
                self.tick(now, drive);
            }
        }
        if self.protocol.attention() {
            self.tick(Instant::now(), drive);
            any = true;
        }
        Ok(any)
    }

    fn answer(&mut self, answer: Answer, drive: &dyn Drive) {
        let at = answer.command.tag.queue;
        let Some(slot) = self.slots.get_mut(at as usize) else {
            return;
        };
        // Nothing follows a request to end the connection.
        if !matches!(slot.state, State::Open | State::Ending(End::WhenAnswered)) {
            self.protocol.dropped(&mut slot.session, answer);
            if slot.state == State::Gone && self.protocol.in_flight(&slot.session) == 0 {
                self.slots.remove(at as usize);
            }
            return;
        }
        self.protocol.answer(&mut slot.session, answer, &mut slot.output, drive);
        if !slot.sends_early() {
            return self.mark_dirty(at);
        }
        let in_flight = self.protocol.in_flight(&slot.session);
        if slot.send(in_flight, &self.epoll, at.into(), drive).is_err() {
            self.close(at);
        }
    }

    fn send(&mut self, drive: &dyn Drive) -> io::Result<bool> {
        let mut resumed = false;
        while let Some(at) = self.dirty.pop() {
            let Some(slot) = self.slots.get_mut(at as usize) else {
                continue;
            };
            slot.dirty = false;
            let in_flight = self.protocol.in_flight(&slot.session);
            match slot.send(in_flight, &self.epoll, at.into(), drive) {
                Ok(made_room) => resumed |= made_room,
                Err(_) => self.close(at),
            }
        }
        Ok(resumed)
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.push(self.epoll.as_fd());
    }

    fn connections(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| slot.state != State::Gone).count()
    }

    fn disconnect(&mut self) {
        self.numbers().into_iter().for_each(|at| self.close(at));
    }

    fn share_memory(&mut self, memory: &SharedMemory) {
        self.memory = memory.clone();
    }

    fn probe(&self) -> Option<Probe> {
        self.protocol.probe(self.listener.endpoint())
    }
}
