//! Several loads at once on one drive, each a closed or an open loop of its own: `MQSim`'s flows, fio's jobs.
//!
//! A flow ends when its source has or at its time, as a job of fio does; its requests in flight complete. One in the
//! background ends when the others are complete. Of requests that are due together, that of the first flow is first.

use std::io::{Read, Write};

use ioassay_block::Source;

use crate::Error;
use crate::drive::{Drive, Spec};
use crate::engine::load::arrivals::Arrivals;
use crate::engine::load::requests::DriveRequest;
use crate::engine::load::trace_input::{IssueMode, TraceInput};
use crate::engine::tally::Tally;
use crate::engine::timers::NEVER;
use crate::engine::{RunOptions, Unaligned};
use crate::error::require;
use crate::policy::DriveState;
use crate::state::Stored;

/// One of several loads.
pub struct Flow<'a> {
    /// Its requests. Time stamps count in an open loop.
    pub source: &'a mut (dyn Source + Send),
    /// How many are outstanding; `None`: an open loop.
    pub depth: Option<u32>,
    /// Whether its requests leave the host's queue before those of other flows.
    pub is_urgent: bool,
    /// From when on it issues none; `None`: when its source has ended.
    pub until_ps: Option<u64>,
    pub is_background: bool,
}

impl Flow<'_> {
    /// Checks that flows are possible in a run with these options.
    pub(in crate::engine) fn check(flows: &[Self], options: &RunOptions) -> Result<(), Error> {
        let most = usize::from(u16::MAX);
        require((1..=most).contains(&flows.len()), "flows", flows.len(), || format!("1 to {most}"))?;
        let is_open = options.issue_mode == IssueMode::OpenLoop;
        require(is_open, "feed", "other than open", || "open: each flow has its depth or its rate")?;
        for flow in flows {
            require(flow.depth != Some(0), "depth", 0, || "at least 1")?;
            let has_queue = !flow.is_urgent || options.window.is_some();
            require(has_queue, "priority", 1, || "a window: without one no request waits in the host's queue")?;
        }
        Ok(())
    }
}

/// A flow under way.
struct Lane<'a> {
    input: TraceInput<'a>,
    depth: Option<u32>,
    is_urgent: bool,
    until_ps: u64,
    is_background: bool,
    /// Requests to be issued, from `consumed` on; none when it has ended.
    ready: Vec<DriveRequest>,
    consumed: usize,
    has_ended: bool,
    completed: u64,
    tally: Tally,
}

impl Lane<'_> {
    fn outstanding(&self) -> u64 {
        self.tally.issued - self.completed
    }

    /// When its next request is due; `NEVER` where that depends on a completion, or there is none.
    fn due_ps(&self) -> u64 {
        match (self.ready.get(self.consumed), self.depth) {
            (Some(request), None) => request.at_ps,
            (Some(_), Some(depth)) if self.outstanding() < depth.into() => self.tally.last_completion_ps,
            (None, _) | (_, Some(_)) => NEVER,
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.ready.clear();
    }

    fn is_complete(&self) -> bool {
        self.has_ended && self.outstanding() == 0
    }
}

pub(in crate::engine) struct Flows<'a> {
    lanes: Vec<Lane<'a>>,
    /// The lane of the next request.
    next: usize,
    next_ps: u64,
}

impl<'a> Flows<'a> {
    pub fn new(flows: Vec<Flow<'a>>, spec: &Spec, unaligned: Unaligned) -> Self {
        let lanes = flows.into_iter().map(|flow| Lane {
            input: TraceInput::new(
                flow.source,
                spec,
                flow.depth.map_or(IssueMode::OpenLoop, IssueMode::ClosedLoop),
                unaligned,
            ),
            depth: flow.depth,
            is_urgent: flow.is_urgent,
            until_ps: flow.until_ps.unwrap_or(NEVER),
            is_background: flow.is_background,
            ready: Vec::new(),
            consumed: 0,
            has_ended: false,
            completed: 0,
            tally: Tally::default(),
        });
        Self { lanes: lanes.collect(), next: 0, next_ps: NEVER }
    }

    /// What each flow had.
    pub fn take_tallies(&mut self) -> Vec<Tally> {
        let taken = self.lanes.iter_mut().map(|lane| {
            let mut tally = std::mem::take(&mut lane.tally);
            tally.record_recent();
            tally.unfinished = tally.issued - lane.completed;
            tally
        });
        taken.collect()
    }

    fn choose_next(&mut self) {
        for lane in &mut self.lanes {
            if (lane.until_ps..NEVER).contains(&lane.due_ps()) {
                lane.end();
            }
        }
        if self.lanes.iter().all(|lane| lane.is_background || lane.is_complete()) {
            self.lanes.iter_mut().for_each(Lane::end);
        }
        let going = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.has_ended);
        let first = going.map(|(number, lane)| (lane.due_ps(), number)).min();
        (self.next_ps, self.next) = first.unwrap_or((NEVER, 0));
    }
}

impl Arrivals for Flows<'_> {
    /// The request that is due next, or any one that waits for a completion.
    #[inline]
    fn peek(&self) -> Option<&DriveRequest> {
        let lane = &self.lanes[self.next];
        lane.ready.get(lane.consumed)
    }

    #[inline]
    fn due_ps(&self, _: IssueMode, _: usize, _: u64) -> u64 {
        self.next_ps
    }

    fn issued(&mut self, at_ps: u64) -> bool {
        let lane = &mut self.lanes[self.next];
        lane.consumed += 1;
        lane.tally.issued += 1;
        lane.tally.last_issue_ps = at_ps;
        let is_urgent = lane.is_urgent;
        self.choose_next();
        is_urgent
    }

    fn completed(&mut self, request: &DriveRequest, at_ps: u64, response_ps: u64, device_ps: u64) {
        let lane = &mut self.lanes[usize::from(request.flow)];
        lane.completed += 1;
        lane.tally.last_completion_ps = at_ps;
        lane.tally.complete(request.kind, response_ps, device_ps, request.sectors);
        self.choose_next();
    }

    /// It was taken when it was issued.
    fn pop(&mut self) {}

    fn wants_refill(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.has_ended && lane.consumed == lane.ready.len())
    }

    fn refill(&mut self, _: &Drive, _: &DriveState<'_>, _: &mut Tally) -> Result<(), Error> {
        for (lane, number) in self.lanes.iter_mut().zip(0..) {
            if lane.has_ended || lane.consumed < lane.ready.len() {
                continue;
            }
            lane.consumed = 0;
            lane.ready.clear();
            if !lane.input.read_batch(&mut lane.ready)? {
                lane.end();
            }
            lane.ready.iter_mut().for_each(|request| request.flow = number);
        }
        self.choose_next();
        Ok(())
    }

    fn held_pages(&self) -> u64 {
        0
    }
}

/// A run of flows has no trace behind which it could go on.
impl Stored for Flows<'_> {
    fn save(&self, _: &mut dyn Write) -> Result<(), Error> {
        Err(Error::State("flows are not saved, only a run over a trace is".into()))
    }

    fn load(&mut self, _: &mut dyn Read) -> Result<(), Error> {
        Err(Error::State("a saved run continues its trace, not flows".into()))
    }
}
