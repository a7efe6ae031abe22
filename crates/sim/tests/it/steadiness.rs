//! Whether a run says of itself that its mean means nothing.

use crate::loads::{Chance, each, plain, reference, setup, simulated, with, write};
use ioassay_block::Request;
use ioassay_sim::Steadiness;
use ioassay_sim::engine::{IssueMode, RunOptions, Scheduler};

/// Writes a second that eight elements can take: each a page in 0.308984 ms.
const CAPACITY: u64 = 8_000_000_000 / 308_984;

/// Independent arrivals at a rate, uniform pages.
fn poisson(requests: u32, per_second: u64, pages: u32) -> Vec<Request> {
    let mut chance = Chance(11);
    let mut at_ns = 0.0;
    let mean_ns = 1e9 / per_second as f64;
    each(requests.into(), |_| {
        let uniform = (chance.next() >> 11) as f64 / (1_u64 << 53) as f64;
        at_ns -= mean_ns * (1.0 - uniform).ln();
        write(at_ns as u64, u64::from(chance.below(pages)), 1)
    })
}

/// Eight elements that do not clean before 20,000 writes.
fn judged(load: &[Request], options: &RunOptions) -> Steadiness {
    let setup = with(setup(&reference(8)), |setup| setup.run = options.clone());
    let run = simulated(load, &setup);
    assert_eq!(run.counters.collected_blocks, 0);
    run.steadiness
}

fn windowed() -> RunOptions {
    with(plain(), |run| {
        (run.window, run.scheduler) = (Some(20), Scheduler::Clook);
    })
}

#[test]
fn twice_what_a_drive_takes_saturates_it() {
    let load = poisson(15_000, 2 * CAPACITY, 20_000);
    // Of two that come one piles up; more with a window, which leaves elements idle.
    for (options, growth) in [(plain(), 0.5), (windowed(), 0.6)] {
        let seen = judged(&load, &options);
        assert!(seen.saturated && !seen.steady, "{seen:?}");
        assert!((seen.growth - growth).abs() < 0.05, "{seen:?}");
    }
}

#[test]
fn a_tenth_too_much_saturates_and_a_tenth_less_does_not() {
    for (percent, saturated) in [(10, false), (50, false), (80, false), (90, false), (110, true)] {
        let seen = judged(&poisson(18_000, CAPACITY * percent / 100, 20_000), &plain());
        assert_eq!(seen.saturated, saturated, "{percent} %: {seen:?}");
        assert!(percent > 50 || seen.steady, "{percent} %: {seen:?}");
    }
}

#[test]
fn bursts_do_not_saturate() {
    // 800 at once, every 80 ms, which takes 31 ms: the last burst stands when the load ends.
    let mut load = poisson(16_000, 1_000_000, 20_000);
    for (number, request) in (0..).zip(&mut load) {
        request.at_ns = 80_000_000 * (number / 800);
    }
    for options in [plain(), windowed()] {
        let seen = judged(&load, &options);
        assert!(!seen.saturated && seen.steady, "{seen:?}");
    }
}

#[test]
fn a_closed_loop_is_never_saturated() {
    let load = poisson(15_000, 10 * CAPACITY, 20_000);
    for outstanding in [1, 64, 1000] {
        let mode = IssueMode::ClosedLoop(outstanding);
        let options = with(plain(), |run| run.issue_mode = mode);
        let seen = judged(&load, &options);
        assert!(!seen.saturated, "{outstanding}: {seen:?}");
    }
}

#[test]
fn a_run_that_was_given_up_is_saturated() {
    let options = with(windowed(), |run| run.max_outstanding = 50);
    let load = poisson(5000, 4 * CAPACITY, 20_000);
    let seen = judged(&load, &options);
    assert!(seen.saturated && !seen.steady, "{seen:?}");
}

#[test]
fn a_drive_that_begins_to_clean_midway_is_not_steady() {
    let spec = reference(8);
    // Garbage collection starts after some 20,000 writes, and takes a multiple of the time.
    let load = poisson(40_000, 1500, spec.pages());
    let run = simulated(&load, &with(setup(&spec), |setup| setup.run = plain()));
    assert!(run.counters.collected_blocks > 100);
    let seen = run.steadiness;
    assert!(!seen.saturated && !seen.steady, "{seen:?}");
    let [Some(before), Some(after)] = seen.halves_ps else { panic!("{seen:?}") };
    assert!(after > 1.5 * before, "{seen:?}");
}

#[test]
fn runs_of_next_to_nothing_are_judged_without_a_panic() {
    for load in [&[][..], &[write(0, 0, 1)][..], &poisson(3, 1000, 8)[..]] {
        let seen = judged(load, &plain());
        assert!(!seen.saturated, "{seen:?}");
    }
}
