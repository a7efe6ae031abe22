//! Bytes that arrived and that no protocol has consumed, in a buffer whose size its user bounds.

use std::io::{self, ErrorKind, Read};

/// Room of a connection's own: a few dozen requests of 4 KiB in one read.
const USUAL_BYTES: usize = 256 << 10;

/// Least room that is worth a system call.
const LEAST_ROOM_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// The result of a read from a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// This number of bytes. There may be more.
    Bytes(usize),
    Nothing,
    /// The other side sends no more.
    Over,
}

impl Input {
    /// Bytes that arrived and were not consumed.
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room to be made for a message of this length: all of it only when the usual room is full, so
    /// that an announced length alone takes nothing.
    pub fn room_for(&self, message_bytes: usize) -> usize {
        let is_full = self.pending().len() >= USUAL_BYTES;
        if is_full { message_bytes } else { message_bytes.min(USUAL_BYTES) }
    }

    /// Memory that such room takes beyond the usual.
    pub fn extra_bytes(room_bytes: usize) -> u64 {
        room_bytes.saturating_sub(USUAL_BYTES) as u64
    }

    /// Makes this much room, from the first byte that was not consumed on, and gives back what is more.
    pub fn make_room(&mut self, room_bytes: usize) {
        let held = self.pending().len();
        let capacity = room_bytes.max(USUAL_BYTES).max(held + 1);
        if capacity != self.bytes.len() {
            let mut bytes = vec![0; capacity];
            bytes[..held].copy_from_slice(self.pending());
            (self.bytes, self.start, self.end) = (bytes, 0, held);
        }
        let missing = room_bytes.saturating_sub(held).clamp(1, LEAST_ROOM_BYTES);
        if self.bytes.len() - self.end < missing {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held);
        }
    }

    /// Reads once, into the room that there is.
    pub fn fill(&mut self, from: &mut impl Read) -> io::Result<Filled> {
        match from.read(&mut self.bytes[self.end..]) {
            Ok(0) => Ok(Filled::Over),
            Ok(bytes) => {
                self.end += bytes;
                Ok(Filled::Bytes(bytes))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(Filled::Nothing),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_gathered_whole_however_it_trickles_in() {
        let message: Vec<u8> = (0..3_000_000u32).map(|at| at as u8).collect();
        for step in [1000, 70_000, 10_000_000] {
            let (mut source, mut input) = (&message[..], Input::default());
            while input.pending().len() < message.len() {
                fill(&mut input, &mut source.by_ref().take(step), message.len());
            }
            assert_eq!(input.pending(), message, "in steps of {step}");
            // Then its room is given back.
            assert_eq!(input.bytes.len(), message.len());
            input.consume(message.len());
            fill(&mut input, &mut &[2; 10][..], 28);
            assert_eq!((input.bytes.len(), input.pending()), (USUAL_BYTES, &[2; 10][..]));
        }
    }

    /// Fills it from a source, for a message of this length.
    fn fill(input: &mut Input, source: &mut impl Read, message_bytes: usize) {
        input.make_room(input.room_for(message_bytes));
        assert!(matches!(input.fill(source), Ok(Filled::Bytes(_))));
    }

    #[test]
    fn an_announced_length_takes_no_memory() {
        let mut input = Input::default();
        fill(&mut input, &mut &[7; 100][..], 32 << 20);
        fill(&mut input, &mut &[7; 100][..], 32 << 20);
        assert_eq!(input.bytes.len(), USUAL_BYTES);
        assert_eq!(Input::extra_bytes(input.room_for(32 << 20)), 0);
    }

    #[test]
    fn consumed_bytes_do_not_come_again() {
        let mut input = Input::default();
        fill(&mut input, &mut &[1, 2, 3, 4][..], 1);
        input.consume(3);
        assert_eq!(input.pending(), [4]);
        input.consume(9);
        assert!(input.pending().is_empty());
    }

    #[test]
    fn there_is_room_for_a_byte_more_at_least() {
        let all = vec![3; 3 * USUAL_BYTES];
        let (mut source, mut input) = (&all[..], Input::default());
        for at in 1..=3 * USUAL_BYTES / 1000 {
            let more = input.pending().len() + 1;
            fill(&mut input, &mut source, more);
            input.consume(if at % 2 == 0 { 1500 } else { 1 });
            if source.is_empty() {
                break;
            }
        }
    }
}
