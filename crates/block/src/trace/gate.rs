//! What every request that is read must hold, whatever the format: order of time, and a length.

use super::{OutOfOrder, ReadOptions, ZeroLength};
use crate::{Fault, Kind, Request};

pub(super) struct Gate {
    last_ns: u64,
    in_order: bool,
    zero_length: ZeroLength,
    /// How many requests were admitted.
    pub(super) given: u64,
}

impl Gate {
    pub(super) fn new(options: &ReadOptions) -> Self {
        Self {
            last_ns: 0,
            in_order: options.out_of_order == OutOfOrder::Refuse,
            zero_length: options.zero_length,
            given: 0,
        }
    }

    /// Whether the request is to be given.
    #[inline(always)]
    pub(super) fn admits(&mut self, request: &Request) -> Result<bool, Fault> {
        if request.at_ns < self.last_ns && self.in_order {
            return Err(Fault::TimeBack { at_ns: request.at_ns, last_ns: self.last_ns });
        }
        if request.offset_bytes.checked_add(request.length_bytes).is_none() {
            return Err(Fault::Overflow {
                column: "offset",
                seen: request.offset_bytes.to_string(),
                limit: "the range must end below 2^64 bytes",
            });
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
}
