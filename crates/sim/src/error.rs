//! The errors of a simulation.

/// In digits, as messages write it out.
const LONGEST_NUMBER: usize = 20;

/// A drive that cannot be, or a load that it cannot take.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Trace(#[from] ioassay_block::Error),
    /// An option that cannot be.
    #[error("{name} is {value}, expected {wanted}")]
    Option { name: &'static str, value: String, wanted: String },
    /// An option that there is not.
    #[error("{name} is no option of a {of}")]
    UnknownOption { name: String, of: &'static str },
    /// A drive that does not fit into memory.
    #[error(
        "a drive of {pages} pages takes {needed_bytes} bytes of memory and {available_bytes} are available: \
         expected fewer elements or blocks, or larger pages"
    )]
    Memory {
        pages: u32,
        /// Bytes that its tables take.
        needed_bytes: u64,
        /// Bytes that the caller granted.
        available_bytes: u64,
    },
    /// A write buffer that cannot be.
    #[error(transparent)]
    Policy(#[from] crate::policy::Error),
    /// A saved state that cannot be written or read.
    #[error("the state: {0}")]
    State(String),
    /// A saved state of something else.
    #[error("the state is of {seen}, expected {wanted}")]
    OtherState { seen: String, wanted: String },
    /// A drive whose last run failed, or was given up, so that requests are in flight.
    #[error("the drive's last run failed or was given up: expected a copy of the drive from before it")]
    Unsettled,
    /// An option that a drive with a state cannot change.
    #[error("{name} decides where pages are, and they are there: expected times, rates and bandwidths, or a new drive")]
    Structural { name: String },
    /// The caller did not want it to go on.
    #[error("stopped")]
    Stopped,
    /// The run has to be repeated, by events: its source, which said that it can be repeated, is not one of writes alone,
    /// or the order of two of them is not known.
    #[error("the run needs events")]
    NeedsEvents,
    /// A request that the drive cannot take.
    #[error("request {number} (counted from 1), {what}: {wanted}")]
    Request {
        /// The number among the requests that reach the drive or its buffer.
        number: u64,
        what: String,
        wanted: String,
    },
    /// A run beyond the times that its numbers can have.
    #[error(
        "the simulation passes {days} days of simulated time: expected fewer requests, shorter gaps between them, \
         or shorter times of the drive"
    )]
    TooLong { days: u64 },
    /// A plane without a block to write to.
    #[error(
        "element {element} has no free block left after {erases} erasures: {dead} of its blocks are dead \
         (each after {endurance}); expected a higher endurance, or fewer writes"
    )]
    WornOut {
        element: u32,
        erases: u64,
        dead: u32,
        /// Erasures that a block stands.
        endurance: u32,
    },
}

impl Error {
    pub(crate) fn option(name: &'static str, value: impl Copy + ToString, wanted: impl Into<String>) -> Self {
        Self::Option { name, value: shown(&value), wanted: wanted.into() }
    }
}

/// A value as messages have it.
pub(crate) fn shown(value: &impl ToString) -> String {
    let text = value.to_string();
    match text.parse::<f64>() {
        Ok(number) if text.len() > LONGEST_NUMBER => format!("{number:e}"),
        _ => text,
    }
}

const DAY_PS: u64 = 24 * 3600 * 1_000_000_000_000;

/// The latest time at which a request is issued, 100 days.
pub(crate) const LONGEST_PS: u64 = 100 * DAY_PS;

/// The latest time of a run, 150 days of the 213 that 64 bits have: what comes behind is not simulated.
pub(crate) const LONGEST_RUN_PS: u64 = 150 * DAY_PS;

/// [`Error::TooLong`] for a time behind the latest one.
pub(crate) fn check_time(at_ps: u64) -> Result<(), Error> {
    if at_ps > LONGEST_RUN_PS {
        return Err(Error::TooLong { days: LONGEST_RUN_PS / DAY_PS });
    }
    Ok(())
}

/// Refuses an option, with what is expected of it, unless something holds.
pub(crate) fn require<W: Into<String>>(
    holds: bool,
    name: &'static str,
    value: impl Copy + ToString,
    wanted: impl FnOnce() -> W,
) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::option(name, value, wanted())) }
}
