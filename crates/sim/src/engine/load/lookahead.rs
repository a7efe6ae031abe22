//! The requests that an engine issues next: those of the trace, or the evictions of a buffer in front of the drive.

use std::io::{Read, Write};

use crate::drive::{Drive, Place};
use crate::engine::load::arrivals::Arrivals;
use crate::engine::load::requests::DriveRequest;
use crate::engine::load::reshaping_buffer::ReshapingBuffer;
use crate::engine::load::trace_input::{IssueMode, TraceInput};
use crate::engine::tally::Tally;
use crate::engine::{BufferMode, RunOptions, WriteBuffer};
use crate::policy::DriveState;
use crate::state::{Stored, put, take};
use crate::{Error, error};

/// Requests of the trace that pass the buffer before the drive sees its evictions. Many, so that
/// table entries are prefetched early; only one where the policy depends on the drive's state.
const LOOKAHEAD: usize = 256;

pub(in crate::engine) struct Lookahead<'a> {
    input: TraceInput<'a>,
    reshape: Option<ReshapingBuffer>,
    issue_mode: IssueMode,
    depth: usize,
    /// Requests of the trace, from `consumed` on.
    arrivals: Vec<DriveRequest>,
    consumed: usize,
    /// Requests for the drive, from `issued` on.
    ready: Vec<DriveRequest>,
    issued: usize,
    /// Requests that were given the time of a burst.
    in_bursts: u64,
    places: Vec<Place>,
}

impl<'a> Lookahead<'a> {
    pub fn new(
        input: TraceInput<'a>,
        options: &RunOptions,
        reshape: Option<ReshapingBuffer>,
        watches_elements: bool,
    ) -> Self {
        Self {
            input,
            reshape,
            issue_mode: options.issue_mode,
            depth: if watches_elements { 1 } else { LOOKAHEAD },
            arrivals: Vec::new(),
            consumed: 0,
            ready: Vec::new(),
            issued: 0,
            in_bursts: 0,
            places: Vec::new(),
        }
    }

    /// Appends further requests for the drive to `ready`; returns false at the end.
    pub fn append_ready(
        &mut self,
        ready: &mut Vec<DriveRequest>,
        drive_state: &DriveState<'_>,
        tally: &mut Tally,
    ) -> Result<bool, Error> {
        let first = ready.len();
        while ready.len() == first {
            if self.consumed == self.arrivals.len() {
                self.consumed = 0;
                self.arrivals.clear();
                if !self.input.read_batch(&mut self.arrivals)? {
                    return Ok(false);
                }
            }
            let until = (self.consumed + self.depth).min(self.arrivals.len());
            let arrived = &self.arrivals[self.consumed..until];
            match &mut self.reshape {
                None => ready.extend_from_slice(arrived),
                Some(reshape) => {
                    for request in arrived {
                        reshape.apply(request, drive_state, ready, tally);
                    }
                }
            }
            self.consumed = until;
        }
        self.set_burst_times(&mut ready[first..])?;
        Ok(true)
    }

    /// Requests of a burst are issued at the burst's time, not their own.
    fn set_burst_times(&mut self, ready: &mut [DriveRequest]) -> Result<(), Error> {
        if let IssueMode::Bursts { size, gap_ps } = self.issue_mode {
            for request in ready {
                request.at_ps = (self.in_bursts / u64::from(size)).saturating_mul(gap_ps);
                error::check_time(request.at_ps)?;
                self.in_bursts += 1;
            }
        }
        Ok(())
    }

    fn prefetch(&mut self, drive: &Drive) {
        // Where requests pass the buffer one by one, which page is evicted is known too late; but a small buffer evicts
        // what came not long ago.
        let soon = match self.depth {
            1 if self.consumed > 1 => return,
            1 => &self.arrivals,
            _ => &self.ready,
        };
        // A flush has a page as well, but does not need it.
        self.places.clear();
        self.places.extend(soon.iter().map(|request| drive.place(request.first)));
        drive.prefetch(&self.places);
    }
}

impl Arrivals for Lookahead<'_> {
    #[inline]
    fn peek(&self) -> Option<&DriveRequest> {
        self.ready.get(self.issued)
    }

    #[inline]
    fn pop(&mut self) {
        self.issued += 1;
    }

    fn refill(&mut self, drive: &Drive, drive_state: &DriveState<'_>, tally: &mut Tally) -> Result<(), Error> {
        self.issued = 0;
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let appended = self.append_ready(&mut ready, drive_state, tally);
        self.ready = ready;
        appended?;
        self.prefetch(drive);
        Ok(())
    }

    fn held_pages(&self) -> u64 {
        self.reshape.as_ref().map_or(0, ReshapingBuffer::held_pages)
    }

    fn into_buffer(self) -> Option<WriteBuffer> {
        self.reshape.map(|reshape| WriteBuffer {
            policy: reshape.policy,
            mode: BufferMode::Reshape,
            pad_reads: reshape.pad_reads,
            destager: None,
        })
    }
}

/// The state of a load whose requests are all issued; one that is loaded goes on behind its last request.
impl Stored for Lookahead<'_> {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        put(output, &(self.in_bursts, self.input.position()))?;
        self.reshape.as_ref().map_or(Ok(()), |reshape| reshape.policy.save(output))
    }

    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        let (in_bursts, position) = take(input)?;
        self.in_bursts = in_bursts;
        self.input.resume(position);
        self.reshape.as_mut().map_or(Ok(()), |reshape| reshape.policy.load(input))
    }
}
