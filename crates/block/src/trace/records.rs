//! Formats that are binary records: takes the records, lets the format parse each.

use std::io::Read;

use super::gate::{Fill, Gate, Head, Misfit, Probed, Reader, SNIFF_BYTES};
use super::lines::Buffered;
use super::{Format, ReadOptions};
use crate::{BATCH, Error, Fault, Request, Source};

/// Parses the records of one format.
pub(super) trait RecordParser: Send {
    /// So many bytes say how long a record is.
    const HEAD_BYTES: usize;

    /// How long the record is that begins so, in bytes: at most 128 KiB.
    fn bytes(&mut self, head: &[u8]) -> Result<usize, Fault>;

    /// The request of a record; nothing if the record is right and holds none.
    fn request(&mut self, record: &[u8]) -> Result<Option<Request>, Fault>;

    /// What is wrong with a trace none of whose records gave a request, where the format knows.
    fn nothing(&self) -> Option<Error> {
        None
    }
}

struct Records<R, P> {
    format: &'static Format,
    input: Buffered<R>,
    /// Where in the trace the next record is.
    position: u64,
    /// Whether the input is the beginning of a trace, so that its last record may be cut.
    is_cut: bool,
    parser: P,
    gate: Gate,
}

/// The requests of a binary trace.
pub(super) fn source(
    format: &'static Format,
    input: Box<dyn Read + Send>,
    parser: impl RecordParser + 'static,
    options: &ReadOptions,
) -> Box<dyn Source + Send> {
    let (input, gate) = (Buffered::new(input), Gate::new(options));
    Box::new(Reader::new(Records { format, input, position: 0, is_cut: false, parser, gate }))
}

/// How many requests a head holds.
pub(super) fn probe(format: &'static Format, head: Head<'_>, parser: impl RecordParser) -> Result<Probed, Misfit> {
    let (input, gate, is_cut) = (Buffered::new(head.bytes), Gate::new(head.options), head.bytes.len() >= SNIFF_BYTES);
    Reader::new(Records { format, input, position: 0, is_cut, parser, gate }).probe()
}

impl<R: Read, P: RecordParser> Records<R, P> {
    /// The end, which must not be within a record of `wanted` bytes.
    fn end(&self, wanted: usize) -> Result<bool, Error> {
        match self.input.bytes().len() {
            seen if seen > 0 && !self.is_cut => Err(Fault::Truncated { seen, wanted }.at_byte(self.position)),
            _ => match self.gate.end(self.format, format!("{} bytes", self.position)) {
                Err(nothing) => Err(self.parser.nothing().unwrap_or(nothing)),
                Ok(()) => Ok(true),
            },
        }
    }
}

impl<R: Read, P: RecordParser> Fill for Records<R, P> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<bool, Error> {
        while batch.len() < BATCH {
            let (mut bytes, mut wanted) = (0, P::HEAD_BYTES);
            // What is there may say that the record is longer.
            while bytes != wanted {
                bytes = wanted;
                if !self.input.has(bytes)? {
                    return self.end(bytes);
                }
                // Where a record is not known to end, none can be left out.
                wanted = self.parser.bytes(self.input.bytes()).map_err(|fault| fault.at_byte(self.position))?;
            }
            match self.parser.request(self.input.take(bytes)) {
                Ok(None) => {}
                Ok(Some(request)) => match self.gate.admits(&request) {
                    Ok(true) => batch.push(request),
                    Ok(false) => {}
                    Err(fault) => self.forgive(fault)?,
                },
                Err(fault) => self.forgive(fault)?,
            }
            self.position += bytes as u64;
        }
        Ok(false)
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl<R, P> Records<R, P> {
    #[cold]
    fn forgive(&mut self, fault: Fault) -> Result<(), Error> {
        if self.gate.forgives() { Ok(()) } else { Err(fault.at_byte(self.position)) }
    }
}

/// A number of `N` bytes, the lowest first.
#[inline(always)]
pub(super) fn little<const N: usize>(record: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&record[at..at + N]);
    u64::from_le_bytes(bytes)
}

/// A number of `N` bytes, the highest first.
#[inline(always)]
pub(super) fn big<const N: usize>(record: &[u8], at: usize) -> u64 {
    little::<N>(record, at).swap_bytes() >> (64 - 8 * N)
}

/// A length that a record has 32 bits for.
pub(super) fn length(format: &'static str, request: &Request) -> Result<u32, Fault> {
    let what = || format!("a length of {} bytes, only below 2^32", request.length_bytes);
    u32::try_from(request.length_bytes).map_err(|_| Fault::Inexpressible { format, what: what() })
}
