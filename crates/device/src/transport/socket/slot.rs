//! One connection of a server: its socket, its buffers, its session and its state.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustls::{ServerConfig, ServerConnection};

use super::{End, Filled, Input, Output, Protocol, Share, Stream, Then};
use crate::command::Drive;

/// Bytes that wait to be sent from which on nothing more is read from that client: with the drive's
/// content, and those that are kept for it.
const PAUSE_BYTES: usize = 4 << 20;
const PAUSE_KEPT_BYTES: usize = 256 << 10;

/// Bytes that are worth a system call of their own: the client takes the first answers of many while
/// the others are made. As much as a segment of TCP over loopback has.
const EARLY_BYTES: usize = 64_000;

/// How long a message may be on its way once it has begun.
const MESSAGE_TIME: Duration = Duration::from_secs(60);

/// How long a client that sends nothing may keep memory that others wait for.
const KEEPING_TIME: Duration = Duration::from_secs(10);

/// How long a client may take to leave after it was told to.
const LINGER_TIME: Duration = Duration::from_secs(2);

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Nothing is read any more, but answers that are due are still sent.
    Ending(End),
    /// All was sent. What still arrives is thrown away, so that the kernel does not reset the
    /// connection before the client has read the last words.
    Lingering,
    /// The socket is gone; the slot waits for answers of the drive.
    Gone,
}

pub(super) struct Slot<S> {
    stream: Option<Stream>,
    pub(super) session: S,
    input: Input,
    /// The connection's share of the memory for long messages.
    pub(super) memory: Share,
    pub(super) output: Output,
    wants: usize,
    blocked: bool,
    pub(super) state: State,
    interest: epoll::EventFlags,
    /// The poll until which it is read from without asking the kernel first.
    pub(super) hot_until: u64,
    pub(super) hot: bool,
    pub(super) dirty: bool,
    received: u64,
    consumed: u64,
    /// How long nothing has arrived.
    silence: Stall,
    /// How long the present state, or the present message, has lasted.
    progress: Stall,
}

/// Since when a counter has had its value.
#[derive(Default)]
struct Stall(Option<(Instant, u64)>);

impl Stall {
    fn has_lasted(&mut self, now: Instant, counter: u64, limit: Duration) -> bool {
        match self.0 {
            Some((since, before)) if before == counter => now.duration_since(since) > limit,
            _ => {
                self.0 = Some((now, counter));
                false
            }
        }
    }
}

impl<S> Slot<S> {
    pub(super) fn new(stream: Stream, session: S, memory: Share, output: Output) -> Self {
        Self {
            stream: Some(stream),
            session,
            input: Input::default(),
            memory,
            output,
            wants: 1,
            blocked: false,
            state: State::Open,
            interest: epoll::EventFlags::IN,
            hot_until: 0,
            hot: false,
            dirty: true,
            received: 0,
            consumed: 0,
            silence: Stall::default(),
            progress: Stall::default(),
        }
    }

    /// Whether it is to be looked at in the next poll whatever the kernel says: it was busy lately, has messages that were
    /// blocked, or bytes to be read that no descriptor tells of.
    pub(super) fn stays_hot(&self, polls: u64) -> bool {
        let has_plaintext = || self.stream.as_ref().is_some_and(Stream::has_plaintext);
        self.hot_until > polls || self.blocked && self.state == State::Open || has_plaintext()
    }

    /// Whether there is something to be sent after `progress`, or encrypted bytes wait for the socket, or the kernel is to
    /// be asked for less.
    pub(super) fn gets_dirty(&self, progress: bool) -> bool {
        progress && self.output.left() > 0
            || self.stream.as_ref().is_some_and(Stream::is_unsent)
            || matches!(self.state, State::Ending(_))
            || self.memory.waits()
    }

    /// Whether it will be free without further words of its client.
    pub(super) fn is_leaving(&self) -> bool {
        let stream = self.stream.as_ref();
        self.state != State::Open || stream.is_some_and(|stream| stream.is_hung_up().unwrap_or(false))
    }

