//! Reads a trace and makes drive requests of it: checked, in pages, each with its time of issue.

use ioassay_block::{BATCH, Request, Source};

use crate::drive::Spec;
use crate::engine::load::paging::{Paging, Unaligned};
use crate::engine::load::requests::DriveRequest;
use crate::options::{Given, Kind};
use crate::{Error, error};

/// The longest gap between bursts.
const DAY_US: f64 = 8.64e10;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IssueMode {
    /// Open loop: at the trace's time stamps.
    OpenLoop,
    /// Open loop at the trace's time stamps times a factor; below 1 is faster.
    ScaledOpenLoop(f64),
    /// Closed loop: whenever fewer than this number are outstanding. Time stamps do not matter.
    ClosedLoop(u32),
    /// `size` requests at once, bursts `gap_ps` apart. Time stamps do not matter.
    Bursts {
        size: u32,
        /// Picoseconds from the beginning of one burst to that of the next.
        gap_ps: u64,
    },
}

/// Read from `open`, `scaled:FACTOR`, `closed:OUTSTANDING` or `batch:SIZE@GAP`, the gap in microseconds.
impl Kind for IssueMode {
    type Value = Self;
    const NAME: &'static str = "feeding";

    fn read(given: &Given) -> Result<Self, String> {
        let mode = match given.text()?.split_once(':') {
            None if given.text()? == "open" => Some(Self::OpenLoop),
            Some(("scaled", factor)) => factor.parse().ok().map(Self::ScaledOpenLoop),
            Some(("closed", outstanding)) => outstanding.parse().ok().map(Self::ClosedLoop),
            Some(("batch", burst)) => burst.split_once('@').and_then(|(size, gap_us)| {
                let gap_us = gap_us.parse().ok().filter(|gap_us| (0.0..=DAY_US).contains(gap_us))?;
                Some(Self::Bursts { size: size.parse().ok()?, gap_ps: (gap_us * 1e6).round() as u64 })
            }),
            _ => None,
        };
        let wanted = "open, scaled:FACTOR, closed:OUTSTANDING or batch:SIZE@GAP, in microseconds and a day at most";
        mode.ok_or_else(|| wanted.into())
    }
}

pub(in crate::engine) struct TraceInput<'a> {
    source: &'a mut dyn Source,
    batch: Vec<Request>,
    paging: Paging,
    scale: Option<f64>,
    /// Whether requests are issued at the time stamps of the trace.
    timed: bool,
    position: Position,
    /// Requests of the trace that an earlier run had, and that are left out.
    skip: u64,
}

/// How far a trace was read.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub(in crate::engine) struct Position {
    first_ns: Option<u64>,
    last_ps: u64,
    requests_read: u64,
}

impl<'a> TraceInput<'a> {
    pub fn new(source: &'a mut dyn Source, spec: &Spec, issue_mode: IssueMode, unaligned: Unaligned) -> Self {
        Self {
            source,
            batch: Vec::with_capacity(BATCH),
            paging: Paging::new(spec, unaligned),
            scale: match issue_mode {
                IssueMode::ScaledOpenLoop(factor) => Some(factor),
                _ => None,
            },
            timed: matches!(issue_mode, IssueMode::OpenLoop | IssueMode::ScaledOpenLoop(_)),
            position: Position::default(),
            skip: 0,
        }
    }

    /// How far the trace was read.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Goes on behind a position of the same trace, which is read from its beginning.
    pub fn resume(&mut self, position: Position) {
        self.position = position;
        self.skip = position.requests_read;
    }

    /// Appends the next requests to `out`; returns false at the end of the trace.
    pub fn read_batch(&mut self, out: &mut Vec<DriveRequest>) -> Result<bool, Error> {
        self.source.next_batch(&mut self.batch)?;
        while self.skip > 0 && !self.batch.is_empty() {
            let known = self.skip.min(self.batch.len() as u64);
            self.skip -= known;
            self.batch.drain(..known as usize);
            if self.batch.is_empty() {
                self.source.next_batch(&mut self.batch)?;
            }
        }
        let Some(first) = self.batch.first() else {
            return Ok(false);
        };
        let first_ns = *self.position.first_ns.get_or_insert(first.at_ns);
        out.reserve(self.batch.len());
        let (mut number, mut last_ps) = (self.position.requests_read, self.position.last_ps);
        for request in &self.batch {
            number += 1;
            last_ps = self.at_ps(request, first_ns, last_ps, number)?;
            out.push(self.paging.drive_request(request, last_ps, number)?);
        }
        (self.position.requests_read, self.position.last_ps) = (number, last_ps);
        Ok(true)
    }

    /// Picoseconds since the first request; at least `last_ps`.
    #[inline]
    fn at_ps(&self, request: &Request, first_ns: u64, last_ps: u64, number: u64) -> Result<u64, Error> {
        let since_ns = request.at_ns.wrapping_sub(first_ns);
        let at_ps = match self.scale {
            None => since_ns.wrapping_mul(1000),
            // The conversion saturates far beyond the longest run, which is refused below.
            Some(factor) => (since_ns as f64 * 1000.0 * factor) as u64,
        };
        // Later, picoseconds wrap; a scaled time does not.
        let fits = since_ns <= error::LONGEST_PS / 1000 || (self.scale.is_some() && request.at_ns >= first_ns);
        if fits && (last_ps..=error::LONGEST_PS).contains(&at_ps) {
            return Ok(at_ps);
        }
        if request.at_ns >= first_ns && (!fits || at_ps > error::LONGEST_PS) {
            return if self.timed { Err(too_late(request, number)) } else { Ok(error::LONGEST_PS) };
        }
        Err(Error::Request {
            number,
            what: format!("at {} ns, goes back in time", request.at_ns),
            wanted: "a trace in the order of time: let its reader sort it".into(),
        })
    }
}

#[cold]
fn too_late(request: &Request, number: u64) -> Error {
    Error::Request {
        number,
        what: format!("at {} ns, is more than 100 days after the first", request.at_ns),
        wanted: "a shorter trace, or another unit of time".into(),
    }
}
