//! How commands reach the drive. One file or folder a transport, one literal list.
//!
//! A transport never waits: `poll` takes what has arrived and returns at once. It speaks to its
//! clients over non-blocking sockets and never trusts them: what is malformed ends that connection
//! and no other, and what it may ask for is bounded before memory is.

pub mod fuse;
pub mod nbd;
pub(crate) mod nvme;
pub mod nvme_tcp;
mod open;
mod private_file;
pub mod socket;
pub mod vfio_user;

pub use open::{Entry, TRANSPORTS, memory_bytes, open};

use std::ops::Range;
use std::time::Duration;

use crate::command::{Answer, Command, Drive};
use crate::namespace::FIRST;
use socket::SharedMemory;

/// One way to reach the drive.
pub trait Transport {
    /// What it is called, such as `nbd`.
    fn name(&self) -> &'static str;

    /// Where clients find it, such as `nbd+unix:///?socket=drive.sock`.
    fn address(&self) -> String;

    /// Takes connections and all commands that have arrived; whether there was anything.
    fn poll(&mut self, drive: &mut dyn Drive) -> std::io::Result<bool>;

    /// A command's answer is due. It may be kept until `send`.
    fn answer(&mut self, answer: Answer, drive: &dyn Drive);

    /// The drive's content changed within this range: what the system has cached of it is dropped.
    fn changed(&mut self, _range: &Range<u64>) {}

    /// Whether old content can still be read from the system's cache: until then nobody is answered
    /// who could know the new.
    fn is_stale(&self) -> bool {
        false
    }

    /// Whether the system's cache waits for this command, and so must not wait for the cache.
    fn caches(&self, _command: &Command) -> bool {
        false
    }

    /// Sends all answers that are kept: one system call for many. Returns true if that made room for
    /// requests that have arrived already: no descriptor will tell of these.
    fn send(&mut self, drive: &dyn Drive) -> std::io::Result<bool>;

    /// Descriptors that become readable when there is something to do, for a drive that may sleep.
    fn descriptors(&self, into: &mut Vec<std::os::fd::RawFd>);

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

    /// What its requests come through, where the system decides on that.
    fn interface(&self) -> Option<&'static str> {
        None
    }

    /// A client of its own that finds out how long this transport takes by itself, where it has one.
    fn probe(&self) -> Option<Box<dyn Probe>> {
        None
    }
}

/// A client that measures a transport's floor, in a thread of its own while the drive serves.
pub trait Probe: Send {
    /// Connects, reads at depth one for so long, and leaves: nanoseconds of each read. Where the
    /// answers take long (`slow`) it waits for them as most clients do.
    fn run(&mut self, for_ms: u64, slow: bool) -> std::io::Result<Vec<u64>>;
}
