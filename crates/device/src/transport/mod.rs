//! How commands reach the drive: a file or folder for each transport, and one literal list of them. What a command does
//! is the drive's matter.
//!
//! A transport never waits: `poll` takes what has arrived and returns at once. It does not trust its clients: malformed
//! input ends that connection and no other, and a request is bounded before memory is taken for it.

pub mod fuse;
pub mod nbd;
pub(crate) mod nvme;
pub mod nvme_tcp;
mod open;
pub mod socket;
pub mod vfio_user;

pub use open::{Entry, TRANSPORTS, memory_bytes, open};

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::command::{Answer, Command, Drive};
use crate::namespace::FIRST;
use socket::SharedMemory;

/// One way to reach the drive.
pub trait Transport {
    /// Its name, such as `nbd`.
    fn name(&self) -> &'static str;

    /// Where clients find it, such as `nbd+unix:///?socket=drive.sock`.
    fn address(&self) -> String;

    /// Takes connections and all commands that have arrived. Returns false if there was nothing.
    fn poll(&mut self, drive: &mut dyn Drive) -> std::io::Result<bool>;

    /// A command's answer is due. The transport may keep it until `send`.
    fn answer(&mut self, answer: Answer, drive: &dyn Drive);

    /// The drive's content changed within this range, so the system's cache of it is dropped.
    fn changed(&mut self, _range: &Range<u64>) {}

    /// Whether programs can still read old content from the system's cache. No client that could know the new content
    /// is answered before that ends.
    fn is_stale(&self) -> bool {
        false
    }

    /// Whether the system's cache waits for this command. Its answer then must not wait for the cache.
    fn caches(&self, _command: &Command) -> bool {
        false
    }

    /// Sends all answers that are kept, many with one system call. Returns true if that made room for requests that have
    /// arrived already, of which no descriptor tells.
    fn send(&mut self, drive: &dyn Drive) -> std::io::Result<bool>;

    /// Descriptors that become readable when there is something to do, for a drive that may sleep.
    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>);

    /// How long the drive may sleep at most, because there are commands of which no descriptor tells.
    fn longest_sleep(&self) -> Option<Duration> {
        None
    }

    fn connections(&self) -> usize;

    /// Drops all connections, as when power is lost: nothing more is sent on them.
    fn disconnect(&mut self) {}

    /// Its connections share memory with those of others. To be called before there are any.
    fn share_memory(&mut self, _memory: &SharedMemory) {}

    /// The qualified name of its NVMe subsystem, where it has one.
    fn nqn(&self) -> Option<String> {
        None
    }

    /// The last namespace that it serves, which the drive must have.
    fn namespace(&self) -> u32 {
        FIRST
    }

    /// A client that measures how long this transport takes by itself, where there is one.
    fn probe(&self) -> Option<Probe> {
        None
    }
}

/// A client that measures a transport's least latency, in a thread of its own while the drive serves: it connects, reads
/// at depth one for so many milliseconds, and leaves. It returns the nanoseconds of each read. With `true` it waits for
/// slow answers as most clients do.
pub type Probe = Box<dyn FnMut(u64, bool) -> std::io::Result<Vec<u64>> + Send>;
