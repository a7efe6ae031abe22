//! What arrived and is not understood yet, and what is to be sent: both bounded by their users.

use std::io::{self, ErrorKind, Read, Write};

/// Room that a connection has at first, and goes back to: a few dozen requests of 4 KiB in one read.
const USUAL_BYTES: usize = 256 << 10;

/// Least room that is worth a system call.
const LEAST_ROOM_BYTES: usize = 64 << 10;

/// Bytes that arrived.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// What a read from a socket gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// So many bytes; whether there may be more.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The other side sends no more.
    Over,
}

impl Input {
    /// What arrived and was not consumed.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Forgets the first bytes.
    pub fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Reads once. `wants` is the whole message that is waited for: room for it is made as it comes
    /// in, twice as much each time, so that a claimed length alone takes no memory.
    ///
    /// # Errors
    /// As the socket says, apart from its having nothing.
    pub fn fill(&mut self, from: &mut impl Read, wants: usize) -> io::Result<Filled> {
        self.make_room(wants);
        match from.read(&mut self.bytes[self.end..]) {
            Ok(0) => Ok(Filled::Over),
            Ok(bytes) => {
                self.end += bytes;
                Ok(Filled::Bytes(bytes))
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(Filled::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    fn make_room(&mut self, wants: usize) {
        let held = self.end - self.start;
        if self.bytes.len() > USUAL_BYTES && held == 0 && wants <= USUAL_BYTES {
            self.bytes = Vec::new();
        }
        if self.bytes.is_empty() {
            self.bytes = vec![0; USUAL_BYTES];
        }
        let room = self.bytes.len() - self.end;
        let missing = wants.saturating_sub(held).min(LEAST_ROOM_BYTES);
        if room >= missing.max(LEAST_ROOM_BYTES) {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, held);
        if held == self.bytes.len() || (wants > self.bytes.len() && held * 2 > self.bytes.len()) {
            let larger = (self.bytes.len() * 2)
                .min(wants.max(USUAL_BYTES))
                .max(held + LEAST_ROOM_BYTES);
            self.bytes.resize(larger, 0);
        }
    }
}

/// Bytes to be sent.
#[derive(Debug, Default)]
pub struct Output {
    /// All of them; protocols append here.
    pub bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// How many are left to send.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends what the socket takes; whether that was all.
    ///
    /// # Errors
    /// As the socket says, apart from its being full.
    pub fn send(&mut self, to: &mut impl Write) -> io::Result<bool> {
        while self.left() > 0 {
            match to.write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.compact();
                    return Ok(false);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        self.bytes.clear();
        if self.bytes.capacity() > 8 * USUAL_BYTES {
            self.bytes = Vec::with_capacity(USUAL_BYTES);
        }
        Ok(true)
    }

    /// Gives room back when most was sent.
    fn compact(&mut self) {
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives and takes only so many bytes a call.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let bytes = self.1.min(into.len()).min(self.0.len());
            into[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    #[test]
    fn a_long_message_is_gathered_whole_however_it_trickles_in() {
        let message: Vec<u8> = (0..3_000_000u32).map(|at| at as u8).collect();
        for step in [1000, 70_000, 10_000_000] {
            let mut source = Trickle(&message, step);
            let mut input = Input::default();
            while matches!(
                input.fill(&mut source, message.len()).unwrap(),
                Filled::Bytes(_)
            ) {}
            assert_eq!(input.pending(), message, "in steps of {step}");
        }
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut input = Input::default();
        input.fill(&mut Trickle(&[7; 100], 100), 32 << 20).unwrap();
        assert_eq!(input.bytes.len(), USUAL_BYTES);
    }

    #[test]
    fn room_is_given_back_after_a_long_message() {
        let message = vec![1; 4 << 20];
        let mut input = Input::default();
        let mut source = Trickle(&message, usize::MAX);
        while matches!(
            input.fill(&mut source, message.len()).unwrap(),
            Filled::Bytes(_)
        ) {}
        input.consume(message.len());
        input.fill(&mut Trickle(&[2; 10], 10), 28).unwrap();
        assert_eq!(
            (input.bytes.len(), input.pending()),
            (USUAL_BYTES, &[2; 10][..])
        );
    }

    #[test]
    fn consumed_bytes_do_not_come_again() {
        let mut input = Input::default();
        input.fill(&mut Trickle(&[1, 2, 3, 4], 4), 1).unwrap();
        input.consume(3);
        assert_eq!(input.pending(), [4]);
        input.consume(9);
        assert!(input.pending().is_empty());
    }

    struct Full(Vec<u8>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let takes = bytes.len().min(self.1);
            if takes == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.1 -= takes;
            self.0.extend_from_slice(&bytes[..takes]);
            Ok(takes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_socket_does_not_take_is_sent_later() {
        let mut output = Output::default();
        output.bytes.extend(0..100u8);
        let mut socket = Full(Vec::new(), 70);
        assert!(!output.send(&mut socket).unwrap());
        assert_eq!(output.left(), 30);
        output.bytes.extend(100..110u8);
        socket.1 = 1000;
        assert!(output.send(&mut socket).unwrap());
        assert_eq!(socket.0, (0..110).collect::<Vec<u8>>());
    }
}
