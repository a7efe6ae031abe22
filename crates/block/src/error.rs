//! What can be wrong with a trace, said so that it can be found and mended.

/// A trace that cannot be read, written, made or prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source or the sink failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Something at a place of a trace is not what its format says.
    #[error("{place}: {fault}")]
    At {
        /// Where: `line 12` or `byte 4096`.
        place: String,
        /// What is wrong there.
        fault: Fault,
    },
    /// A request that preparation refuses.
    #[error("request {number}: {refusal}")]
    Refused {
        /// Which request of the source, from 1.
        number: u64,
        /// Why.
        refusal: Refusal,
    },
    /// An option that cannot be.
    #[error("{name} is {value}, wanted {wanted}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        wanted: String,
    },
}

/// What is wrong at one place of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A field that cannot be read.
    #[error("{column} is `{seen}`, wanted {wanted}")]
    Field {
        /// Name of the column.
        column: &'static str,
        /// The field, shortened.
        seen: String,
        /// What was wanted.
        wanted: &'static str,
    },
}

/// Why a request is refused by preparation, and what mends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The range ends behind the limit.
    #[error(
        "{length_bytes} bytes at {offset_bytes} end behind {limit_bytes}, wanted within; wrap or \
         drop what is out of range, or shrink the range"
    )]
    OutOfRange {
        /// Where it begins.
        offset_bytes: u64,
        /// Its length.
        length_bytes: u64,
        /// Where it had to end.
        limit_bytes: u64,
    },
    /// No bytes, and no flush.
    #[error("length is 0, wanted at least 1 byte; drop what is empty")]
    Empty,
    /// An offset that is no multiple of the page.
    #[error("offset {offset_bytes} is not a multiple of {page_bytes}; round offsets down")]
    Unaligned {
        /// Where it begins.
        offset_bytes: u64,
        /// What it had to be a multiple of.
        page_bytes: u64,
    },
    /// A device that has no place beside the others.
    #[error("device {device} is one more than fit side by side; wanted at most {most}")]
    TooManyDevices {
        /// Its number.
        device: u32,
        /// How many fit.
        most: u64,
    },
}
