//! What every format has in common: order of time, lengths, faults that are passed over, and what comes before an error.

use super::{Format, OutOfOrder, ReadOptions, ZeroLength};
use crate::{BATCH, Error, Fault, Kind, MOST_REQUEST_BYTES, Request, Source};

/// As much of a trace, decompressed, as is looked at.
pub const SNIFF_BYTES: usize = 64 * 1024;

/// What a trace begins with, and what in it may be wrong.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub bytes: &'a [u8],
    pub options: &'a ReadOptions,
}

/// How many requests a head holds, and how many lines or records that are wrong.
#[derive(Clone, Copy)]
pub(super) struct Probed {
    pub requests: u64,
    pub bad: u64,
}

/// How many requests of a head a format could read, and what was wrong then.
pub(super) type Misfit = (u64, Error);

/// Admits the requests that are to be given.
pub(super) struct Gate {
    last_ns: u64,
    in_order: bool,
    zero_length: ZeroLength,
    /// How many more lines or records may be wrong.
    bad_left: u64,
    bad: u64,
    /// How many requests were admitted.
    given: u64,
}

impl Gate {
    pub(super) fn new(options: &ReadOptions) -> Self {
        Self {
            last_ns: 0,
            in_order: options.out_of_order == OutOfOrder::Refuse,
            zero_length: options.zero_length,
            bad_left: options.bad_lines,
            bad: 0,
            given: 0,
        }
    }

    /// Whether the request is to be given.
    #[inline(always)]
    pub(super) fn admits(&mut self, request: &Request) -> Result<bool, Fault> {
        if request.at_ns < self.last_ns && self.in_order {
            return Err(Fault::TimeBack { at_ns: request.at_ns, last_ns: self.last_ns });
        }
        if request.length_bytes > MOST_REQUEST_BYTES || request.end_bytes().is_none() {
            possible(request)?;
        }
        self.last_ns = request.at_ns;
        if request.length_bytes > 0 || request.kind == Kind::Flush {
            self.given += 1;
            return Ok(true);
        }
        match self.zero_length {
            ZeroLength::Refuse => Err(Fault::ZeroLength),
            ZeroLength::Skip => Ok(false),
        }
    }

    /// Passes over a line or record that is wrong, if another one may be.
    #[cold]
    pub(super) fn forgives(&mut self) -> bool {
        let forgives = self.bad_left > 0;
        self.bad_left -= u64::from(forgives);
        self.bad += 1;
        forgives
    }

    /// An error at the end of a trace without any request.
    pub(super) fn end(&self, format: &Format, seen: String) -> Result<(), Error> {
        if self.given > 0 { Ok(()) } else { Err(Error::Nothing { format: format.name, seen }) }
    }
}

/// A range that ends within 64 bits; only a trim may be longer than what one read or write has.
#[cold]
fn possible(request: &Request) -> Result<(), Fault> {
    let overflow = |column, seen: String, limit| Err(Fault::Overflow { column, seen, limit });
    if request.end_bytes().is_none() {
        return overflow("offset", request.offset_bytes.to_string(), "the range must end below 2^64 bytes");
    }
    if matches!(request.kind, Kind::Trim | Kind::Flush) || request.length_bytes <= MOST_REQUEST_BYTES {
        return Ok(());
    }
    let limit = "a read or write has less than 4 GiB: is the unit of lengths right? (--bad-lines N leaves out N such)";
    overflow("length", format!("{} bytes", request.length_bytes), limit)
}

/// Reads the lines or records of a trace.
pub(super) trait Fill {
    /// Adds requests until the batch is full or the trace ends; returns whether it has ended.
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<bool, Error>;

    fn gate(&self) -> &Gate;
}

/// The requests of a trace. Those that stand before an error are given before it.
pub(super) struct Reader<F> {
    trace: F,
    /// What is to be said when the requests before it were given.
    pending: Option<Error>,
    over: bool,
}

impl<F: Fill> Reader<F> {
    pub(super) fn new(trace: F) -> Self {
        Self { trace, pending: None, over: false }
    }

    /// How many requests the trace holds, if no more of it is wrong than may be, and than is right.
    pub(super) fn probe(mut self) -> Result<Probed, Misfit> {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let read = self.next_batch(&mut batch);
            let Gate { given: requests, bad, .. } = *self.trace.gate();
            match read {
                Err(error) => return Err((requests, error)),
                Ok(()) if !batch.is_empty() => {}
                Ok(()) if bad <= requests => return Ok(Probed { requests, bad }),
                Ok(()) => return Err((0, Error::Nothing { format: "it", seen: format!("{bad} bad lines") })),
            }
        }
    }
}

impl<F: Fill> Source for Reader<F> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        if self.over {
            return Ok(());
        }
        let filled = self.trace.fill(batch);
        self.over = *filled.as_ref().unwrap_or(&true);
        match filled {
            Err(error) if batch.is_empty() => return Err(error),
            Err(error) => self.pending = Some(error),
            Ok(_) => {}
        }
        Ok(())
    }
}
