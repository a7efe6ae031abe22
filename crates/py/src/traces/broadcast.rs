//! One source for many readers: each gets all requests, in its own thread, at its own speed.
//!
//! Requests are shared in chunks; nothing is copied but the batch that a reader works on. The reader
//! that is slowest holds the others back by no more than [`AHEAD`] chunks, so memory is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ioassay_block::{BATCH, Error, Request, Source};

/// Requests of a chunk: 640 KiB.
const CHUNK: usize = 16 * BATCH;
/// Chunks that wait for a reader.
const AHEAD: usize = 4;

type Chunk = Arc<Vec<Request>>;

/// Gives the requests of a source to its readers.
pub struct Broadcast {
    readers: Vec<SyncSender<Chunk>>,
}

impl Broadcast {
    /// A broadcast of `source` to `readers`, which end when `stop` is set.
    pub fn new(source: &dyn Source, readers: usize, stop: &Arc<AtomicBool>) -> (Self, Vec<Reader>) {
        let only_writes = source.only_writes();
        let (senders, readers) = (0..readers)
            .map(|_| {
                let (sender, receiver) = sync_channel(AHEAD);
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

impl Source for Reader {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.given == self.chunk.len() {
            // Without a sender the source has ended, or failed: the caller of `run` knows.
            self.chunk = self.receiver.recv().unwrap_or_default();
            self.given = 0;
        }
        let rest = &self.chunk[self.given..];
        batch.extend_from_slice(&rest[..rest.len().min(BATCH)]);
        self.given += batch.len();
        Ok(())
    }

    fn only_writes(&self) -> bool {
        self.only_writes
    }
}
