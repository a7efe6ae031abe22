//! Why a request is refused, and what mends it.

/// Why preparation refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The range ends behind the limit.
    #[error(
        "{length_bytes} bytes at {offset_bytes} end behind {limit_bytes}, expected within; wrap or \
         drop what is out of range, or shrink the range"
    )]
    OutOfRange {
        offset_bytes: u64,
        length_bytes: u64,
        /// Where it had to end.
        limit_bytes: u64,
    },
    /// No bytes, and no flush.
    #[error("length is 0, expected at least 1 byte; drop what is empty")]
    Empty,
    /// An offset that is no multiple of the page.
    #[error("offset {offset_bytes} is not a multiple of {page_bytes}; round offsets down")]
    Unaligned {
        offset_bytes: u64,
        /// What it had to be a multiple of.
        page_bytes: u64,
    },
    /// A request that would become more pages than any trace has requests at one time.
    #[error(
        "{length_bytes} bytes are {pages} pages of {page_bytes}, expected at most {} to split them; \
         is the unit of lengths right? cut or keep sizes otherwise",
        super::MOST_PAGES
    )]
    TooManyPages {
        /// Its length in the trace.
        length_bytes: u64,
        /// What it was to be split into.
        page_bytes: u64,
        /// How many that would be.
        pages: u64,
    },
    /// A device that has no place beside the others.
    #[error("device {device} is one more than fit side by side; expected at most {most}")]
    TooManyDevices { device: u32, most: u64 },
}
