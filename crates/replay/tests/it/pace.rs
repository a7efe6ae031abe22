//! When requests are issued, and what is counted of them.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ioassay_block::{Kind, Request, Source};
use ioassay_replay::{Ended, Pace, Progress, Setup, replay};

use crate::{BLOCK, Target, replayed, request, source};

const MS: u64 = 1_000_000;

/// Bursts of requests at once, with gaps between.
fn bursts(count: u64, each: u64, gap_ns: u64) -> Vec<Request> {
    (0..count * each).map(|number| request(Kind::Read, 9 * MS + number / each * gap_ns, number % 16, 1)).collect()
}

#[test]
fn timed_requests_are_issued_at_their_times_and_never_before() {
    let target = Target::new(16);
    let outcome = replayed(&bursts(20, 5, 5 * MS), &target.setup(Pace::Timed)).unwrap();
    assert_eq!((outcome.ended, outcome.requests, outcome.read.ios), (Ended::Trace, 100, 100));
    assert_eq!((outcome.span_ns, outcome.errors, outcome.times_back), (95 * MS, 0, 0));
    assert!(outcome.end_ns - outcome.begin_ns >= 95 * MS - outcome.lateness.max_ns.unwrap());
    assert_eq!(outcome.lateness.bins.values().sum::<u64>(), 100);
    // Response time begins at the due time, service time at the issue.
    let (lat, response, late) = (outcome.read.lat, outcome.read.response, outcome.lateness);
    let mean = lat.mean_ns.unwrap() + late.mean_ns.unwrap();
    assert!((response.mean_ns.unwrap() - mean).abs() < 1.0, "{response:?}");
    assert_eq!(outcome.read.bytes, 100 * BLOCK);
    assert_eq!(outcome.series.iter().map(|second| second.read_ios).sum::<u64>(), 100);
}

#[test]
fn requests_beyond_the_depth_wait_and_are_late() {
    let target = Target::new(16);
    let setup = Setup { depth: Some(1), ..target.setup(Pace::Timed) };
    let outcome = replayed(&bursts(1, 50, 0), &setup).unwrap();
    assert_eq!((outcome.most_outstanding, outcome.read.ios), (1, 50));
    assert!(outcome.waits.depth > 0, "{:?}", outcome.waits);
    assert!(outcome.lateness.max_ns.unwrap() >= outcome.read.lat.min_ns.unwrap() * 25);
}

#[test]
fn a_time_that_goes_back_is_that_of_the_request_before() {
    let outcome = replayed(&[0, 3, 1, 4].map(|ms| request(Kind::Read, ms * MS, 0, 1)), &Setup::default()).unwrap();
    assert_eq!((outcome.times_back, outcome.span_ns, outcome.requests), (1, 4 * MS, 4));
}

#[test]
fn a_replay_ends_after_its_duration() {
    let trace: Vec<_> = (0..1000).map(|ms| request(Kind::Read, ms * MS, 0, 1)).collect();
    let setup = Setup { duration_ns: Some(20 * MS), ..Setup::default() };
    let outcome = replayed(&trace, &setup).unwrap();
    assert_eq!((outcome.ended, outcome.requests), (Ended::Duration, 20));
    let setup = Setup { pace: Pace::Fast, ..setup };
    let outcome = replayed(&vec![trace[0]; 3_000_000], &setup).unwrap();
    assert_eq!((outcome.ended, outcome.read.ios), (Ended::Duration, outcome.requests));
}

#[test]
fn a_replay_that_is_stopped_reports_what_was_done() {
    let trace: Vec<_> = (0..1000).map(|second| request(Kind::Read, second * 1000 * MS, 0, 1)).collect();
    let (progress, stop) = (Progress::default(), AtomicBool::new(false));
    let outcome = thread::scope(|scope| {
        let setup = Setup::default();
        let (progress, stop) = (&progress, &stop);
        let running = scope.spawn(move || replay(source(&trace), None, &setup, progress, stop));
        while progress.completed.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap()
    });
    assert_eq!((outcome.ended, outcome.read.ios), (Ended::Interrupted, outcome.requests));
    assert!(outcome.requests < 1000);
}

/// Truncates the target once it is open: when it is read for the first time.
struct Truncating<S> {
    source: S,
    path: PathBuf,
    blocks: u64,
}

impl<S: Source> Source for Truncating<S> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), ioassay_block::Error> {
        OpenOptions::new().write(true).open(&self.path)?.set_len(self.blocks * BLOCK)?;
        self.source.next_batch(batch)
    }
}

#[test]
fn a_request_that_fails_is_counted_and_the_replay_goes_on() {
    let target = Target::new(16);
    let mut requests: Vec<_> = (0..16).map(|block| request(Kind::Read, 0, block, 1)).collect();
    requests.push(requests[0]);
    for pace in [Pace::Timed, Pace::Fast] {
        OpenOptions::new().write(true).open(target.path()).unwrap().set_len(target.bytes).unwrap();
        let source = Box::new(Truncating { source: source(&requests), path: target.path(), blocks: 10 });
        let outcome = replay(source, None, &target.setup(pace), &Progress::default(), &AtomicBool::new(false)).unwrap();
        assert_eq!((outcome.ended, outcome.requests, outcome.errors), (Ended::Trace, 17, 6));
        assert_eq!((outcome.read.ios, outcome.read.errors, outcome.read.lat.bins.values().sum::<u64>()), (11, 6, 11));
        let [failures] = &outcome.failures[..] else { panic!("{:?}", outcome.failures) };
        assert_eq!((failures.kind, failures.errno, failures.count), ("read", 0, 6));
        assert_eq!(failures.text, "0 of 4096 bytes");
        assert!(failures.number > 10 && failures.offset_bytes == (failures.number - 1) * BLOCK, "{failures:?}");
    }
}
