//! When requests are issued, and in which order a host's queue gives them to the drive.

use crate::loads::{Chance, plain, reference, tally, try_tally, write};
use ioassay_block::{Kind, Request};
use ioassay_sim::Error;
use ioassay_sim::drive::Spec;
use ioassay_sim::engine::{End, IssueMode, RunOptions, Scheduler, Tally};
use proptest::prelude::*;

const CHANNEL: u64 = 1_907_200;
const PROGRAM: u64 = 305_600_000;
const ALONE: u64 = CHANNEL + PROGRAM;

fn issued_by(issue_mode: IssueMode) -> RunOptions {
    RunOptions {
        issue_mode,
        ..plain()
    }
}

/// Writes to one element, or to as many as there are.
fn writes(count: u64, apart: u64, gap_ns: u64) -> Vec<Request> {
    (0..count)
        .map(|number| write(gap_ns * number, number * apart % 4000, 1))
        .collect()
}

/// One element, which fills no block in these tests: every page costs the same.
fn long_blocks() -> Spec {
    Spec {
        dies: 1,
        planes: 1,
        pages_per_block: 1024,
        ..reference(1)
    }
}

#[test]
fn time_stamps_count_from_the_first_request() {
    let late: Vec<Request> = writes(10, 1, 1_000_000)
        .into_iter()
        .map(|request| Request {
            at_ns: request.at_ns + 77_000_000_000,
            ..request
        })
        .collect();
    let run = tally(&reference(4), &late, None, &plain());
    assert_eq!(run.last_issue_ps, 9_000_000_000);
    assert_eq!(run.last_completion_ps, 9_000_000_000 + ALONE);
    assert_eq!(run.writes.response_ps, u128::from(10 * ALONE));
}

#[test]
fn scaled_time_is_time_times_the_factor() {
    let load = writes(10, 1, 1_000_000);
    for (factor, last_ps) in [
        (0.5, 4_500_000_000),
        (1.0, 9_000_000_000),
        (3.0, 27_000_000_000),
    ] {
        let run = tally(
            &reference(4),
            &load,
            None,
            &issued_by(IssueMode::ScaledOpenLoop(factor)),
        );
        assert_eq!(run.last_issue_ps, last_ps);
    }
    // At no time at all, all are issued at once.
    let run = tally(
        &reference(4),
        &load,
        None,
        &issued_by(IssueMode::ScaledOpenLoop(0.0)),
    );
    assert_eq!(run.last_issue_ps, 0);
}

#[test]
fn lots_come_at_their_own_times() {
    let load = writes(10, 1, 1);
    let bursts = IssueMode::Bursts {
        size: 4,
        gap_ps: 5_000_000_000,
    };
    let run = tally(&reference(4), &load, None, &issued_by(bursts));
    // 4, 4 and 2: the last burst at twice the gap.
    assert_eq!(run.last_issue_ps, 10_000_000_000);
    // A burst's requests cross one after the other, to an element each.
    let burst = |size: u64| (1..=size).sum::<u64>() * CHANNEL + size * PROGRAM;
    assert_eq!(run.writes.response_ps, u128::from(2 * burst(4) + burst(2)));
}

#[test]
fn a_closed_loop_of_one_issues_when_the_one_before_is_complete() {
    let load = writes(50, 1, 1_000_000_000);
    let run = tally(
        &reference(4),
        &load,
        None,
        &issued_by(IssueMode::ClosedLoop(1)),
    );
    assert_eq!(run.writes.response_ps, u128::from(50 * ALONE));
    assert_eq!(run.last_completion_ps, 50 * ALONE);
    assert_eq!(run.last_issue_ps, 49 * ALONE);
}

#[test]
fn a_closed_loop_keeps_as_many_outstanding_as_it_is_told() {
    // One element: always W wait for it, so each takes W programmings once the loop is full, and
    // what is outstanding at any time is W.
    let spec = long_blocks();
    for outstanding in [2_u64, 7, 32] {
        let load = writes(500, 1, 0);
        let options = issued_by(IssueMode::ClosedLoop(outstanding as u32));
        let (_, run, series) = try_tally(&spec, &load, None, &options).expect("a run");
        let full = &series.rows[1..(run.last_issue_ps / series.width_ps) as usize];
        assert!(full.len() > 20);
        assert!(full.iter().all(|row| row.outstanding == outstanding));
        // Little's law, exactly, but for the beginning and the end.
        let first: u64 = (1..=outstanding)
            .map(|place| CHANNEL + place * PROGRAM)
            .sum();
        let rest = (500 - outstanding) * outstanding * PROGRAM;
        assert_eq!(run.writes.response_ps, u128::from(first + rest));
        assert_eq!(run.last_completion_ps, CHANNEL + 500 * PROGRAM);
    }
}

#[test]
fn a_run_may_end_with_the_last_request_and_counts_what_is_not_complete() {
    let options = RunOptions {
        end: End::LastIssued,
        ..plain()
    };
    let run = tally(
        &reference(4),
        &[write(0, 0, 1), write(0, 1, 1)],
        None,
        &options,
    );
    assert_eq!((run.issued, run.unfinished, run.writes.count()), (2, 2, 0));
    let sentinel = [write(0, 0, 1), write(0, 1, 1), write(1_000_000, 2, 1)];
    let run = tally(&reference(4), &sentinel, None, &options);
    assert_eq!((run.issued, run.unfinished, run.writes.count()), (3, 1, 2));
}

#[test]
fn a_run_with_too_many_outstanding_is_given_up() {
    let options = RunOptions {
        max_outstanding: 100,
        window: Some(5),
        ..plain()
    };
    let run = tally(&reference(1), &writes(5000, 1, 10), None, &options);
    assert!(run.gave_up);
    assert_eq!(run.issued, 101);
}

