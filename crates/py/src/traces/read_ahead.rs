//! A source that is read ahead, in a thread of its own: parsing a trace takes about as long as half of its simulation.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use ioassay_block::{BATCH, Error, Request, Source};
use pyo3::prelude::*;

/// Batches that wait for their use: 40 KiB each.
const AHEAD: usize = 16;
/// Between two looks at whether the user wants to stop, while nothing comes.
const PATIENCE: Duration = Duration::from_millis(50);

type Given = Result<Vec<Request>, Error>;

pub struct ReadAhead {
    given: Receiver<Given>,
    /// Batches that were used, to be filled again.
    used: Sender<Vec<Request>>,
    only_writes: bool,
    /// The end came, or an error.
    ended: bool,
    /// What Python's handler of a signal raised.
    pub stopped: Option<PyErr>,
}

impl ReadAhead {
    /// Begins to read. The thread ends with the source, with its first error, or after the batch
    /// that nobody takes any more.
    pub fn of(mut source: Box<dyn Source + Send>) -> Self {
        let (give, given): (SyncSender<Given>, _) = sync_channel(AHEAD);
        let (used, use_again) = channel::<Vec<Request>>();
        let only_writes = source.only_writes();
        thread::spawn(move || {
            loop {
                let mut batch = use_again.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
                let read = source.next_batch(&mut batch).map(|()| batch);
                let last = read.as_ref().map_or(true, Vec::is_empty);
                if give.send(read).is_err() || last {
                    return;
                }
            }
        });
        Self { given, used, only_writes, ended: false, stopped: None }
    }

    /// The next batch, or nothing when the user wants to stop.
    fn wait(&mut self) -> Option<Given> {
        loop {
            match self.given.recv_timeout(PATIENCE) {
                Ok(given) => return Some(given),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = Python::attach(|py| py.check_signals()) {
                        self.stopped = Some(error);
                        return None;
                    }
                }
            }
        }
    }
}

impl Source for ReadAhead {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if self.ended {
            return Ok(());
        }
        let given = self.wait().unwrap_or_else(|| Ok(Vec::new()));
        self.ended = given.as_ref().map_or(true, Vec::is_empty);
        let used = std::mem::replace(batch, given?);
        // Nobody may be left to fill it.
        let _ = self.used.send(used);
        Ok(())
    }

    fn only_writes(&self) -> bool {
        self.only_writes
    }
}
