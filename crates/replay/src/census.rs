//! What a trace wants of a target, found before anything is issued, or as requests come.

use ioassay_block::{Kind, Request, Source};

use crate::target::{Bounds, Target};
use crate::{Error, Fault, Setup};

/// What a trace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Census {
    pub requests: u64,
    /// Writes and trims among them.
    pub writes: u64,
    /// From the first request's time to the last one's.
    pub span_ns: u64,
}

/// Reads a whole trace, and looks at each request: whether the target can take it. `proceed` is asked now and then; once
/// it says no, what was counted so far is returned.
pub fn survey(source: &mut dyn Source, setup: &Setup, mut proceed: impl FnMut() -> bool) -> Result<Census, Error> {
    setup.check()?;
    let mut gate = Gate::new(Target::open(setup, false)?.bounds, setup.buffer_bytes);
    let mut batch = Vec::new();
    while proceed() {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        for request in &batch {
            gate.pass(request)?;
        }
    }
    Ok(gate.census)
}

/// Lets those requests pass that the target can take, and counts them.
pub struct Gate {
    bounds: Bounds,
    most_bytes: u64,
    device: Option<u32>,
    times: Option<(u64, u64)>,
    pub census: Census,
}

impl Gate {
    pub fn new(bounds: Bounds, most_bytes: u64) -> Self {
        Self { bounds, most_bytes, device: None, times: None, census: Census::default() }
    }

    pub fn pass(&mut self, request: &Request) -> Result<(), Error> {
        self.census.requests += 1;
        if let Some(fault) = self.fault(request) {
            return Err(Error::Request { number: self.census.requests, fault });
        }
        self.census.writes += u64::from(matches!(request.kind, Kind::Write | Kind::Trim));
        let (first, last) = self.times.get_or_insert((request.at_ns, request.at_ns));
        *last = request.at_ns.max(*last);
        self.census.span_ns = *last - *first;
        Ok(())
    }

    fn fault(&mut self, request: &Request) -> Option<Fault> {
        let &Request { kind, offset_bytes, length_bytes, device, .. } = request;
        let before = *self.device.get_or_insert(device);
        if before != device {
            return Some(Fault::OtherDevice { device, before });
        }
        let (block_bytes, most_bytes) = match kind {
            Kind::Flush => return None,
            Kind::Trim => (self.bounds.trim_block_bytes, u64::MAX),
            Kind::Read | Kind::Write => (self.bounds.block_bytes, self.most_bytes),
        };
        let size_bytes = self.bounds.size_bytes;
        if length_bytes == 0 {
            Some(Fault::Empty { kind })
        } else if request.end_bytes().is_none_or(|end| end > size_bytes) {
            Some(Fault::Beyond { kind, offset_bytes, length_bytes, size_bytes })
        } else if (offset_bytes | length_bytes) & (block_bytes - 1) != 0 {
            let may_buffer = self.bounds.direct && kind != Kind::Trim;
            Some(Fault::Unaligned { kind, offset_bytes, length_bytes, block_bytes, may_buffer })
        } else {
            (length_bytes > most_bytes).then_some(Fault::TooLong { kind, length_bytes, most_bytes })
        }
    }
}
