//! Writes that wait for nothing but the drive are run as a stream of times, all else by events:
//! both give the same, wherever both can run.

use crate::checkpoint;
use crate::loads::{
    self, Chance, Mix, Unsaid, buffer, drive, each, mixed, plain, properties, read, same_drive, with, write,
};
use crate::threads::Threads;
use ioassay_block::{Error as TraceError, Request, Source};
use ioassay_sim::Error;
use ioassay_sim::drive::{Overlap, Spec};
use ioassay_sim::engine::{
    BufferMode, End, IssueMode, OneThread, RunOptions, Scheduler, Workers, WriteBuffer, run, run_with,
};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
struct Load {
    seed: u64,
    requests: u32,
    mix: Mix,
}

impl Load {
    fn new(seed: u64, requests: u32, gap_ns: u32, burst: u32, most_pages: u32) -> Self {
        Self { seed, requests, mix: Mix { kinds: [0; 3], gap_ns, burst, most_pages, parts: true } }
    }

    fn requests(self, spec: &Spec) -> Vec<Request> {
        mixed(&mut Chance(self.seed), spec.pages(), self.requests, self.mix)
    }
}

prop_compose! {
    fn loads()(seed: u64, requests in 1_u32..600, gap_us in 0_u32..400, burst in 1_u32..30, pages in 1_u32..9)
        -> Load { Load::new(seed, requests, 1000 * gap_us, burst, pages) }
}

/// Requests that can be read again: they go the short way, until that ends.
struct Repeatable<'a>(&'a [Request]);

impl Source for Repeatable<'_> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.0.next_batch(batch)
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

/// Drives without overlap and with one channel: only those are run as a stream.
fn specs() -> impl Strategy<Value = Spec> {
    (checkpoint::specs(), any::<bool>()).prop_map(|(spec, free_channel)| Spec {
        channels: 1,
        overlap: Overlap::Off,
        channel_ps_per_sector: if free_channel { 0 } else { 238_400 },
        ..spec
    })
}

const POLICIES: [&str; 5] = ["none", "fifo", "lru", "epo", "idle-cold"];

/// A buffer before the drive, or none.
fn before(spec: &Spec, policy: &str) -> Option<WriteBuffer> {
    (policy != "none").then(|| buffer(spec, policy, 16, BufferMode::Reshape))
}

/// Two runs have the same results; returns whether the first one needed no events.
fn same(
    spec: &Spec,
    policy: &str,
    options: &RunOptions,
    [first, second]: [&mut dyn Source; 2],
    workers: &dyn Workers,
) -> Result<bool, TestCaseError> {
    let (mut left, mut right) = (drive(spec), drive(spec));
    let (tally, series) = match run_with(&mut left, first, before(spec, policy), options, workers) {
        Err(Error::NeedsEvents) => return Ok(false),
        run => run.expect("a run"),
    };
    let (other_tally, other_series) = run(&mut right, second, before(spec, policy), options).expect("a run");
    prop_assert_eq!(tally, other_tally);
    prop_assert_eq!(series.width_ps, other_series.width_ps);
    prop_assert_eq!(&series.rows, &other_series.rows);
    same_drive(&left, &right)?;
    Ok(true)
}

/// Both engines have the same results.
fn engines_agree(spec: &Spec, load: &[Request], policy: &str, options: &RunOptions) -> Result<(), TestCaseError> {
    let (mut said, mut unsaid) = (load, Unsaid(load));
    prop_assert!(same(spec, policy, options, [&mut said, &mut unsaid], &OneThread)?);
    Ok(())
}

fn feedings() -> impl Strategy<Value = IssueMode> {
    let (size, gap_ps) = (7, 500_000_000);
    prop_oneof![
        Just(IssueMode::OpenLoop),
        Just(IssueMode::ScaledOpenLoop(0.3)),
        Just(IssueMode::Bursts { size, gap_ps }),
    ]
}

