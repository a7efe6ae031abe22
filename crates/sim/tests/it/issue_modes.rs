//! When requests are issued, and in which order a host's queue gives them to the drive.

use crate::loads::{CHANNEL, Chance, PROGRAM, each, plain, properties, reference, tally, try_tally, with, write};
use ioassay_block::{Kind, Request};
use ioassay_sim::Error;
use ioassay_sim::drive::Spec;
use ioassay_sim::engine::{End, IssueMode, RunOptions, Scheduler, Tally};
use proptest::prelude::*;

const ALONE: u64 = CHANNEL + PROGRAM;

fn run(load: &[Request], options: &RunOptions) -> Tally {
    tally(&reference(4), load, None, options)
}

fn issued_by(issue_mode: IssueMode) -> RunOptions {
    with(plain(), |run| run.issue_mode = issue_mode)
}

/// Writes to one element, or to as many as there are.
fn writes(count: u64, apart: u64, gap_ns: u64) -> Vec<Request> {
    each(count, |number| write(gap_ns * number, number * apart % 4000, 1))
}

/// One element, which fills no block in these tests: every page costs the same.
fn long_blocks() -> Spec {
    with(reference(1), |spec| {
        (spec.dies, spec.planes, spec.pages_per_block) = (1, 1, 1024);
    })
}

#[test]
fn requests_are_issued_when_the_mode_says() {
    let apart = writes(10, 1, 1_000_000);
    let late = apart.iter().map(|request| with(*request, |late| late.at_ns += 77_000_000_000)).collect();
    let bursts = IssueMode::Bursts { size: 4, gap_ps: 5_000_000_000 };
    // A burst's requests cross one after the other, to an element each.
    let burst = |size: u64| (1..=size).sum::<u64>() * CHANNEL + size * PROGRAM;
    // When the last request is issued, and the sum of the responses.
    for (what, mode, load, last_ps, response_ps) in [
        ("time stamps count from the first request", IssueMode::OpenLoop, late, 9_000_000_000, 10 * ALONE),
        ("half the time", IssueMode::ScaledOpenLoop(0.5), apart.clone(), 4_500_000_000, 10 * ALONE),
        ("the same time", IssueMode::ScaledOpenLoop(1.0), apart.clone(), 9_000_000_000, 10 * ALONE),
        ("three times the time", IssueMode::ScaledOpenLoop(3.0), apart.clone(), 27_000_000_000, 10 * ALONE),
        ("no time at all: all at once", IssueMode::ScaledOpenLoop(0.0), apart[..4].to_vec(), 0, burst(4)),
        ("4, 4 and 2, the last at twice the gap", bursts, writes(10, 1, 1), 10_000_000_000, 2 * burst(4) + burst(2)),
        ("one when the one before is complete", IssueMode::ClosedLoop(1), writes(50, 1, 7), 49 * ALONE, 50 * ALONE),
    ] {
        let run = run(&load, &issued_by(mode));
        assert_eq!((run.last_issue_ps, run.writes.response_ps), (last_ps, u128::from(response_ps)), "{what}");
        if !matches!(mode, IssueMode::Bursts { .. } | IssueMode::ScaledOpenLoop(0.0)) {
            assert_eq!(run.last_completion_ps, last_ps + ALONE, "{what}");
        }
    }
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
        let places: u64 = (1..=outstanding).sum();
        let first = outstanding * CHANNEL + places * PROGRAM;
        let rest = (500 - outstanding) * outstanding * PROGRAM;
        assert_eq!(run.writes.response_ps, u128::from(first + rest));
        assert_eq!(run.last_completion_ps, CHANNEL + 500 * PROGRAM);
    }
}

#[test]
fn a_run_may_end_with_the_last_request_and_counts_what_is_not_complete() {
    let options = with(plain(), |run| run.end = End::LastIssued);
    let load = [write(0, 0, 1), write(0, 1, 1), write(1_000_000, 2, 1)];
    for (requests, unfinished, complete) in [(2, 2, 0), (3, 1, 2)] {
        let run = run(&load[..requests], &options);
        assert_eq!(run.issued, requests as u64);
        let ended = (run.unfinished, run.writes.count());
        assert_eq!(ended, (unfinished, complete));
    }
}

