//! What is to be replayed on, and how.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::kernel::PAGE;

/// When requests are issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// Open loop: each at its own time, whatever is outstanding.
    #[default]
    Timed,
    /// As fast as `depth` allows, in the order of the trace where requests depend on each other.
    Fast,
}

/// The largest ring of completions that the kernel makes is twice this (`IORING_MAX_ENTRIES`, io_uring/io_uring.h).
const MOST_DEPTH: u32 = 32768;
/// Memory for data, at least: the longest request of common block devices.
const LEAST_BUFFERS: u64 = 4 << 20;
/// The kernel registers at most 1 GiB as one buffer (`io_validate_user_buf_range`, io_uring/rsrc.c).
const MOST_BUFFERS: u64 = 1 << 30;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Setup {
    /// An existing file or block device. Without one all requests are done at once, by nothing: what remains is the
    /// overhead of the replay.
    pub path: Option<PathBuf>,
    /// Whether a block device that is written must be nobody else's (`O_EXCL`); not where the caller has claimed it.
    pub exclusive: bool,
    /// Past the page cache, by `O_DIRECT`.
    pub direct: bool,
    /// Only the target's first bytes are used.
    pub size_bytes: Option<u64>,
    pub pace: Pace,
    /// Most requests outstanding: 1024 where they are timed, 32 where they are not.
    pub depth: Option<u32>,
    /// No request is issued later than this after the first.
    pub duration_ns: Option<u64>,
    /// Of the data that are written.
    pub seed: u64,
    /// Whether buffers are registered with the kernel, which saves pinning their pages for each request.
    pub fixed: bool,
    /// Whether a caller is to have the whole trace looked at before, where it can be read twice; see
    /// [`survey`](crate::survey).
    pub survey: bool,
    /// Memory for the data of outstanding writes, and as much for those of reads.
    pub buffer_bytes: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            path: None,
            exclusive: true,
            direct: true,
            size_bytes: None,
            pace: Pace::Timed,
            depth: None,
            duration_ns: None,
            seed: 0,
            fixed: true,
            survey: true,
            buffer_bytes: 64 << 20,
        }
    }
}

impl Setup {
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or(match self.pace {
            Pace::Timed => 1024,
            Pace::Fast => 32,
        })
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |name, value: u64, wanted| Err(Error::Option { name, value: value.to_string(), wanted });
        if !(1..=MOST_DEPTH).contains(&self.depth()) {
            return wrong("depth", self.depth().into(), "1 to 32768");
        }
        if !(LEAST_BUFFERS..=MOST_BUFFERS).contains(&self.buffer_bytes) || self.buffer_bytes % PAGE as u64 != 0 {
            return wrong("buffer_bytes", self.buffer_bytes, "4 MiB to 1 GiB, in whole pages of 4096 bytes");
        }
        if self.size_bytes == Some(0) {
            return wrong("size_bytes", 0, "at least 1 byte");
        }
        if self.duration_ns == Some(0) {
            return wrong("duration_ns", 0, "at least 1 ns");
        }
        Ok(())
    }
}
