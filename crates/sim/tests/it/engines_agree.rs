//! Writes that wait for nothing but the drive are run as a stream of times, all else by events:
//! both give the same, wherever both can run.

use crate::checkpoint;
use crate::loads::{
    self, Chance, Mix, Unsaid, buffer, drive, each, mixed, plain, read, same_drive, same_tally, with, write,
};
use crate::threads::Threads;
use ioassay_block::{Error as TraceError, Request, Source};
use ioassay_sim::Error;
use ioassay_sim::drive::{Drive, Overlap, Spec};
use ioassay_sim::engine::{
    BufferMode, End, IssueMode, RunOptions, Scheduler, Tally, TimeSeries, WriteBuffer, run, run_with,
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

fn both(spec: &Spec, load: &[Request], policy: &str, options: &RunOptions) -> [(Drive, Tally, TimeSeries); 2] {
    let new = || before(spec, policy);
    let (mut short, mut long) = (drive(spec), drive(spec));
    let mut said = load;
    let (stream, rows) = run(&mut short, &mut said, new(), options).expect("a run");
    let (events, rows_of_events) = run(&mut long, &mut Unsaid(load), new(), options).expect("a run");
    [(short, stream, rows), (long, events, rows_of_events)]
}

fn feedings() -> impl Strategy<Value = IssueMode> {
    let (size, gap_ps) = (7, 500_000_000);
    prop_oneof![
        Just(IssueMode::OpenLoop),
        Just(IssueMode::ScaledOpenLoop(0.3)),
        Just(IssueMode::Bursts { size, gap_ps }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_is_the_same_where_all_completes(
        spec in specs(), load in loads(), policy in 0..POLICIES.len(), issue_mode in feedings()
    ) {
        let options = RunOptions { issue_mode, ..plain() };
        let load = load.requests(&spec);
        let [(short, stream, rows), (long, events, rows_of_events)] = both(&spec, &load, POLICIES[policy], &options);
        same_tally(&stream, &events)?;
        prop_assert_eq!(&stream.busy_ps, &events.busy_ps);
        same_series(&rows, &rows_of_events)?;
        same_drive(&short, &long)?;
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
        let (mut short, mut long) = (drive(&spec), drive(&spec));
        let tried = run(&mut short, &mut Repeatable(&load), before(&spec, POLICIES[policy]), &options);
        let (events, rows_of_events) =
            run(&mut long, &mut Unsaid(&load), before(&spec, POLICIES[policy]), &options).expect("a run");
        match tried {
            Ok((tried, rows)) => {
                same_tally(&tried, &events)?;
                prop_assert_eq!(&tried.busy_ps, &events.busy_ps);
                same_series(&rows, &rows_of_events)?;
                same_drive(&short, &long)?;
            }
            Err(error) => prop_assert!(matches!(error, Error::NeedsEvents), "{}", error),
        }
    }

    // The stream must stand back in the cases below, where order alone does not tell: so these fail
    // as soon as it is let in.

    #[test]
    fn responses_are_the_same_where_the_run_ends_with_the_last_request(
        spec in specs(), load in loads(), policy in 0..POLICIES.len(), issue_mode in feedings()
    ) {
        let options = RunOptions { issue_mode, end: End::LastIssued, ..plain() };
        let load = load.requests(&spec);
        let [(_, stream, _), (_, events, _)] = both(&spec, &load, POLICIES[policy], &options);
        same_tally(&stream, &events)?;
    }

    #[test]
    fn all_is_the_same_where_flash_takes_no_time(spec in specs(), load in loads()) {
        let spec = Spec { program_ps: 0, transfer_ps_per_byte: 0, ..spec };
        let load = load.requests(&spec);
        let [(_, stream, _), (_, events, _)] = both(&spec, &load, "none", &plain());
        same_tally(&stream, &events)?;
    }

    #[test]
    fn work_is_the_same_where_the_run_ends_with_the_last_request(spec in specs(), load in loads()) {
        let options = RunOptions { end: End::LastIssued, ..plain() };
        let load = load.requests(&spec);
        let [(short, stream, _), (long, events, _)] = both(&spec, &load, "none", &options);
        prop_assert_eq!(&stream.busy_ps, &events.busy_ps);
        same_drive(&short, &long)?;
    }

    /// Few may be outstanding in some runs, so that batches are short and runs are given up.
    #[test]
    fn all_is_the_same_by_several_threads(
        spec in specs(), load in loads(), policy in 0..POLICIES.len(), issue_mode in feedings(),
        max_outstanding in prop_oneof![Just(1_000_000_usize), 1_usize..300], threads in 2_usize..5,
    ) {
        let options = RunOptions { issue_mode, max_outstanding, ..plain() };
        let load = load.requests(&spec);
        same_by_threads(&spec, &load, POLICIES[policy], &options, threads)?;
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
    let try_without = |load: &[Request]| run(&mut drive(&spec), &mut Repeatable(load), None, &options);
    let (tried, rows) = try_without(&writes).expect("a run");
    let (events, rows_of_events) = run(&mut drive(&spec), &mut Unsaid(&writes), None, &options).expect("a run");
    assert_ne!(events.writes.mean_response_ps(), events.writes.mean_device_ps(), "some wait");
    same_tally(&tried, &events).and_then(|()| same_series(&rows, &rows_of_events)).expect("the same");
    let with_a_read = [&writes[..], &[read(1_000_000_000, 1, 1)]].concat();
    assert!(matches!(try_without(&with_a_read), Err(Error::NeedsEvents)));
}

fn same_series(left: &TimeSeries, right: &TimeSeries) -> Result<(), TestCaseError> {
    prop_assert_eq!(left.width_ps, right.width_ps);
    prop_assert_eq!(&left.rows, &right.rows);
    Ok(())
}

fn same_by_threads(
    spec: &Spec,
    load: &[Request],
    policy: &str,
    options: &RunOptions,
    threads: usize,
) -> Result<(), TestCaseError> {
    let new = || before(spec, policy);
    let (mut one, mut several) = (drive(spec), drive(spec));
    let (left, left_series) = run(&mut one, &mut &load[..], new(), options).expect("a run");
    let workers = &Threads(threads);
    let run = run_with(&mut several, &mut &load[..], new(), options, workers);
    let (right, right_series) = run.expect("a run");
    same_tally(&left, &right)?;
    prop_assert_eq!(left.gave_up, right.gave_up);
    prop_assert_eq!(&left.busy_ps, &right.busy_ps);
    same_series(&left_series, &right_series)?;
    same_drive(&one, &several)
}

#[test]
fn long_loads_are_the_same_by_several_threads() {
    let spec = loads::reference(48);
    let load = Load::new(5, 200_000, 40_000, 3, 2);
    same_by_threads(&spec, &load.requests(&spec), "none", &plain(), 2).expect("the same");
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
