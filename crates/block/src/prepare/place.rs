//! Where a request goes: devices folded, range shrunk, pages rounded, limit kept.

use super::changes::Moves;
use super::{Beyond, Devices, Offsets, Preparation, Refusal, Sizing};
use crate::Request;

/// Whether a request has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    Within,
    /// It is to be dropped.
    Beyond,
}

pub struct Places {
    wanted: Preparation,
    ratio: u64,
    /// Devices that are side by side: their numbers in ascending order, and which place each has.
    devices: Vec<(u32, u64)>,
}

impl Places {
    pub fn new(wanted: &Preparation) -> Self {
        Self { wanted: *wanted, ratio: wanted.shrink.map_or(1, super::Shrink::ratio), devices: Vec::new() }
    }

    /// Changes offset, length and device of a request that is no flush and not empty.
    pub fn place(&mut self, request: &mut Request, moves: &mut Moves) -> Result<Fit, Refusal> {
        if self.fold(request, moves)? == Fit::Beyond {
            return Ok(Fit::Beyond);
        }
        self.shrink(request, moves);
        self.cut(request, moves);
        self.round(request, moves)?;
        let limit_bytes = self.wanted.limit_bytes.unwrap_or(u64::MAX);
        self.limit(request, limit_bytes, moves)
    }

    fn fold(&mut self, request: &mut Request, moves: &mut Moves) -> Result<Fit, Refusal> {
        match self.wanted.devices {
            Devices::Keep => {}
            Devices::Ignore | Devices::Only(_) => request.device = 0,
            Devices::SideBySide { each_bytes } => {
                if self.limit(request, each_bytes, moves)? == Fit::Beyond {
                    return Ok(Fit::Beyond);
                }
                let place = self.place_of(request.device, each_bytes)?;
                moves.folded = place > 0;
                request.offset_bytes += place * each_bytes;
                request.device = 0;
            }
        }
        Ok(Fit::Within)
    }

    fn place_of(&mut self, device: u32, each_bytes: u64) -> Result<u64, Refusal> {
        let known = |known: &(u32, u64)| known.0;
        match self.devices.binary_search_by_key(&device, known) {
            Ok(index) => Ok(self.devices[index].1),
            Err(index) => {
                let place = self.devices.len() as u64;
                let most = u64::MAX / each_bytes;
                if place >= most {
                    return Err(Refusal::TooManyDevices { device, most });
                }
                self.devices.insert(index, (device, place));
                Ok(place)
            }
        }
    }

    fn shrink(&self, request: &mut Request, moves: &mut Moves) {
        let page_bytes = self.wanted.page_bytes;
        let (page, within) = (request.offset_bytes / page_bytes, request.offset_bytes % page_bytes);
        let shrunk = page / self.ratio;
        moves.shrunk = shrunk != page;
        request.offset_bytes = shrunk * page_bytes + within;
    }

    fn cut(&self, request: &mut Request, moves: &mut Moves) {
        if let Some(cut_bytes) = self.wanted.cut_bytes {
            let within = request.offset_bytes % cut_bytes;
            request.offset_bytes -= within;
            request.length_bytes = cut_bytes;
            moves.rounded = within > 0;
        }
    }

    fn round(&self, request: &mut Request, moves: &mut Moves) -> Result<(), Refusal> {
        let page_bytes = self.wanted.page_bytes;
        let within = request.offset_bytes % page_bytes;
        if within > 0 && self.wanted.offsets == Offsets::Refuse {
            return Err(Refusal::Unaligned { offset_bytes: request.offset_bytes, page_bytes });
        }
        if self.wanted.offsets == Offsets::Down || self.wanted.sizes != Sizing::Keep {
            request.offset_bytes -= within;
            moves.rounded |= within > 0;
        }
        match self.wanted.sizes {
            Sizing::Keep => {}
            Sizing::Cut => request.length_bytes = page_bytes,
            Sizing::RoundOut | Sizing::Split => {
                let end = request.length_bytes.checked_add(within);
                let end = end.and_then(|length| length.checked_next_multiple_of(page_bytes));
                request.length_bytes = end.ok_or_else(|| beyond(request, u64::MAX))?;
            }
        }
        Ok(())
    }

    /// Sees to it that a request ends within the limit.
    fn limit(&self, request: &mut Request, limit_bytes: u64, moves: &mut Moves) -> Result<Fit, Refusal> {
        if request.end_bytes().is_some_and(|end| end <= limit_bytes) {
            return Ok(Fit::Within);
        }
        match self.wanted.beyond {
            Beyond::Refuse => Err(beyond(request, limit_bytes)),
            Beyond::Drop => Ok(Fit::Beyond),
            Beyond::Wrap if request.length_bytes > limit_bytes => Err(beyond(request, limit_bytes)),
            Beyond::Wrap => {
                self.wrap(request, limit_bytes);
                moves.wrapped = true;
                Ok(Fit::Within)
            }
        }
    }

    /// To the remainder of the offset by the limit (in whole pages, so that no page is torn); what
    /// still reaches over the end moves back to where it fits.
    fn wrap(&self, request: &mut Request, limit_bytes: u64) {
        let page_bytes = self.wanted.page_bytes;
        let whole = limit_bytes - limit_bytes % page_bytes;
        request.offset_bytes %= if whole == 0 { limit_bytes } else { whole };
        let last = limit_bytes - request.length_bytes;
        if request.offset_bytes > last {
            request.offset_bytes = last - last % page_bytes;
        }
    }
}

fn beyond(request: &Request, limit_bytes: u64) -> Refusal {
    Refusal::OutOfRange { offset_bytes: request.offset_bytes, length_bytes: request.length_bytes, limit_bytes }
}
