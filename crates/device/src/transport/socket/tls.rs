//! TLS on a stream that never waits: records of the other side become plaintext, and what is sent
//! becomes records, of which a bounded number wait for the socket.
//!
//! Which certificates count is decided by whoever makes the [`rustls::Connection`].

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustls::Connection;

use super::Stream;

/// Records that wait for the socket, in bytes.
const UNSENT_BYTES: usize = 64 << 10;

/// Memory of a connection by TLS, at most: records that wait for the socket, messages of the handshake, of which rustls
/// takes at most 64 KiB in pieces and joins them, a record that is not whole, and its plaintext.
pub const TLS_BYTES: u64 = 256 << 10;

/// Reads from the socket in one call: rustls takes 4 KiB of a record in each.
const MOST_READS: usize = 128;

/// A stream whose bytes are encrypted.
#[derive(Debug)]
pub struct TlsStream {
    socket: Stream,
    connection: Connection,
    /// What is to be sent before the first record, as it is.
    plain: Vec<u8>,
    /// Plaintext that was not read yet.
    decrypted_bytes: usize,
}

impl TlsStream {
    /// A connection over this socket, on which `plain` is sent first.
    pub fn new(socket: Stream, mut connection: Connection, plain: Vec<u8>) -> Self {
        connection.set_buffer_limit(Some(UNSENT_BYTES));
        Self { socket, connection, plain, decrypted_bytes: 0 }
    }

    pub fn socket(&self) -> &Stream {
        &self.socket
    }

    pub fn socket_mut(&mut self) -> &mut Stream {
        &mut self.socket
    }

    /// Whether there is plaintext that no descriptor tells of.
    pub fn has_plaintext(&self) -> bool {
        self.decrypted_bytes > 0
    }

    /// Whether anything waits for the socket.
    pub fn is_unsent(&self) -> bool {
        !self.plain.is_empty() || self.connection.wants_write()
    }

    /// Sends what waits for the socket; whether that was all.
    pub fn settle(&mut self) -> io::Result<bool> {
        while self.is_unsent() {
            let sent = if self.plain.is_empty() {
                self.connection.write_tls(&mut self.socket)
            } else {
                self.socket.write(&self.plain)
            };
            match sent {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    let of_plain = bytes.min(self.plain.len());
                    self.plain.drain(..of_plain);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) {
        self.connection.send_close_notify();
        // A peer that is gone, or does not read, needs not be told.
        let _ = self.settle();
        self.socket.finish_sending();
    }

    /// Takes records from the socket; whether there were any.
    fn receive(&mut self) -> io::Result<bool> {
        match self.connection.read_tls(&mut self.socket) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let received = self.connection.process_new_packets();
        // The handshake's next message; or what was wrong, as an alert.
        self.settle()?;
        let state = received.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        self.decrypted_bytes = state.plaintext_bytes_to_read();
        Ok(true)
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        for _ in 0..MOST_READS {
            match self.connection.reader().read(&mut into[filled..]) {
                Ok(0) => return Ok(filled), // there is no more room, or the other side said good-bye
                Ok(bytes) => {
                    filled += bytes;
                    self.decrypted_bytes = self.decrypted_bytes.saturating_sub(bytes);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if filled == 0 => return Err(error),
                Err(_) => break,
            }
            match self.receive() {
                Ok(true) => {}
                Err(error) if filled == 0 => return Err(error),
                Ok(false) | Err(_) => break,
            }
        }
        if filled == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(filled)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.settle()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let bytes = self.connection.writer().write_vectored(slices)?;
        self.settle()?;
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.settle()? { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
