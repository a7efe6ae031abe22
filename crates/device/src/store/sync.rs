//! Makes the backing file durable, in a thread of its own: `fdatasync` takes as long as the disk
//! wants, and nobody else is to wait for it. It writes nothing itself.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::backing::status;
use crate::{Error, Status};

/// The ticket of the end.
const LAST: u64 = u64::MAX;

/// The thread that syncs. When this is dropped, it finishes what it has begun, and ends.
pub struct Syncer {
    /// `None` when the thread has to end.
    wanted: Option<Sender<u64>>,
    done: Receiver<(u64, Result<(), Status>)>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub fn start(file: Arc<File>) -> Result<Self, Error> {
        Self::with(move || file.sync_data())
    }

    fn with(sync: impl FnMut() -> io::Result<()> + Send + 'static) -> Result<Self, Error> {
        let (wanted, wants) = channel();
        let (tell, done) = channel();
        let thread = thread::Builder::new()
            .name("ioassay-sync".into())
            .spawn(move || run(sync, &wants, &tell))
            .map_err(|error| Error::system("cannot start the thread that syncs", error))?;
        Ok(Self { wanted: Some(wanted), done, thread: Some(thread) })
    }

    /// Asks for all that was written before to become durable; the ticket comes back then. Returns whether the thread
    /// still runs.
    pub fn request(&self, ticket: u64) -> bool {
        let wanted = self.wanted.as_ref();
        wanted.is_some_and(|wanted| wanted.send(ticket).is_ok())
    }

    /// Waits until all that was written is durable, and ends the thread.
    pub fn finish(&mut self) -> Result<(), Status> {
        self.wanted.take().map(|wanted| wanted.send(LAST));
        self.done.iter().find(|(ticket, _)| *ticket == LAST).map_or(Err(Status::Failed), |(_, ended)| ended)
    }

    /// The next ticket whose sync has ended, and its result.
    pub fn done(&self) -> Option<(u64, Result<(), Status>)> {
        self.done.try_recv().ok()
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // nobody waits for what it would say
        }
    }
}

fn run(mut sync: impl FnMut() -> io::Result<()>, wants: &Receiver<u64>, tell: &Sender<(u64, Result<(), Status>)>) {
    let mut ended = Ok(());
    while let Ok(first) = wants.recv() {
        // One pass serves all that wait.
        let waiting: Vec<u64> = std::iter::once(first).chain(wants.try_iter()).collect();
        // The kernel tells an error once and takes what was lost for written (fsync(2), notes): so
        // after an error nothing is durable for certain any more.
        if ended.is_ok() {
            ended = sync().map_err(|error| status(&error));
        }
        for ticket in waiting {
            if tell.send((ticket, ended)).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_once_is_told_ever_after_and_at_the_end() {
        let mut loss = Some(io::Error::from_raw_os_error(5)); // which the kernel tells once
        let mut syncer = Syncer::with(move || loss.take().map_or(Ok(()), Err)).expect("a thread");
        for ticket in 1..4 {
            assert!(syncer.request(ticket));
            assert_eq!(syncer.done.recv(), Ok((ticket, Err(Status::Failed))));
        }
        assert_eq!(syncer.finish(), Err(Status::Failed));
    }

    #[test]
    fn the_end_waits_for_the_disk() {
        let mut syncer = Syncer::with(|| Ok(())).expect("a thread");
        assert!(syncer.request(1));
        assert_eq!(syncer.finish(), Ok(()));
        assert!(!syncer.request(2));
    }
}
