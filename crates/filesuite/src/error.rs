//! What can be wrong before a pass, and what can go wrong within one.

use std::path::PathBuf;

use rustix::io::Errno;

/// Nothing was measured, or nothing more can be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be.
    #[error("{name} is {value}, expected {wanted}")]
    Option { name: &'static str, value: String, wanted: String },
    /// Going on could destroy something that is not ours.
    #[error("{}: {why}", path.display())]
    Refused {
        path: PathBuf,
        /// Why it is left alone, with the option that mends it.
        why: String,
    },
    /// The system refused something without which no pass can be.
    #[error("{}: {step}: {}", path.display(), text_of(*errno))]
    System {
        /// What it was done to.
        path: PathBuf,
        step: &'static str,
        errno: Errno,
    },
}

impl Error {
    pub(crate) fn option(name: &'static str, value: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self::Option { name, value: value.into(), wanted: wanted.into() }
    }
}

/// Why a pass has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A step before, after or between the calls.
    #[error("{step}: {}{advice}", text_of(*errno))]
    Step {
        step: &'static str,
        errno: Errno,
        /// What to do about it; begins with `; ` or is empty.
        advice: &'static str,
    },
    /// A call of the loop.
    #[error("{step} {number} of {of}: {}{advice}", text_of(*errno))]
    Call {
        step: &'static str,
        number: u64,
        of: u64,
        errno: Errno,
        /// What to do about it; begins with `; ` or is empty.
        advice: &'static str,
    },
    /// A call that moved less than a record.
    #[error("{step} {number} of {of} moved {moved} of {wanted} bytes")]
    Short { step: &'static str, number: u64, of: u64, moved: usize, wanted: usize },
    /// A record held something else than what was written there.
    #[error("record {record} holds something else than what was written there")]
    Differs { record: u64 },
    #[error("{0}")]
    NotRun(String),
    /// The user wants to stop.
    #[error("stopped")]
    Stopped,
}

impl Fault {
    pub(crate) fn step(step: &'static str, errno: Errno, direct: bool) -> Self {
        Self::Step { step, errno, advice: advice(errno, direct) }
    }
}

/// The system's text of an error, without its number.
pub fn text_of(errno: Errno) -> String {
    let text = errno.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The next step where the system's word for it is not enough.
pub(crate) fn advice(errno: Errno, direct: bool) -> &'static str {
    match errno {
        Errno::INVAL if direct => {
            "; with O_DIRECT the filesystem must have it, and the record be a multiple of the \
             device's block size: leave out -I, or take records of 4 kB or more"
        }
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
            "; the filesystem has no room for it: take a smaller file (-s, -g)"
        }
        Errno::IO => "; the device failed: see dmesg",
        _ => "",
    }
}