#[test]
fn a_run_with_too_many_outstanding_is_given_up() {
    let options = with(plain(), |run| {
        (run.max_outstanding, run.window) = (100, Some(5));
    });
    let run = tally(&reference(1), &writes(5000, 1, 10), None, &options);
    assert!(run.gave_up);
    assert_eq!(run.issued, 101);
}

fn refusal(load: &[Request]) -> String {
    let error = try_tally(&reference(1), load, None, &plain()).map(|_| ());
    error.expect_err("an error").to_string()
}

#[test]
fn time_that_goes_back_is_an_error_with_the_number() {
    let load = [write(5, 0, 1), write(7, 0, 1), write(6, 0, 1)];
    let message = refusal(&load);
    assert!(message.contains("request 3"), "{message}");
    refusal(&[write(5, 0, 1), write(4, 0, 1)]);
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
        with(good, |one| one.offset_bytes = u64::MAX),
        with(good, |one| one.length_bytes = u64::MAX),
        with(write(0, 0, pages + 1), |one| one.kind = Kind::Trim),
        with(good, |one| one.at_ns = u64::MAX),
    ];
    for bad in cases {
        let message = refusal(&[good, bad]);
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
        with(plain(), |run| run.window = Some(0)),
    ] {
        let run = try_tally(&reference(1), &writes(3, 1, 1), None, &options);
        let is_refused = matches!(run, Err(Error::Option { .. }));
        assert!(is_refused, "{options:?}");
    }
}

/// With a window of one, requests are served one at a time, in the order in which the host's queue
/// gives them, which requests of different lengths tell by the sum of their responses.
fn one_at_a_time(spec: &Spec, load: &[Request], scheduler: Scheduler) -> Tally {
    let options = with(plain(), |run| {
        (run.window, run.scheduler) = (Some(1), scheduler);
    });
    tally(spec, load, None, &options)
}

/// The host's queue as a list that is searched: C-LOOK takes the lowest page at or above the last one, else the lowest;
/// of equals the first. A drive that is idle takes what comes. Gives the sum of the responses.
fn naive(load: &[Request], scheduler: Scheduler) -> u64 {
    let (mut now_ps, mut last, mut sum) = (0, 0, 0);
    let mut left: Vec<&Request> = load.iter().collect();
    while !left.is_empty() {
        let come = |request: &Request| 1000 * request.at_ns < now_ps;
        let waiting = || left.iter().enumerate().filter(|(_, request)| come(request));
        let offset = |(_, request): &(usize, &&Request)| request.offset_bytes;
        let above = waiting().filter(|found| offset(found) >= last);
        let next = above.min_by_key(offset);
        let next = next.or_else(|| waiting().min_by_key(offset)).filter(|_| scheduler == Scheduler::Clook);
        let served = left.remove(next.map_or(0, |found| found.0));
        last = served.offset_bytes;
        // All on one element.
        let busy_ps = served.length_bytes / 4096 * ALONE;
        now_ps = now_ps.max(1000 * served.at_ns) + busy_ps;
        sum += now_ps - 1000 * served.at_ns;
    }
    sum
}

properties! {
    #[test]
    fn the_queue_is_a_list_that_is_searched(seed: u64, requests in 1_u32..60, gap_us in 0_u32..500) {
        let spec = long_blocks();
        let mut chance = Chance(seed);
        let mut at_ns = 0;
        let load = each(requests.into(), |_| {
            at_ns += u64::from(chance.below(1000 * gap_us + 1));
            write(at_ns, u64::from(chance.below(40)), u64::from(1 + chance.below(3)))
        });
        let pages: u64 = load.iter().map(|request| request.length_bytes / 4096).sum();
        for scheduler in [Scheduler::Clook, Scheduler::Fcfs] {
            let run = one_at_a_time(&spec, &load, scheduler);
            prop_assert_eq!(run.writes.response_ps, u128::from(naive(&load, scheduler)));
            // Time in the drive is without the host's queue.
            prop_assert_eq!(run.writes.device_ps, u128::from(pages * ALONE));
        }
    }
}
