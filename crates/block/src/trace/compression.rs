//! Compressed traces, told by their first bytes.

use std::io::{self, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;

const GZIP: &[u8] = &[0x1f, 0x8b];
const BZIP2: &[u8] = b"BZh";
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X'];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BUFFER_BYTES: usize = 64 * 1024;

/// The bytes of a trace, decompressed if it begins as gzip, bzip2, xz (of any number of members) or zstd do.
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
    let packed = [GZIP, BZIP2, XZ, ZSTD].into_iter().find(|begin| magic[..read].starts_with(begin));
    let buffered = BufReader::with_capacity(BUFFER_BYTES, whole);
    Ok(match packed {
        Some(GZIP) => Box::new(Explained("gzip", MultiGzDecoder::new(buffered))),
        Some(BZIP2) => Box::new(Explained("bzip2", MultiBzDecoder::new(buffered))),
        Some(XZ) => Box::new(Explained("xz", XzDecoder::new_multi_decoder(buffered))),
        Some(_) => Box::new(Explained("zstd", zstd::stream::read::Decoder::with_buffer(buffered)?)),
        None => Box::new(buffered.into_inner()),
    })
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
