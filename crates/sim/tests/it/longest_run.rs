//! Runs whose simulated time would leave 64 bits of picoseconds are refused, whatever makes them so long.

use crate::loads::{Unsaid, drive, each, plain, reference, tally, with, write};
use ioassay_block::Request;
use ioassay_sim::Error;
use ioassay_sim::drive::{Controller, Overlap, Spec};
use ioassay_sim::engine::{self, IssueMode, RunOptions, Scheduler};

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Drives of the two engines, and of the reference engine's two kinds of elements.
fn drives() -> [Spec; 3] {
    let controller = Controller::of([("write_cache", 0.into()), ("link_mb_s", 100.0.into())]);
    [
        reference(2),
        with(reference(2), |spec| spec.overlap = Overlap::Dies),
        with(reference(2), |spec| {
            (spec.controller, spec.reserve) = (controller.unwrap(), 0.3);
        }),
    ]
}

fn windowless(issue_mode: IssueMode) -> [RunOptions; 2] {
    let open = with(plain(), |run| run.issue_mode = issue_mode);
    let windowed = RunOptions { window: Some(4), scheduler: Scheduler::Clook, series_rows: 2, ..open.clone() };
    [open, windowed]
}

fn failure(spec: &Spec, requests: &[Request], options: &RunOptions) -> String {
    // A load that may have reads, and one that is known to have none, take different ways.
    let long_way = engine::run(&mut drive(spec), &mut Unsaid(requests), None, options);
    let short_way = engine::run(&mut drive(spec), &mut &*requests, None, options);
    let texts = [long_way, short_way].map(|run| run.map(|_| ()).unwrap_err().to_string());
    assert_eq!(texts[0], texts[1]);
    texts[0].clone()
}

#[test]
fn time_stamps_that_span_years_are_refused() {
    let requests = each(1000, |number| write(number * DAY_NS, number, 1));
    for spec in drives() {
        for options in windowless(IssueMode::OpenLoop) {
            let text = failure(&spec, &requests, &options);
            assert!(text.contains("request 102 (counted from 1)"), "{text}");
            assert!(text.contains("more than 100 days after"), "{text}");
        }
        let scaled = windowless(IssueMode::ScaledOpenLoop(0.001));
        for options in scaled.into_iter().chain(windowless(IssueMode::ClosedLoop(3))) {
            let run = tally(&spec, &requests, None, &options);
            assert_eq!(run.writes.count(), 1000); // time stamps that fit, or do not matter
        }
    }
}

#[test]
fn time_stamps_that_leave_64_bits_are_refused() {
    for (second_ns, factor) in [(u64::MAX, 1.0), (u64::MAX, 1e300), (1000, 1e300)] {
        let requests = [write(0, 0, 1), write(second_ns, 1, 1)];
        let [options, _] = windowless(IssueMode::ScaledOpenLoop(factor));
        let text = failure(&reference(2), &requests, &options);
        assert!(text.contains("more than 100 days"), "{text}");
    }
}

#[test]
fn bursts_over_years_are_refused() {
    let requests = each(400, |number| write(0, number, 1));
    for spec in drives() {
        for gap_ps in [DAY_NS * 1000, u64::MAX] {
            for options in windowless(IssueMode::Bursts { size: 1, gap_ps }) {
                let text = failure(&spec, &requests, &options);
                assert!(text.contains("passes 150 days of simulated time"), "{text}");
            }
        }
    }
}

#[test]
fn work_of_years_is_refused() {
    let second_ps = 1_000_000_000_000;
    // The stream of writes, and the engine of the controller: each takes two million pages.
    let [stream, _, controller] = drives();
    for spec in [stream, controller] {
        let slow = Spec {
            page_bytes: 1 << 20,
            program_ps: second_ps,
            channel_ps_per_sector: second_ps / 1000,
            endurance: 0,
            controller: spec.controller.clone().map(|controller| Controller { link_ps_per_sector: None, ..controller }),
            ..spec
        };
        // 8,387 seconds on the channel each, most of them after 99 days.
        let large = |number| Request { length_bytes: 4095 << 20, ..write(u64::from(number > 0) * 99 * DAY_NS, 0, 0) };
        let writes = each(700, large);
        let options = &windowless(IssueMode::OpenLoop)[0];
        let run = engine::run(&mut drive(&slow), &mut &writes[..], None, options).map(|_| ());
        assert!(matches!(run, Err(Error::TooLong { days: 150 })), "{run:?}");
    }
}