properties! {
    #[test]
    fn all_is_the_same_where_all_completes(
        spec in specs(), load in loads(), policy in 0..POLICIES.len(), issue_mode in feedings()
    ) {
        let options = RunOptions { issue_mode, ..plain() };
        engines_agree(&spec, &load.requests(&spec), POLICIES[policy], &options)?;
    }

    /// Any run may be tried without events; what needs them says so.
    #[test]
    fn a_run_without_events_is_the_same_or_fails(
        spec in specs(), load in loads(), kinds in prop_oneof![3 => Just([0; 3]), 1 => Just([1, 1, 6])],
        policy in 0..POLICIES.len(), issue_mode in feedings(), window in prop_oneof![Just(None), (1_u32..40).prop_map(Some)],
        scheduler in prop_oneof![Just(Scheduler::Fcfs), Just(Scheduler::Clook)],
        max_outstanding in prop_oneof![3 => Just(1_000_000_usize), 1 => 1_usize..300],
    ) {
        let options = RunOptions { issue_mode, window, scheduler, max_outstanding, ..plain() };
        let load = Load { mix: Mix { kinds, ..load.mix }, ..load }.requests(&spec);
        same(&spec, POLICIES[policy], &options, [&mut Repeatable(&load), &mut Unsaid(&load)], &OneThread)?;
    }

    // The stream must stand back in the cases below, where order alone does not tell: so these fail
    // as soon as it is let in.

    #[test]
    fn all_is_the_same_where_the_run_ends_with_the_last_request(
        spec in specs(), load in loads(), policy in 0..POLICIES.len(), issue_mode in feedings()
    ) {
        let options = RunOptions { issue_mode, end: End::LastIssued, ..plain() };
        engines_agree(&spec, &load.requests(&spec), POLICIES[policy], &options)?;
    }

    #[test]
    fn all_is_the_same_where_flash_takes_no_time(spec in specs(), load in loads()) {
        let spec = Spec { program_ps: 0, transfer_ps_per_byte: 0, ..spec };
        engines_agree(&spec, &load.requests(&spec), "none", &plain())?;
    }

    /// Few may be outstanding in some runs, so that batches are short and runs are given up.
    #[test]
    fn all_is_the_same_by_several_threads(
        spec in specs(), load in loads(), policy in 0..POLICIES.len(), issue_mode in feedings(),
        max_outstanding in prop_oneof![Just(1_000_000_usize), 1_usize..300], threads in 2_usize..5,
    ) {
        let options = RunOptions { issue_mode, max_outstanding, ..plain() };
        let load = load.requests(&spec);
        let (mut several, mut one) = (&load[..], &load[..]);
        prop_assert!(same(&spec, POLICIES[policy], &options, [&mut several, &mut one], &Threads(threads))?);
    }
}

#[test]
fn writes_that_wait_for_a_window_and_then_read_are_tried_without_events() {
    let spec = loads::reference(16);
    let (mut chance, mut at_ns) = (Chance(3), 0);
    let writes = each(20_000, |_| {
        at_ns += u64::from(chance.below(60_000));
        write(at_ns, chance.below(5000).into(), 1)
    });
    let options = RunOptions { window: Some(14), scheduler: Scheduler::Clook, ..plain() };
    let waited = loads::tally(&spec, &writes, None, &options).writes;
    assert_ne!(waited.mean_response_ps(), waited.mean_device_ps(), "some wait");
    let needs_none = |load: &[Request]| {
        same(&spec, "none", &options, [&mut Repeatable(load), &mut Unsaid(load)], &OneThread).expect("the same")
    };
    assert!(needs_none(&writes));
    assert!(!needs_none(&[&writes[..], &[read(1_000_000_000, 1, 1)]].concat()));
}

#[test]
fn long_loads_are_the_same_by_several_threads() {
    let spec = loads::reference(48);
    let load = Load::new(5, 200_000, 40_000, 3, 2).requests(&spec);
    let (mut several, mut one) = (&load[..], &load[..]);
    assert!(same(&spec, "none", &plain(), [&mut several, &mut one], &Threads(2)).expect("the same"));
}

#[test]
fn a_worn_out_drive_fails_at_the_same_request_by_several_threads() {
    let spec = with(loads::small(), |spec| spec.endurance = 3);
    let load = each(5000, |at| write(at * 1000, at % 7, 1));
    let error = |workers: &Threads| {
        let run = run_with(&mut drive(&spec), &mut &load[..], None, &plain(), workers);
        run.expect_err("a worn out drive").to_string()
    };
    assert_eq!(error(&Threads(1)), error(&Threads(3)));
    let events = run(&mut drive(&spec), &mut Unsaid(&load), None, &plain());
    let of_events = events.expect_err("a worn out drive").to_string();
    assert_eq!(of_events, error(&Threads(2)));
}
