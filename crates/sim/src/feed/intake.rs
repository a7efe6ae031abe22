//! From a trace's requests to the drive's: checked, in pages, at their time.

use ioassay_block::{BATCH, Kind, Request, Source};

use super::requests::Fed;
use crate::drive::{SECTOR_BYTES, Spec};
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

pub(super) struct Intake<'a> {
    source: &'a mut dyn Source,
    batch: Vec<Request>,
    page_sectors: u64,
    /// Doublings of a byte that make a page, if it is so many.
    page_shift: Option<u32>,
    capacity_bytes: u64,
    capacity_sectors: u64,
    unaligned: Unaligned,
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
            page_sectors: u64::from(spec.page_sectors()),
            page_shift: spec
                .page_bytes
                .is_power_of_two()
                .then(|| spec.page_bytes.trailing_zeros()),
            capacity_bytes: spec.capacity_bytes(),
            capacity_sectors: spec.capacity_bytes() / u64::from(SECTOR_BYTES),
            unaligned,
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
        if let Some(first) = self.whole_page(request) {
            return Ok(Fed {
                at_ps,
                first,
                pages: 1,
                sectors: self.page_sectors as u32,
                skip: 0,
                kind: request.kind,
            });
        }
        let (begin, sectors) = self.sectors(request)?;
        let (first, skip) = (begin / self.page_sectors, begin % self.page_sectors);
        Ok(Fed {
            at_ps,
            first: first as u32,
            pages: (skip + sectors).div_ceil(self.page_sectors) as u32,
            sectors: sectors as u32,
            skip: skip as u32,
            kind: request.kind,
        })
    }

    /// The page of a request for just one, as most are.
    #[inline]
    fn whole_page(&self, request: &Request) -> Option<u32> {
        let page_bytes = 1 << self.page_shift?;
        let fits = request.length_bytes == page_bytes
            && request.offset_bytes & (page_bytes - 1) == 0
            && request.offset_bytes < self.capacity_bytes
            && request.kind != Kind::Flush;
        fits.then(|| (request.offset_bytes >> self.page_shift.unwrap_or(0)) as u32)
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

    /// First sector and number of sectors.
    #[inline]
    fn sectors(&self, request: &Request) -> Result<(u64, u64), Error> {
        let sector = u64::from(SECTOR_BYTES);
        if (request.offset_bytes | request.length_bytes) & (sector - 1) != 0
            && self.unaligned == Unaligned::Refuse
        {
            return Err(self.refused(request, "whole sectors of 512 bytes, or rounding"));
        }
        let Some(end_bytes) = request.end_bytes() else {
            return Err(self.refused(request, "an end within 64 bits"));
        };
        let (begin, end) = (request.offset_bytes / sector, end_bytes.div_ceil(sector));
        if request.kind == Kind::Flush {
            return Ok((0, 0));
        }
        if request.length_bytes == 0 {
            return Err(self.refused(request, "a length of at least one byte"));
        }
        if end > self.capacity_sectors {
            let capacity_bytes = self.capacity_sectors * sector;
            return Err(self.refused(
                request,
                &format!(
                    "to end within the drive's {capacity_bytes} bytes: shrink, wrap or drop it"
                ),
            ));
        }
        let most = u64::from(u32::MAX);
        if end - begin > most && request.kind != Kind::Trim {
            return Err(self.refused(request, "less than 2 TiB"));
        }
        Ok((begin, (end - begin).min(most)))
    }

    #[cold]
    fn refused(&self, request: &Request, wanted: &str) -> Error {
        Error::Request {
            number: self.taken,
            what: format!("{} bytes at {}", request.length_bytes, request.offset_bytes),
            wanted: wanted.to_owned(),
        }
    }
}
