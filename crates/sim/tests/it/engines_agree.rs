//! Writes that wait for nothing but the drive are run as a stream of times, all else by events:
//! both give the same, wherever both can run.

use crate::checkpoint;
use crate::loads::{self, Chance, Mix, Unsaid, buffer, drive, each, mixed, plain, same_drive, same_tally, with, write};
use crate::threads::Threads;
use ioassay_block::Request;
use ioassay_sim::drive::{Drive, Overlap, Spec};
use ioassay_sim::engine::{BufferMode, End, IssueMode, RunOptions, Tally, TimeSeries, WriteBuffer, run, run_with};
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
