//! What to watch.

use std::path::PathBuf;

use crate::listing::Listing;

/// What to watch. The default is the layers that cost nothing where no device is used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Options {
    /// Requests of the block layer and of `io_uring`.
    pub block: bool,
    /// System calls and libaio, sessions, files, page cache. Costs about half a microsecond a call.
    pub syscalls: bool,
    /// The parts of each call's time; wants `syscalls`.
    pub explain: bool,
    /// Where to write every request of the block layer (see [`record`](crate::record)); wants `block`.
    pub record: Option<PathBuf>,
    /// Record also an event for each `pread64`, to measure how much the recorder can take.
    pub synthetic: bool,
    /// Watch by the programs for older kernels where they work here as well, to try them.
    pub oldest: bool,
    /// List calls on files; wants `syscalls`.
    pub listing: Option<Listing>,
    /// Processes that run already are to be followed ([`Witness::adopt`](crate::Witness::adopt)).
    pub running: bool,
    /// Of these, all in a cgroup of the unified hierarchy: the inode of its folder. 0 for none.
    pub cgroup: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block: true,
            syscalls: false,
            explain: false,
            record: None,
            synthetic: false,
            oldest: false,
            listing: None,
            running: false,
            cgroup: 0,
        }
    }
}
