//! Why a replay does not begin, or ends early.

use std::path::PathBuf;

use ioassay_block::Kind;
use rustix::io::Errno;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be.
    #[error("{name} is {value}, expected {wanted}")]
    Option { name: &'static str, value: String, wanted: &'static str },
    /// A target that cannot be replayed on.
    #[error("{}: {why}", path.display())]
    Target { path: PathBuf, why: String },
    /// The system refused something without which there is no replay.
    #[error("{}: {step}: {}{advice}", path.display(), text_of(*errno))]
    System {
        path: PathBuf,
        step: &'static str,
        errno: Errno,
        /// What to do about it; begins with `; ` or is empty.
        advice: &'static str,
    },
    /// A request that the target cannot take.
    #[error("request {number}: {fault}")]
    Request {
        /// Which request of the prepared trace, from 1.
        number: u64,
        fault: Fault,
    },
    /// The trace itself.
    #[error(transparent)]
    Trace(#[from] ioassay_block::Error),
}

impl Error {
    pub(crate) fn io_uring(errno: Errno) -> Self {
        let advice = match errno {
            Errno::PERM => {
                "; is it disabled (sysctl kernel.io_uring_disabled), or refused by a container's seccomp filter?"
            }
            Errno::NOSYS => "; the kernel has to be Linux 5.11 or later, and built with it",
            Errno::NOMEM => "; raise the limit of locked memory (ulimit -l)",
            _ => "",
        };
        Self::System { path: "io_uring".into(), step: "set up", errno, advice }
    }
}

/// Why a target cannot take a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error(
        "{kind:?} of {length_bytes} bytes at offset {offset_bytes} ends behind the target's {size_bytes} bytes, \
         expected within; --shrink the range, or --limit it to {size_bytes} and say what is --beyond"
    )]
    Beyond { kind: Kind, offset_bytes: u64, length_bytes: u64, size_bytes: u64 },
    #[error(
        "{kind:?} of {length_bytes} bytes at offset {offset_bytes} is not aligned to the target's {block_bytes} bytes; \
         --sizes round-out with --page {block_bytes} makes whole blocks of it{}",
        if *may_buffer { ", and I/O through the page cache needs no alignment" } else { "" }
    )]
    Unaligned { kind: Kind, offset_bytes: u64, length_bytes: u64, block_bytes: u64, may_buffer: bool },
    #[error(
        "{kind:?} of {length_bytes} bytes, expected at most {most_bytes}, the bytes of the buffers; \
         --sizes split makes pages of it"
    )]
    TooLong { kind: Kind, length_bytes: u64, most_bytes: u64 },
    #[error("a {kind:?} of no bytes; --drop-empty leaves it out")]
    Empty { kind: Kind },
    #[error(
        "is for device {device}, and those before for {before}, but there is one target; \
         --devices only:{before}, ignore or side-by-side:SIZE makes one device of them"
    )]
    OtherDevice { device: u32, before: u32 },
}

/// The system's text of an error, without its number.
pub(crate) fn text_of(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
