//! Memory that connections share, first come, first served: for long messages and for data that hosts are asked for,
//! which need more than a connection has of its own. It only counts; the bytes are its users'.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory that is shared: two of the longest messages, of 32 MiB, at a time.
pub const SHARED_BYTES: u64 = 64 << 20;

/// Memory of each connection's own, at most: what arrived (256 KiB), what is kept to be sent (the same,
/// and as much again while it grows), and data that an NVMe host was asked for.
pub const CONNECTION_BYTES: u64 = 3 << 19;

/// Memory that is shared by connections of one thread.
#[derive(Debug, Clone)]
pub struct SharedMemory {
    state: Arc<Mutex<State>>,
    /// Counts the times when memory became free for a connection that waits.
    changes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct State {
    limit_bytes: u64,
    /// More than the limit, while some is taken that could not wait.
    taken_bytes: u64,
    /// Tickets of connections that wait.
    waiting: VecDeque<u64>,
    tickets: u64,
}

impl Default for SharedMemory {
    fn default() -> Self {
        Self::new(SHARED_BYTES)
    }
}

impl SharedMemory {
    pub fn new(bytes: u64) -> Self {
        let state = State { limit_bytes: bytes, taken_bytes: 0, waiting: VecDeque::new(), tickets: 0 };
        Self { state: Arc::new(Mutex::new(state)), changes: Arc::default() }
    }

    /// A connection's share, of which it has nothing yet.
    pub fn share(&self) -> Share {
        Share { memory: self.clone(), held_bytes: 0, ticket: None }
    }

    /// When this number changes, connections that wait may try again.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub fn is_short(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of one connection. It is given back when dropped.
#[derive(Debug)]
pub struct Share {
    memory: SharedMemory,
    pub held_bytes: u64,
    ticket: Option<u64>,
}

impl Share {
    /// Takes this much more. If that is impossible now, the connection waits in line, and repeats this call later. One
    /// that takes nothing leaves the line.
    pub fn take(&mut self, bytes: u64) -> bool {
        if bytes == 0 {
            self.leave_line();
            return true;
        }
        let mut state = self.memory.state();
        let is_first = state.waiting.front().is_none_or(|&first| Some(first) == self.ticket);
        if is_first && state.taken_bytes + bytes <= state.limit_bytes {
            state.taken_bytes += bytes;
            self.held_bytes += bytes;
            if self.ticket.take().is_some() {
                state.waiting.pop_front();
                self.memory.changes.fetch_add(1, Ordering::Relaxed);
            }
            return true;
        }
        if self.ticket.is_none() {
            state.tickets += 1;
            self.ticket = Some(state.tickets);
            let ticket = state.tickets;
            state.waiting.push_back(ticket);
        }
        false
    }

    /// Takes this much for bytes that exist already, in place of others that are about to be given back.
    pub fn take_now(&mut self, bytes: u64) {
        self.held_bytes += bytes;
        self.memory.state().taken_bytes += bytes;
    }

    pub fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.held_bytes);
        if bytes == 0 {
            return;
        }
        self.held_bytes -= bytes;
        let mut state = self.memory.state();
        state.taken_bytes -= bytes;
        if !state.waiting.is_empty() {
            self.memory.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives all back, and waits no longer.
    pub fn clear(&mut self) {
        self.give_back(self.held_bytes);
        self.leave_line();
    }

    fn leave_line(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.memory.state().waiting.retain(|&other| other != ticket);
            self.memory.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn waits(&self) -> bool {
        self.ticket.is_some()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_is_served_first_however_little_others_want() {
        let memory = SharedMemory::new(100);
        let mut shares: Vec<Share> = (0..4).map(|_| memory.share()).collect();
        assert!(shares[0].take(70));
        assert!(!memory.is_short());
        assert!(!shares[1].take(60));
        assert!(!shares[2].take(1));
        assert!(memory.is_short() && shares[1].waits());
        let before = memory.changes();
        shares[0].give_back(30);
        assert_ne!(memory.changes(), before);
        assert!(!shares[2].take(1));
        assert!(shares[1].take(60));
        assert!(!shares[3].take(1));
        assert_eq!([shares[1].held_bytes, shares[3].held_bytes], [60, 0]);
        // Who is gone or needs it no longer is passed over.
        assert!(shares[3].take(0) && !shares[3].waits());
        shares.remove(2);
        shares[0].clear();
        assert!(shares[2].take(40) && !memory.is_short());
        drop(shares);
        assert!(memory.share().take(100));
    }

    #[test]
    fn no_more_is_given_back_than_was_taken() {
        let memory = SharedMemory::new(10);
        let (mut one, mut other) = (memory.share(), memory.share());
        assert!(one.take(4) && other.take(6));
        one.give_back(9);
        assert!(!other.take(5) && other.take(4));
    }
}