    /// Takes what arrived. Returns false if nothing did.
    pub(super) fn receive<P: Protocol<Session = S>>(
        &mut self,
        protocol: &mut P,
        drive: &mut dyn Drive,
    ) -> io::Result<bool> {
        let paused = self.is_paused();
        let Some(stream) = &mut self.stream else {
            return Ok(false);
        };
        match self.state {
            State::Open if paused => return Ok(false),
            State::Open => {}
            State::Lingering => return stream.discard(),
            State::Ending(_) | State::Gone => return Ok(false),
        }
        if !self.blocked {
            let room = self.input.room_for(self.wants);
            let missing = Input::extra_bytes(room).saturating_sub(self.memory.held_bytes());
            if !self.memory.take(missing) {
                return Ok(false);
            }
            self.input.make_room(room);
            match self.input.fill(stream) {
                Ok(Filled::Bytes(bytes)) => self.received += bytes as u64,
                Ok(Filled::Nothing) => return Ok(false),
                Ok(Filled::Over) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // What TLS does not take: the client has time to read why.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.end(End::Now);
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.understand(protocol, drive))
    }

    fn understand<P: Protocol<Session = S>>(&mut self, protocol: &mut P, drive: &mut dyn Drive) -> bool {
        let pending = self.input.pending();
        let received = protocol.received(&mut self.session, pending, &mut self.output.bytes, drive);
        let was_blocked = std::mem::replace(&mut self.blocked, received.then == Then::Blocked);
        self.input.consume(received.consumed);
        self.consumed += received.consumed as u64;
        match received.then {
            Then::Wants(bytes) => self.wants = bytes,
            Then::Blocked => {}
            Then::Encrypts => self.encrypt(protocol.tls()),
            Then::Ends(end) => self.end(end),
        }
        self.give_back();
        received.consumed > 0 || !was_blocked
    }

    /// What follows is encrypted. A client may send nothing between its agreement and the handshake.
    fn encrypt(&mut self, tls: Option<Arc<ServerConfig>>) {
        let connection = tls.and_then(|tls| ServerConnection::new(tls).ok());
        match (connection, &mut self.stream) {
            (Some(connection), Some(stream)) if self.input.pending().is_empty() => {
                stream.encrypt(connection.into(), self.output.take());
                self.wants = 1;
            }
            _ => self.end(End::Now),
        }
    }

    /// Gives memory back that the present message does not need.
    fn give_back(&mut self) {
        let held_bytes = self.memory.held_bytes();
        if held_bytes == 0 {
            return;
        }
        let room = match (self.state, self.blocked) {
            (State::Open, true) => self.input.pending().len(),
            (State::Open, false) => self.input.room_for(self.wants),
            _ => 0,
        };
        let extra = Input::extra_bytes(room);
        if extra < held_bytes {
            self.input.make_room(room);
            self.memory.give_back(held_bytes - extra);
        }
    }

    pub(super) fn end(&mut self, end: End) {
        if self.state == State::Open {
            (self.state, self.progress) = (State::Ending(end), Stall::default());
            self.input = Input::default();
            self.memory.clear();
        }
    }

    /// Whether enough is to be sent for a system call of its own, and the socket has room as far as is known.
    pub(super) fn sends_early(&self) -> bool {
        self.output.left() >= EARLY_BYTES && !self.interest.contains(epoll::EventFlags::OUT)
    }

    /// Sends what is due. Returns true if that ends a pause, so that the client is read from again.
    pub(super) fn send(
        &mut self,
        in_flight: usize,
        epoll: &OwnedFd,
        token: u64,
        drive: &dyn Drive,
    ) -> io::Result<bool> {
        let paused = self.is_paused();
        let Some(stream) = &mut self.stream else {
            return Ok(false);
        };
        let all = self.output.left() == 0 || self.output.send(stream, drive)?;
        let all = stream.settle()? && all;
        let over = match self.state {
            State::Ending(End::Now) => all,
            State::Ending(End::WhenAnswered) => all && in_flight == 0,
            _ => false,
        };
        if over {
            stream.finish_sending();
            (self.state, self.progress) = (State::Lingering, Stall::default());
        }
        self.watch(all, epoll, token)?;
        Ok(paused && !self.is_paused())
    }

    /// Whether too much waits to be sent, so that nothing more is read.
    fn is_paused(&self) -> bool {
        self.output.left() > PAUSE_BYTES || self.output.kept() > PAUSE_KEPT_BYTES
    }

    /// Asks the kernel for what is waited for, and only for that.
    fn watch(&mut self, all_sent: bool, epoll: &OwnedFd, token: u64) -> io::Result<()> {
        let mut interest = epoll::EventFlags::empty();
        interest.set(epoll::EventFlags::OUT, !all_sent);
        let reads = match self.state {
            State::Open => !self.is_paused() && !self.memory.waits(),
            State::Lingering => true,
            State::Ending(_) | State::Gone => false,
        };
        interest.set(epoll::EventFlags::IN, reads);
        if let (Some(stream), true) = (&self.stream, interest != self.interest) {
            epoll::modify(epoll, stream, epoll::EventData::new_u64(token), interest)?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Whether its time is up: for a message that does not end, for reading the last answers, or for leaving. A client
    /// that does not read its answers has no limit of time, because what is kept for it is bounded.
    pub(super) fn is_late(&mut self, now: Instant) -> bool {
        match self.state {
            State::Lingering => self.progress.has_lasted(now, 0, LINGER_TIME),
            State::Ending(_) => self.progress.has_lasted(now, 0, MESSAGE_TIME),
            State::Gone => false,
            State::Open
                if self.blocked || self.is_paused() || self.memory.waits() || self.input.pending().is_empty() =>
            {
                self.progress = Stall::default();
                false
            }
            State::Open => self.progress.has_lasted(now, self.consumed, MESSAGE_TIME),
        }
    }

    /// Whether it has been silent for too long to keep memory that other connections wait for.
    pub(super) fn memory_timed_out(&mut self, now: Instant) -> bool {
        self.silence.has_lasted(now, self.received, KEEPING_TIME)
    }

    /// Closes the socket; the session stays until its last answer.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.state = State::Gone;
        self.input = Input::default();
        self.memory.clear();
        self.output = Output::default();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::super::SharedMemory;
    use super::*;

    fn slot() -> Slot<()> {
        let (stream, _) = UnixStream::pair().unwrap();
        let memory = SharedMemory::default().share();
        Slot::new(Stream::new(stream), (), memory, Output::default())
    }

    /// Begins a message that does not end.
    fn begin_message(slot: &mut Slot<()>) {
        slot.input.make_room(28);
        slot.input.fill(&mut &b"half a mess"[..]).unwrap();
    }

    #[test]
    fn only_clients_that_hold_something_up_are_late() {
        type Change = fn(&mut Slot<()>);
        let cases: [(&str, Change, u64, Option<u64>); 4] = [
            ("sends nothing", |_| (), 10_000, None),
            ("never ends its message", begin_message, 59, Some(61)),
            (
                "does not read its answers",
                |slot| {
                    begin_message(slot);
                    slot.output.bytes.resize(PAUSE_BYTES + 1, 0);
                },
                10_000,
                None,
            ),
            ("does not leave when the connection ends", |slot| slot.state = State::Lingering, 1, Some(3)),
        ];
        for (client, prepare, has_s, late_s) in cases {
            let is_late_after = |seconds| {
                let (mut slot, start) = (slot(), Instant::now());
                prepare(&mut slot);
                slot.is_late(start);
                slot.is_late(start + Duration::from_secs(seconds))
            };
            assert!(!is_late_after(has_s), "{client}");
            assert!(late_s.is_none_or(is_late_after), "{client}");
        }
    }
}
