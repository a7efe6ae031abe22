//! From a trace's requests to the drive's: checked, in pages, at their time.

use ioassay_block::{BATCH, Request, Source};

use crate::drive::Spec;
use crate::engine::load::paging::Paging;
use crate::engine::load::requests::Fed;
use crate::{Error, error};

/// When requests are issued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Feeding {
    /// At the trace's time stamps.
    Open,
    /// At the trace's time stamps times a factor: below 1 is faster.
    Scaled(f64),
    /// When fewer than so many are outstanding; time stamps do not matter.
    Closed(u32),
    /// So many at once, with a gap from one lot to the next; time stamps do not matter.
    Batches {
        /// Requests of a lot.
        size: u32,
        /// Picoseconds between the beginnings of lots.
        gap_ps: u64,
    },
}

/// What becomes of a range that is not whole sectors of 512 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unaligned {
    /// It is rounded out to whole sectors.
    Round,
    /// It is an error.
    Refuse,
}

pub(in crate::engine) struct Intake<'a> {
    source: &'a mut dyn Source,
    batch: Vec<Request>,
    paging: Paging,
    scale: Option<f64>,
    first_ns: Option<u64>,
    last_ps: u64,
    taken: u64,
}

impl<'a> Intake<'a> {
    pub fn new(
        source: &'a mut dyn Source,
        spec: &Spec,
        feeding: Feeding,
        unaligned: Unaligned,
    ) -> Self {
        Self {
            source,
            batch: Vec::with_capacity(BATCH),
            paging: Paging::new(spec, unaligned),
            scale: match feeding {
                Feeding::Scaled(factor) => Some(factor),
                _ => None,
            },
            first_ns: None,
            last_ps: 0,
            taken: 0,
        }
    }

    /// Appends the next requests to `out`; whether there were any.
    pub fn take(&mut self, out: &mut Vec<Fed>) -> Result<bool, Error> {
        self.source.next_batch(&mut self.batch)?;
        let batch = std::mem::take(&mut self.batch);
        out.reserve(batch.len());
        for request in &batch {
            self.taken += 1;
            out.push(self.fed(request)?);
        }
        self.batch = batch;
        Ok(!self.batch.is_empty())
    }

    #[inline]
    fn fed(&mut self, request: &Request) -> Result<Fed, Error> {
        let at_ps = self.at_ps(request)?;
        self.paging.fed(request, at_ps, self.taken)
    }

    /// Picoseconds since the first request.
    #[inline]
    fn at_ps(&mut self, request: &Request) -> Result<u64, Error> {
        let first_ns = *self.first_ns.get_or_insert(request.at_ns);
        let since_ns = request.at_ns.wrapping_sub(first_ns);
        let at_ps = match self.scale {
            None => since_ns.wrapping_mul(1000),
            // Beyond all that is allowed, it ends there.
            Some(factor) => (since_ns as f64 * 1000.0 * factor) as u64,
        };
        if since_ns <= error::LONGEST_PS / 1000
            && (self.last_ps..=error::LONGEST_PS).contains(&at_ps)
        {
            self.last_ps = at_ps;
            return Ok(at_ps);
        }
        if request.at_ns >= first_ns && at_ps >= self.last_ps {
            return Err(self.too_late(request));
        }
        Err(Error::Request {
            number: self.taken,
            what: format!("at {} ns, goes back in time", request.at_ns),
            wanted: "a trace in the order of time: let its reader sort it".into(),
        })
    }

    #[cold]
    fn too_late(&self, request: &Request) -> Error {
        Error::Request {
            number: self.taken,
            what: format!(
                "at {} ns, is more than 100 days after the first",
                request.at_ns
            ),
            wanted: "a shorter trace, or another unit of time".into(),
        }
    }
}
