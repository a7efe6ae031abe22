//! Archives as streams: one file after the other, none kept.

use std::io::{self, BufReader, Read};

use super::compression::{BUFFER_BYTES, Budget, Input, refused};
use super::{tar::Tar, zip::Zip};

/// Gives the content of the file at which it stands.
pub(super) trait Archive: Read + Send {
    /// Goes to the next file, over what was not read, and gives its name; reads to the end where there is none.
    fn advance(&mut self) -> io::Result<Option<String>>;
}

/// What is packed in a way that is not read here, by how it begins.
const OTHERS: [(&[u8], &str); 3] =
    [(b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a\x07", "RAR"), (b"\x04\x22\x4d\x18", "LZ4")];

/// The archive that begins so; the stream itself if it is none.
pub(super) fn archive(head: &[u8], input: Input, budget: &Budget) -> io::Result<Result<Box<dyn Archive>, Input>> {
    if let Some((_, name)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(refused(format!("it is packed as {name}, which is not read; unpack it first")));
    }
    let buffered = |input| BufReader::with_capacity(BUFFER_BYTES, input);
    Ok(if head.get(257..262) == Some(b"ustar") {
        Ok(Box::new(Tar::new(buffered(input))))
    } else if [b"PK\x03\x04".as_slice(), b"PK\x05\x06"].iter().any(|magic| head.starts_with(magic)) {
        Ok(Box::new(Zip::new(buffered(input), budget.clone())))
    } else {
        Err(input)
    })
}

pub(super) fn damaged(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
