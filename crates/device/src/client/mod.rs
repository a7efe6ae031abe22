//! Clients of the drive: they measure a transport's floor, and load it in benches and tests.
//!
//! Clients batch: many requests leave in one system call and many answers are taken from one. They are no complete
//! initiators, and misbehaving drives are not tolerated.

pub mod nbd;
pub mod nvme;
pub mod nvme_tcp;
pub mod vfio_user;
mod wire;

use std::io;
use std::time::{Duration, Instant};

pub use wire::{Waiting, Wire};

/// A request to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    Read {
        offset_bytes: u64,
        length_bytes: u32,
    },
    Write {
        offset_bytes: u64,
        data: &'a [u8],
        fua: bool,
    },
    /// Makes durable all that was answered.
    Flush,
    /// A range is not needed any more.
    Trim {
        offset_bytes: u64,
        length_bytes: u32,
    },
    WriteZeroes {
        offset_bytes: u64,
        length_bytes: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The number that the request was given.
    pub tag: u16,
    /// 0, or the protocol's own error: an NBD error, or an NVM Express status field without its phase bit.
    pub error: u32,
    /// What NVM Express answers besides.
    pub result: u64,
    pub data: &'a [u8],
}

/// A connection over which requests can be sent and answers taken, in batches.
pub trait Initiator {
    fn size_bytes(&self) -> u64;

    /// Bytes of its logical block.
    fn block_bytes(&self) -> u32;

    /// Keeps a request to be sent. `tag` must not be in flight.
    fn submit(&mut self, tag: u16, request: Request<'_>);

    fn push(&mut self) -> io::Result<()>;

    /// Waits for at least one answer, takes all that have arrived, and returns their number.
    fn reap(&mut self, done: &mut dyn FnMut(Completion<'_>)) -> io::Result<usize>;

    /// Sends one request, waits for its answer, and returns what was read. Nothing else may be in flight.
    fn call(&mut self, request: Request<'_>) -> io::Result<Vec<u8>> {
        self.submit(0, request);
        Ok(self.finish()?.1)
    }

    /// Sends the one request that is kept: the answer's result and data.
    fn finish(&mut self) -> io::Result<(u64, Vec<u8>)> {
        self.push()?;
        let mut answer = None;
        while answer.is_none() {
            self.reap(&mut |done| answer = Some((done.error, done.result, done.data.to_vec())))?;
        }
        let (error, result, data) = answer.ok_or(io::ErrorKind::UnexpectedEof)?;
        accepted(error).map(|()| (result, data))
    }
}

/// An error where there is one.
pub fn accepted(error: u32) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::other(Refused { error })) }
}

/// The drive answered with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the drive answered with error {error:#x}")]
pub struct Refused {
    pub error: u32,
}

/// The error of what cannot be understood.
fn nonsense(sender: &str, what: &str) -> io::Error {
    let text = format!("the {sender} sent {what} that cannot be understood");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Reads one page after the other at depth one for this time. Returns the nanoseconds of each read.
pub fn overhead(initiator: &mut dyn Initiator, for_ms: u64) -> io::Result<Vec<u64>> {
    let block_bytes = initiator.block_bytes();
    let whole_page = initiator.size_bytes() >= 4096;
    let length_bytes = if whole_page { block_bytes.max(4096) } else { block_bytes };
    let pages = (initiator.size_bytes() / u64::from(length_bytes)).max(1);
    let mut took_ns = Vec::new();
    let start = Instant::now();
    let mut error = 0;
    while start.elapsed() < Duration::from_millis(for_ms) && error == 0 {
        let offset_bytes = took_ns.len() as u64 % pages * u64::from(length_bytes);
        let sent = Instant::now();
        initiator.submit(0, Request::Read { offset_bytes, length_bytes });
        initiator.push()?;
        initiator.reap(&mut |done| error = done.error)?;
        took_ns.push(sent.elapsed().as_nanos() as u64);
    }
    accepted(error).map(|()| took_ns)
}
