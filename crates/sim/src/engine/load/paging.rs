//! Converts ranges of bytes to the drive's sectors and pages, and refuses those that the drive has not.

use ioassay_block::{Kind, MOST_REQUEST_BYTES, Request};

use crate::Error;
use crate::drive::{SECTOR_BYTES, Spec};
use crate::engine::load::requests::DriveRequest;
use crate::options::kinds::choices;

/// Treatment of a range that is not whole sectors of 512 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unaligned {
    /// Round it out to whole sectors.
    Round,
    Refuse,
}

choices!(Unaligned: "round" = Round, "refuse" = Refuse);

pub(crate) struct Paging {
    page_sectors: u64,
    /// The page size, where that is a power of two; else a length that no request has.
    whole_page_bytes: u64,
    page_shift: u32,
    capacity_bytes: u64,
    capacity_sectors: u64,
    unaligned: Unaligned,
}

impl Paging {
    pub fn new(spec: &Spec, unaligned: Unaligned) -> Self {
        Self {
            page_sectors: u64::from(spec.page_sectors()),
            whole_page_bytes: if spec.page_bytes.is_power_of_two() { spec.page_bytes.into() } else { u64::MAX },
            page_shift: spec.page_bytes.trailing_zeros(),
            capacity_bytes: spec.capacity_bytes(),
            capacity_sectors: spec.capacity_bytes() / u64::from(SECTOR_BYTES),
            unaligned,
        }
    }

    /// A request in the drive's pages, issued at `at_ps`; the `number` is for messages.
    #[inline]
    pub fn drive_request(&self, request: &Request, at_ps: u64, number: u64) -> Result<DriveRequest, Error> {
        let (first, pages, sectors, skip) = match self.whole_page(request) {
            Some(first) => (first, 1, self.page_sectors as u32, 0),
            None => self.range(request, number)?,
        };
        Ok(DriveRequest { at_ps, first, pages, sectors, skip, kind: request.kind, bypass: false, flow: 0 })
    }

    /// The page of a request for exactly one page, the most common case.
    #[inline]
    fn whole_page(&self, request: &Request) -> Option<u32> {
        let page_bytes = self.whole_page_bytes;
        let fits = request.length_bytes == page_bytes
            && request.offset_bytes & (page_bytes - 1) == 0
            && request.offset_bytes < self.capacity_bytes
            && request.kind != Kind::Flush;
        fits.then(|| (request.offset_bytes >> self.page_shift) as u32)
    }

    /// First page, number of pages and of sectors, and sectors of the first page in front of them.
    fn range(&self, request: &Request, number: u64) -> Result<(u32, u32, u32, u32), Error> {
        let sector = u64::from(SECTOR_BYTES);
        if (request.offset_bytes | request.length_bytes) & (sector - 1) != 0 && self.unaligned == Unaligned::Refuse {
            return Err(refused(request, number, "whole sectors of 512 bytes, or rounding"));
        }
        let Some(end_bytes) = request.end_bytes() else {
            return Err(refused(request, number, "an end within 64 bits"));
        };
        let (begin, end) = (request.offset_bytes / sector, end_bytes.div_ceil(sector));
        if request.kind == Kind::Flush {
            return Ok((0, 0, 0, 0));
        }
        if request.length_bytes == 0 {
            return Err(refused(request, number, "a length of at least one byte"));
        }
        if request.length_bytes > MOST_REQUEST_BYTES && request.kind != Kind::Trim {
            let wanted = "less than 4 GiB in a read or write: is the unit of lengths right?";
            return Err(refused(request, number, wanted));
        }
        if end > self.capacity_sectors {
            let capacity_bytes = self.capacity_sectors * sector;
            return Err(refused(
                request,
                number,
                &format!("to end within the drive's {capacity_bytes} bytes: shrink, wrap or drop it"),
            ));
        }
        let sectors = (end - begin).min(u64::from(u32::MAX));
        let (first, skip) = (begin / self.page_sectors, begin % self.page_sectors);
        let pages = (skip + sectors).div_ceil(self.page_sectors);
        Ok((first as u32, pages as u32, sectors as u32, skip as u32))
    }
}

#[cold]
fn refused(request: &Request, number: u64, wanted: &str) -> Error {
    Error::Request {
        number,
        what: format!("{} bytes at {}", request.length_bytes, request.offset_bytes),
        wanted: wanted.to_owned(),
    }
}
