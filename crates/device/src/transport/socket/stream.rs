//! One end of a connection, which never waits: a Unix or TCP socket, in the clear or with TLS.
//!
//! With TLS, records of the other side become plaintext, and what is sent becomes records, of which a bounded number
//! wait for the socket. Whoever makes the [`rustls::Connection`] decides which certificates count.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, send, sendmsg, shutdown};
use rustls::Connection;

use super::listen::is_ready;

/// Records that wait for the socket, in bytes.
const UNSENT_BYTES: usize = 64 << 10;

/// Memory of a connection by TLS, at most: records that wait for the socket, messages of the handshake, of which rustls
/// takes at most 64 KiB in pieces and joins them, a record that is not whole, and its plaintext.
pub const TLS_BYTES: u64 = 256 << 10;

/// Reads from the socket in one call: rustls takes 4 KiB of a record in each.
const MOST_READS: usize = 128;

#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    tls: Option<Box<Tls>>,
}

#[derive(Debug)]
struct Socket(OwnedFd);

#[derive(Debug)]
struct Tls {
    connection: Connection,
    /// Plain bytes to be sent before the first record.
    plain: Vec<u8>,
    /// Plaintext that was not read yet.
    decrypted_bytes: usize,
}

impl Stream {
    /// A stream over a connected socket.
    pub fn new(socket: impl Into<OwnedFd>) -> Self {
        Self { socket: Socket(socket.into()), tls: None }
    }

    /// Encrypts all that follows, once `plain` was sent.
    pub fn encrypt(&mut self, mut connection: Connection, plain: Vec<u8>) {
        connection.set_buffer_limit(Some(UNSENT_BYTES));
        self.tls = Some(Box::new(Tls { connection, plain, decrypted_bytes: 0 }));
    }

    /// Whether there is plaintext that no descriptor tells of.
    pub fn has_plaintext(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.decrypted_bytes > 0)
    }

    /// Whether bytes that were taken to be sent wait for the socket.
    pub fn is_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_unsent())
    }

    /// Sends what was taken to be sent and waits for the socket. Returns true if that was all.
    pub fn settle(&mut self) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.settle(&mut self.socket))
    }

    /// Makes reading and writing wait, or not.
    pub fn set_nonblocking(&self, to: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self, to)?)
    }

    /// Ends the sending. A peer that is gone, or does not read, does not need to notice.
    pub fn finish_sending(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.connection.send_close_notify();
            let _ = tls.settle(&mut self.socket);
        }
        let _ = shutdown(&*self, Shutdown::Write);
    }

    /// Throws away what a client sends that was told to leave, encrypted or not. Returns false if there was nothing.
    pub fn discard(&mut self) -> io::Result<bool> {
        match self.socket.read(&mut [0; 16 << 10]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether its client hung up. What it sent before may still be there to be read.
    pub fn is_hung_up(&self) -> io::Result<bool> {
        is_ready(self, PollFlags::RDHUP)
    }
}

impl Tls {
    fn is_unsent(&self) -> bool {
        !self.plain.is_empty() || self.connection.wants_write()
    }

    fn settle(&mut self, socket: &mut Socket) -> io::Result<bool> {
        while self.is_unsent() {
            let sent =
                if self.plain.is_empty() { self.connection.write_tls(socket) } else { socket.write(&self.plain) };
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

    /// Takes records from the socket. Returns false if there were none.
    fn receive(&mut self, socket: &mut Socket) -> io::Result<bool> {
        match self.connection.read_tls(socket) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(false),
            Err(error) => return Err(error),
        }
        let received = self.connection.process_new_packets();
        // The handshake's next message; or what was wrong, as an alert.
        self.settle(socket)?;
        let state = received.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        self.decrypted_bytes = state.plaintext_bytes_to_read();
        Ok(true)
    }

    fn read(&mut self, socket: &mut Socket, into: &mut [u8]) -> io::Result<usize> {
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
            match self.receive(socket) {
                Ok(true) => {}
                Err(error) if filled == 0 => return Err(error),
                Ok(false) | Err(_) => break,
            }
        }
        if filled == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(filled) }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(into),
            Some(tls) => tls.read(&mut self.socket, into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.tls {
            None => self.socket.write(bytes),
            Some(_) => self.write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return Ok(sendmsg(&self.socket.0, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?);
        };
        if !tls.settle(&mut self.socket)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let bytes = tls.connection.writer().write_vectored(slices)?;
        tls.settle(&mut self.socket)?;
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.settle()? { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, into)?)
    }
}

impl Write for Socket {
    /// Without the signal `SIGPIPE`, which write(2) raises.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.0.as_fd()
    }
}

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> Self {
        stream.socket.0
    }
}
