//! Compressed streams, and the limit of what may come out of a file.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;

pub(super) type Input = Box<dyn Read + Send>;

pub(super) const BUFFER_BYTES: usize = 64 * 1024;
/// How much larger a file's content may be than the file: logs of one value a line have about 200 by xz.
const LARGEST_RATIO: u64 = 1000;
/// As much is unpacked from any file.
const ALWAYS_BYTES: u64 = 1 << 26;

type Decoder = fn(BufReader<Input>) -> io::Result<Input>;

/// How a compression begins, what it is called, and what decompresses any number of its streams.
const COMPRESSIONS: [(&[u8], &str, Decoder); 4] = [
    (b"\x1f\x8b", "gzip", |input| Ok(Box::new(MultiGzDecoder::new(input)))),
    (b"BZh", "bzip2", |input| Ok(Box::new(MultiBzDecoder::new(input)))),
    (b"\xfd7zXZ", "xz", |input| Ok(Box::new(XzDecoder::new_multi_decoder(input)))),
    (b"\x28\xb5\x2f\xfd", "zstd", |input| Ok(Box::new(zstd::stream::read::Decoder::with_buffer(input)?))),
];

/// The content of a stream that begins so, if it is compressed; the stream itself if not.
pub(super) fn decompressed(head: &[u8], input: Input, budget: &Budget) -> io::Result<Result<Input, Input>> {
    let Some((_, name, decoder)) = COMPRESSIONS.iter().find(|(magic, ..)| head.starts_with(magic)) else {
        return Ok(Err(input));
    };
    let plain = decoder(BufReader::with_capacity(BUFFER_BYTES, input))?;
    Ok(Ok(Box::new(Unpacked { what: format!("{name} stream"), input: plain, budget: budget.clone(), given: 0 })))
}

/// What was read of a file, which bounds what may come out of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget {
    read: Arc<AtomicU64>,
    /// Of all files in it together, however they are packed.
    given: Arc<AtomicU64>,
}

impl Budget {
    /// The file, which counts.
    pub(super) fn metered(&self, input: Input) -> Input {
        Box::new(Metered { input, budget: self.clone() })
    }

    /// A file in it, whose content counts.
    pub(super) fn spent(&self, content: Input) -> Input {
        Box::new(Spent { content, budget: self.clone() })
    }

    pub(super) fn check(&self, what: &str, given: u64) -> io::Result<()> {
        if given <= ALWAYS_BYTES || given / LARGEST_RATIO <= self.read.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message = format!("the {what} holds more than 64 MiB and {LARGEST_RATIO} times its size; unpack it first");
        Err(refused(message))
    }
}

struct Metered {
    input: Input,
    budget: Budget,
}

impl Read for Metered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.budget.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

struct Spent {
    content: Input,
    budget: Budget,
}

impl Read for Spent {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(into)?;
        let given = self.budget.given.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
        self.budget.check("file", given)?;
        Ok(read)
    }
}

/// Counts what comes out, and says of an error where it comes from.
struct Unpacked {
    what: String,
    input: Input,
    budget: Budget,
    given: u64,
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into).map_err(|error| explained(&self.what, error))?;
        self.given += read as u64;
        self.budget.check(&self.what, self.given)?;
        Ok(read)
    }
}

/// The kind of errors that say all that a user has to know; no decoder and no file has it.
const SAID: io::ErrorKind = io::ErrorKind::Unsupported;

pub(super) fn refused(message: String) -> io::Error {
    io::Error::new(SAID, message)
}

/// An error of what is packed: broken off, or damaged. One of the file itself, or said already, stays as it is.
pub(super) fn explained(what: &str, error: io::Error) -> io::Error {
    let happened = match error.kind() {
        SAID | io::ErrorKind::Interrupted => return error,
        _ if error.raw_os_error().is_some() => return error,
        io::ErrorKind::UnexpectedEof => "breaks off: the file is incomplete",
        _ => "is damaged",
    };
    refused(format!("the {what} {happened} ({error})"))
}

/// Reads over so many bytes, which must be there.
pub(super) fn pass(input: &mut impl BufRead, bytes: u64) -> io::Result<()> {
    match io::copy(&mut input.take(bytes), &mut io::sink())? {
        passed if passed == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