#[test]
fn time_that_goes_back_is_an_error_with_the_number() {
    let load = [write(5, 0, 1), write(7, 0, 1), write(6, 0, 1)];
    let error = try_tally(&reference(1), &load, None, &plain()).map(|_| ());
    let message = error.expect_err("an error").to_string();
    assert!(message.contains("request 3"), "{message}");
    let early = [write(5, 0, 1), write(4, 0, 1)];
    assert!(try_tally(&reference(1), &early, None, &plain()).is_err());
}

#[test]
fn requests_that_cannot_be_are_errors_with_the_number() {
    let spec = reference(1);
    let pages = u64::from(spec.pages());
    let good = write(0, pages - 1, 1);
    let cases = [
        write(0, pages, 1),
        write(0, pages - 1, 2),
        write(0, 0, 0),
        Request {
            offset_bytes: u64::MAX,
            ..good
        },
        Request {
            length_bytes: u64::MAX,
            ..good
        },
        Request {
            kind: Kind::Trim,
            ..write(0, 0, pages + 1)
        },
        Request {
            at_ns: u64::MAX,
            ..good
        },
    ];
    for bad in cases {
        let error = try_tally(&spec, &[good, bad], None, &plain()).map(|_| ());
        let message = error.expect_err("an error").to_string();
        assert!(message.contains("request 2"), "{message}");
    }
    assert!(try_tally(&spec, &[good], None, &plain()).is_ok());
}

#[test]
fn feedings_that_cannot_be_are_errors() {
    for options in [
        issued_by(IssueMode::ClosedLoop(0)),
        issued_by(IssueMode::Bursts { size: 0, gap_ps: 1 }),
        issued_by(IssueMode::ScaledOpenLoop(f64::NAN)),
        issued_by(IssueMode::ScaledOpenLoop(-1.0)),
        RunOptions {
            window: Some(0),
            ..plain()
        },
    ] {
        let run = try_tally(&reference(1), &writes(3, 1, 1), None, &options);
        assert!(
            matches!(run.map(|_| ()), Err(Error::Option { .. })),
            "{options:?}"
        );
    }
}

/// With a window of one, requests are served one at a time, in the order in which the host's queue
/// gives them, which requests of different lengths tell by the sum of their responses.
fn one_at_a_time(spec: &Spec, load: &[Request], scheduler: Scheduler) -> Tally {
    let options = RunOptions {
        window: Some(1),
        scheduler,
        ..plain()
    };
    tally(spec, load, None, &options)
}

/// C-LOOK as a list that is searched: the lowest page at or above the last one, else the lowest;
/// of equals the first. A drive that is idle takes what comes. Gives the sum of the responses.
fn naive_clook(load: &[Request]) -> u64 {
    let (mut now_ps, mut last, mut sum) = (0, 0, 0);
    let mut left: Vec<&Request> = load.iter().collect();
    while !left.is_empty() {
        let come = |request: &Request| 1000 * request.at_ns < now_ps;
        let waiting = || left.iter().enumerate().filter(|(_, request)| come(request));
        let offset = |(_, request): &(usize, &&Request)| request.offset_bytes;
        let above = waiting().filter(|found| offset(found) >= last);
        let next = above
            .min_by_key(offset)
            .or_else(|| waiting().min_by_key(offset));
        let served = left.remove(next.map_or(0, |found| found.0));
        last = served.offset_bytes;
        // All on one element.
        let busy_ps = served.length_bytes / 4096 * ALONE;
        now_ps = now_ps.max(1000 * served.at_ns) + busy_ps;
        sum += now_ps - 1000 * served.at_ns;
    }
    sum
}

#[test]
fn c_look_goes_up_and_begins_again_below() {
    // The first is served at once; of those that come meanwhile the next above 50, then again from
    // below: 60, 70, 10, 40. Their lengths tell the order.
    let load = [
        write(0, 50, 1),
        write(1_000, 40, 2),
        write(1_000, 70, 3),
        write(1_000, 10, 4),
        write(1_000, 60, 5),
    ];
    let spec = long_blocks();
    let ends = |order: [u64; 5]| {
        let mut end = 0;
        order.map(|pages| {
            end += pages * ALONE;
            end
        })
    };
    let sum = |order| u128::from(ends(order).iter().sum::<u64>() - 4 * 1_000_000);
    let clook = one_at_a_time(&spec, &load, Scheduler::Clook);
    assert_eq!(clook.writes.response_ps, sum([1, 5, 3, 4, 2]));
    let fcfs = one_at_a_time(&spec, &load, Scheduler::Fcfs);
    assert_eq!(fcfs.writes.response_ps, sum([1, 2, 3, 4, 5]));
    // Time in the drive is without the host's queue.
    assert_eq!(clook.writes.device_ps, u128::from(15 * ALONE));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn c_look_is_that_of_a_list_that_is_searched(seed: u64, requests in 1_u32..60, gap_us in 0_u32..500) {
        let spec = long_blocks();
        let mut chance = Chance(seed);
        let mut at_ns = 0;
        let load: Vec<Request> = (0..requests).map(|_| {
            at_ns += u64::from(chance.below(1000 * gap_us + 1));
            write(at_ns, u64::from(chance.below(40)), u64::from(1 + chance.below(3)))
        }).collect();
        let run = one_at_a_time(&spec, &load, Scheduler::Clook);
        prop_assert_eq!(run.writes.response_ps, u128::from(naive_clook(&load)));
    }
}
