//! The errors of a log: line, text, and what was expected.

use std::fmt::Write as _;

/// A log that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A line is not what fio writes.
    #[error("line {line}, `{text}`: {fault}")]
    Line {
        /// Number of the line, counted from 1.
        line: u64,
        /// The line, shortened, with unprintable bytes escaped.
        text: String,
        /// What is wrong with it.
        fault: Fault,
    },
    #[error(
        "the log is compressed (fio's log_store_compressed or gzip), expected text: \
         write it out with `fio --inflate-log=FILE` or `gzip -d FILE`"
    )]
    Compressed,
    /// An option that cannot be.
    #[error("{name} is {value}, expected {wanted}")]
    Option { name: &'static str, value: u64, wanted: &'static str },
}

/// What is wrong with one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not as many columns as fio writes, or as the first line has.
    #[error("{seen} columns, expected {wanted}")]
    Columns { seen: usize, wanted: String },
    /// A field that cannot be read.
    #[error("{column} is `{seen}`, expected {wanted}")]
    Field { column: &'static str, seen: String, wanted: &'static str },
    /// The last line breaks off.
    #[error("the log ends in the middle of this line: fio was stopped while it wrote; {0}")]
    Truncated(Box<Fault>),
    /// Far longer than any line of fio.
    #[error("longer than {0} bytes, expected lines of text: this is no log of fio")]
    TooLong(usize),
}

impl Error {
    pub(crate) fn line(line: u64, text: &[u8], fault: Fault) -> Self {
        Self::Line { line, text: excerpt(text, 60), fault }
    }
}

/// At most `limit` bytes of `text`, unprintable ones escaped, with an ellipsis where it was cut.
pub(crate) fn excerpt(text: &[u8], limit: usize) -> String {
    let mut shown = String::new();
    for &byte in &text[..text.len().min(limit)] {
        // Writing into a String cannot fail.
        let _ = write!(shown, "{}", byte.escape_ascii());
    }
    if text.len() > limit {
        shown.push('…');
    }
    shown
}
