//! Requests that are read ahead in another thread, so that the one that issues them neither parses nor waits.
//!
//! Chunks go round: filled by the reader, emptied by the replay. Memory is that of the chunks, however long the trace.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use ioassay_block::{BATCH, Request, Source};

use crate::Error;
use crate::census::Gate;

/// Requests of a chunk: 160 KiB.
const CHUNK: usize = 4 * BATCH;
/// Chunks that go round: 5 s at 50,000 requests a second.
const CHUNKS: usize = 64;
/// Between two looks at whether the user wants to stop.
const PATIENCE: Duration = Duration::from_millis(20);

enum Parcel {
    Requests(Vec<Request>),
    End,
    Failed(Error),
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
pub enum Next {
    Request(Request),
    /// The trace is not read so far yet.
    Starved,
    /// There is no more; see `failure`.
    Ended,
}

pub struct Supply {
    parcels: Receiver<Parcel>,
    empties: SyncSender<Vec<Request>>,
    chunk: Vec<Request>,
    at: usize,
    ended: bool,
    /// Why the trace ended, if not by its end.
    pub failure: Option<Error>,
}

impl Supply {
    /// Begins to read, and returns when as much is read as is kept, or `stopped` says so. What is wrong so early is an
    /// error: nothing was issued yet.
    pub fn of(source: Box<dyn Source + Send>, gate: Gate, stopped: impl Fn() -> bool) -> Result<Self, Error> {
        let (sender, parcels) = sync_channel(CHUNKS + 1);
        let (empties, used) = sync_channel(CHUNKS);
        let (begun, beginning) = sync_channel(1);
        // Where a trace comes from a pipe, nothing ends a read that waits: the thread is left to end by itself.
        thread::spawn(move || read(source, gate, &sender, &used, begun));
        while !stopped() {
            match beginning.recv_timeout(PATIENCE) {
                Ok(error) => return Err(error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(Self { parcels, empties, chunk: Vec::new(), at: 0, ended: false, failure: None })
    }

    /// The next request, which stays the next until `advance`.
    #[inline]
    pub fn peek(&mut self) -> Next {
        match self.chunk.get(self.at) {
            Some(&request) => Next::Request(request),
            None => self.turn(),
        }
    }

    #[inline]
    pub fn advance(&mut self) {
        self.at += 1;
    }

    fn turn(&mut self) -> Next {
        if self.ended {
            return Next::Ended;
        }
        match self.parcels.try_recv() {
            Ok(Parcel::Requests(chunk)) => {
                let used = std::mem::replace(&mut self.chunk, chunk);
                if used.capacity() > 0 {
                    // A reader that has ended needs none.
                    let _ = self.empties.try_send(used);
                }
                self.at = 0;
                return Next::Request(self.chunk[0]);
            }
            Err(TryRecvError::Empty) => return Next::Starved,
            Ok(Parcel::End) => {}
            Ok(Parcel::Failed(error)) => self.failure = Some(error),
            // The reader has panicked: what it said is on the terminal.
            Err(TryRecvError::Disconnected) => self.failure = Some(std::io::Error::other("reading it failed").into()),
        }
        self.ended = true;
        Next::Ended
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Trace(error.into())
    }
}

fn read(
    mut source: Box<dyn Source + Send>,
    mut gate: Gate,
    parcels: &SyncSender<Parcel>,
    emptied: &Receiver<Vec<Request>>,
    begun: SyncSender<Error>,
) {
    let mut begun = Some(begun);
    let mut made = 0;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let mut chunk = if made < CHUNKS {
            made += 1;
            Vec::with_capacity(CHUNK)
        } else {
            begun = None;
            match emptied.recv() {
                Ok(chunk) => chunk,
                Err(_) => return,
            }
        };
        let done = fill(&mut *source, &mut gate, &mut batch, &mut chunk);
        if !chunk.is_empty() && parcels.send(Parcel::Requests(chunk)).is_err() {
            return;
        }
        let last = match done {
            Ok(true) => continue,
            Ok(false) => Parcel::End,
            Err(error) => match begun.take() {
                None => Parcel::Failed(error),
                // A replay that was stopped takes no more, here and below.
                Some(begun) => return drop(begun.send(error)),
            },
        };
        let _ = parcels.send(last);
        return;
    }
}

/// Fills a chunk; whether there may be more.
fn fill(
    source: &mut dyn Source,
    gate: &mut Gate,
    batch: &mut Vec<Request>,
    chunk: &mut Vec<Request>,
) -> Result<bool, Error> {
    chunk.clear();
    while chunk.len() + BATCH <= CHUNK {
        source.next_batch(batch)?;
        if batch.is_empty() {
            return Ok(false);
        }
        for request in &*batch {
            gate.pass(request)?;
            chunk.push(*request);
        }
    }
    Ok(true)
}
