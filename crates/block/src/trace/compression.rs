//! Compressed traces, told by their first bytes.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BUFFER_BYTES: usize = 64 * 1024;

/// The bytes of a trace, decompressed if it begins as gzip (of any number of members) or zstd do.
pub fn decompressed<R: Read + Send + 'static>(input: R) -> io::Result<Box<dyn Read + Send>> {
    let mut input = input;
    let mut magic = [0; 4];
    let mut read = 0;
    while read < magic.len() {
        match super::lines::read_some(&mut input, &mut magic[read..])? {
            0 => break,
            bytes => read += bytes,
        }
    }
    let whole = io::Cursor::new(magic).take(read as u64).chain(input);
    if magic[..read].starts_with(GZIP) {
        let buffered = BufReader::with_capacity(BUFFER_BYTES, whole);
        return Ok(Box::new(Explained("gzip", MultiGzDecoder::new(buffered))));
    }
    if magic[..read] == *ZSTD {
        let buffered = BufReader::with_capacity(BUFFER_BYTES, whole);
        let decoder = zstd::stream::read::Decoder::with_buffer(buffered)?;
        return Ok(Box::new(Explained("zstd", decoder)));
    }
    Ok(Box::new(whole))
}

/// Says of an error that it comes from decompression.
struct Explained<R>(&'static str, R);

impl<R: Read> Read for Explained<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1.read(into).map_err(|error| {
            let kind = error.kind();
            let what = match kind {
                io::ErrorKind::Interrupted => return error,
                io::ErrorKind::UnexpectedEof => "breaks off: the file is incomplete",
                _ => "is damaged",
            };
            io::Error::new(kind, format!("the {}-compressed trace {what} ({error})", self.0))
        })
    }
}
