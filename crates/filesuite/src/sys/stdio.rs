//! A C stream, fully buffered: what `fwrite` and `fread` cost is a matter of the C library.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;

use rustix::io::Errno;

use super::last_errno;
use crate::suite::Kind;

/// An open stream with a buffer of its own.
pub struct Stream {
    stream: NonNull<libc::FILE>,
    /// The stream works in it until it is closed.
    buffer: Vec<u8>,
}

impl Stream {
    /// A stream over `file`, with a buffer of `bytes`.
    pub fn over(file: OwnedFd, bytes: usize, kind: Kind) -> Result<Self, Errno> {
        let descriptor = file.as_raw_fd();
        let mode = match kind {
            Kind::Read => c"r",
            Kind::Write => c"r+",
        };
        // SAFETY: the descriptor is open and ours; the mode ends with NUL.
        let stream = unsafe { libc::fdopen(descriptor, mode.as_ptr()) };
        let stream = NonNull::new(stream).ok_or_else(last_errno)?;
        // The stream closes it from now on.
        let _ = file.into_raw_fd();
        let mut buffer = vec![0_u8; bytes];
        // SAFETY: nothing was done with the stream yet; the buffer moves into the same owner, its
        // memory stays where it is, and the stream is closed before it is freed.
        let refused = unsafe { libc::setvbuf(stream.as_ptr(), buffer.as_mut_ptr().cast(), libc::_IOFBF, bytes) };
        let this = Self { stream, buffer };
        if refused == 0 { Ok(this) } else { Err(Errno::INVAL) }
    }

    /// `fwrite` of one record; the bytes that it took.
    pub fn write(&mut self, record: &[u8]) -> Result<usize, Errno> {
        // SAFETY: the stream is open, and as many bytes as said are there.
        let taken = unsafe { libc::fwrite(record.as_ptr().cast(), 1, record.len(), self.stream.as_ptr()) };
        self.unless_failed(taken, record.len())
    }

    /// `fread` of one record; the bytes that it gave.
    pub fn read(&mut self, record: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the stream is open, and there is room for as many bytes as said.
        let given = unsafe { libc::fread(record.as_mut_ptr().cast(), 1, record.len(), self.stream.as_ptr()) };
        self.unless_failed(given, record.len())
    }

    fn unless_failed(&self, moved: usize, wanted: usize) -> Result<usize, Errno> {
        // SAFETY: the stream is open.
        if moved < wanted && unsafe { libc::ferror(self.stream.as_ptr()) } != 0 {
            return Err(last_errno());
        }
        Ok(moved)
    }

    /// `fflush`: what the buffer holds goes to the file.
    pub fn flush(&mut self) -> Result<(), Errno> {
        // SAFETY: the stream is open.
        match unsafe { libc::fflush(self.stream.as_ptr()) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Its descriptor, which stays its own.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open for as long as the stream is, which outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(libc::fileno(self.stream.as_ptr())) }
    }

    /// `fclose`, which flushes first; its error is said.
    pub fn close(self) -> Result<(), Errno> {
        let mut this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the stream is open, and nothing uses it after this; its buffer is freed after it.
        let done = unsafe { libc::fclose(this.stream.as_ptr()) };
        let error = last_errno();
        drop(std::mem::take(&mut this.buffer));
        if done == 0 { Ok(()) } else { Err(error) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open: `close` does not come here.
        unsafe { libc::fclose(self.stream.as_ptr()) };
    }
}
