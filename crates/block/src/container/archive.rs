//! Archives as streams: one file after the other, none kept.

use std::io::{self, Read};

/// Gives the content of the file at which it stands.
pub(super) trait Archive: Read + Send {
    /// Goes to the next file, over what was not read, and gives its name; reads to the end where there is none.
    fn advance(&mut self) -> io::Result<Option<String>>;
}

pub(super) fn damaged(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
