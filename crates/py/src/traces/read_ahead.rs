//! Requests that are read in another thread than the one that uses them: by one reader ([`ReadAhead`]: parsing a trace
//! takes a fifth of its simulation), or by many ([`Broadcast`]), each at its own speed.
//!
//! Requests are shared in chunks, so that threads wake each other seldom; nothing is copied but the batch that a reader
//! works on. The reader that is slowest holds the others back by no more than some chunks, so memory is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ioassay_block::{BATCH, Error, Request, Source};
use pyo3::prelude::*;

/// Requests of a chunk: 160 KiB.
const CHUNK: usize = 4 * BATCH;
/// Chunks that wait for a reader of its own thread: with those in use, they stay in the second-level cache.
const AHEAD_OF_ONE: usize = 4;
/// Chunks that wait for each of many readers.
const AHEAD_OF_MANY: usize = 16;
/// Between two looks at whether the user wants to stop, while nothing comes.
const PATIENCE: Duration = Duration::from_millis(50);

type Chunk = Arc<Vec<Request>>;

/// Gives the requests of a source to its readers.
pub struct Broadcast {
    readers: Vec<SyncSender<Chunk>>,
}

impl Broadcast {
    /// A broadcast of `source` to `readers`, which end when `stop` is set.
    pub fn new(source: &dyn Source, readers: usize, stop: &Arc<AtomicBool>) -> (Self, Vec<Reader>) {
        let only_writes = source.only_writes();
        let ahead = if readers == 1 { AHEAD_OF_ONE } else { AHEAD_OF_MANY };
        let (senders, readers) = (0..readers)
            .map(|_| {
                let (sender, receiver) = sync_channel(ahead);
                let reader =
                    Reader { receiver, chunk: Chunk::default(), given: 0, only_writes, stop: Arc::clone(stop) };
                (sender, reader)
            })
            .unzip();
        (Self { readers: senders }, readers)
    }

    /// Gives all requests, until the source ends or no reader is left.
    pub fn run(mut self, source: &mut dyn Source) -> Result<(), Error> {
        let mut batch = Vec::new();
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            let mut done = Ok(());
            while chunk.len() + BATCH <= CHUNK {
                done = source.next_batch(&mut batch);
                if done.is_err() || batch.is_empty() {
                    break;
                }
                chunk.extend_from_slice(&batch);
            }
            let last = chunk.is_empty();
            let chunk = Arc::new(chunk);
            self.readers.retain(|reader| reader.send(Arc::clone(&chunk)).is_ok());
            done?;
            if last || self.readers.is_empty() {
                return Ok(());
            }
        }
    }
}

/// The requests of a [`Broadcast`].
pub struct Reader {
    receiver: Receiver<Chunk>,
    chunk: Chunk,
    /// How many of the chunk were given.
    given: usize,
    only_writes: bool,
    stop: Arc<AtomicBool>,
}

impl Reader {
    /// The next batch out of the chunk at hand, or of the one that `receive` gives after it.
    fn fill(&mut self, batch: &mut Vec<Request>, receive: impl FnOnce(&Receiver<Chunk>) -> Option<Chunk>) {
        batch.clear();
        if self.given == self.chunk.len() {
            self.chunk = receive(&self.receiver).unwrap_or_default();
            self.given = 0;
        }
        let rest = &self.chunk[self.given..];
        batch.extend_from_slice(&rest[..rest.len().min(BATCH)]);
        self.given += batch.len();
    }
}

impl Source for Reader {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            batch.clear();
            return Ok(());
        }
        // Without a sender the source has ended, or failed: the caller of `run` knows.
        self.fill(batch, |receiver| receiver.recv().ok());
        Ok(())
    }

    fn only_writes(&self) -> bool {
        self.only_writes
    }
}

/// A source that is read in a thread of its own.
pub struct ReadAhead {
    reader: Reader,
    /// Ends with the source, with its first error, or after the chunk that nobody takes any more.
    thread: Option<JoinHandle<Result<(), Error>>>,
    /// What Python's handler of a signal raised.
    pub stopped: Option<PyErr>,
}

impl ReadAhead {
    /// Whether there is a processor for the other thread.
    pub fn is_useful() -> bool {
        thread::available_parallelism().is_ok_and(|processors| processors.get() > 1)
    }

    /// Begins to read.
    pub fn of(mut source: Box<dyn Source + Send>) -> Self {
        let (broadcast, mut readers) = Broadcast::new(&source, 1, &Arc::default());
        let reader = readers.remove(0);
        let thread = thread::spawn(move || broadcast.run(&mut source));
        Self { reader, thread: Some(thread), stopped: None }
    }
}

/// The next chunk; nothing at the end, or when the user wants to stop.
fn received(receiver: &Receiver<Chunk>, stopped: &mut Option<PyErr>) -> Option<Chunk> {
    loop {
        match receiver.recv_timeout(PATIENCE) {
            Ok(chunk) => return Some(chunk),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                *stopped = Python::attach(|py| py.check_signals()).err();
                if stopped.is_some() {
                    return None;
                }
            }
        }
    }
}

impl Source for ReadAhead {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        if self.thread.is_none() {
            batch.clear();
            return Ok(());
        }
        self.reader.fill(batch, |receiver| received(receiver, &mut self.stopped));
        if !batch.is_empty() {
            return Ok(());
        }
        match self.thread.take().filter(|_| self.stopped.is_none()).map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }

    fn only_writes(&self) -> bool {
        self.reader.only_writes
    }
}
