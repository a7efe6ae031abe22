//! What a trace is like, and what makes it implausible.

use ioassay_block::info::{Info, Survey, TraceWarning};
use ioassay_block::{Kind, Request};

fn request(at_ns: u64, offset_bytes: u64, length_bytes: u64, kind: Kind) -> Request {
    Request {
        at_ns,
        offset_bytes,
        length_bytes,
        device: 0,
        kind,
    }
}

fn surveyed(requests: &[Request]) -> Info {
    let mut survey = Survey::new(4096);
    requests.chunks(3).for_each(|batch| survey.take(batch));
    survey.finish()
}

fn codes(requests: &[Request]) -> Vec<&'static str> {
    surveyed(requests)
        .warnings()
        .iter()
        .map(TraceWarning::code)
        .collect()
}

/// A read and a write every `gap_ns`.
fn steady(gap_ns: u64) -> Vec<Request> {
    (0..10)
        .map(|at| {
            let kind = if at % 2 == 0 { Kind::Read } else { Kind::Write };
            request(at * gap_ns, at * 8192, 4096, kind)
        })
        .collect()
}

#[test]
fn a_trace_is_counted() {
    let mut requests = steady(1_000_000);
    requests[3].at_ns = requests[2].at_ns;
    requests[5].offset_bytes = requests[4].offset_bytes + 4096;
    requests.push(request(9_000_001, 0, 0, Kind::Flush));
    requests.push(request(9_000_000, 512, 1024, Kind::Trim));
    let info = surveyed(&requests);
    assert_eq!(info.requests(), 12);
    assert_eq!((info.reads.requests, info.reads.bytes), (5, 5 * 4096));
    assert_eq!((info.trims.bytes, info.flushes.requests), (1024, 1));
    assert_eq!((info.first_ns, info.last_ns), (0, 9_000_001));
    assert_eq!(
        (info.backward, info.largest_burst, info.distinct_times),
        (1, 2, 11)
    );
    assert_eq!((info.sequential, info.devices), (1, 1));
    assert_eq!(info.end_bytes, 9 * 8192 + 4096);
    assert_eq!(
        (info.offset_align_bytes, info.length_align_bytes),
        (512, 1024)
    );
    assert_eq!((info.distinct_pages, info.pages_exact), (10, true));
    assert!(
        info.requests_per_second()
            .is_some_and(|rate| (rate - 1222.2).abs() < 0.1)
    );
}

#[test]
fn devices_have_pages_and_runs_of_their_own() {
    let requests: Vec<Request> = (0..4)
        .flat_map(|at| {
            [1, 2].map(|device| Request {
                device,
                ..request(at, at * 4096, 4096, Kind::Write)
            })
        })
        .collect();
    let info = surveyed(&requests);
    assert_eq!(
        (info.devices, info.distinct_pages, info.sequential),
        (2, 8, 6)
    );
}

#[test]
fn a_plausible_trace_raises_no_doubt() {
    assert!(codes(&steady(1_000_000)).is_empty());
}

#[test]
fn what_is_implausible_is_said() {
    let with = |change: fn(&mut Request)| {
        let mut requests = steady(1_000_000);
        change(&mut requests[4]);
        codes(&requests)
    };
    let day_ns = 86_400_000_000_001;
    assert_eq!(codes(&[]), ["trace-empty"]);
    assert_eq!(codes(&steady(0)), ["trace-no-span"]);
    assert_eq!(codes(&steady(100)), ["trace-too-fast"]);
    assert_eq!(codes(&steady(3_700_000_000_000)), ["trace-too-slow"]);
    assert_eq!(
        codes(&steady(day_ns)),
        ["trace-too-slow", "trace-long-gaps"]
    );
    assert_eq!(with(|request| request.at_ns = 0), ["trace-time-goes-back"]);
    assert_eq!(
        with(|request| request.offset_bytes = 1 << 51),
        ["trace-far"]
    );
    assert_eq!(
        with(|request| request.length_bytes = 65 << 20),
        ["trace-long-requests"]
    );
    assert_eq!(
        with(|request| request.length_bytes = 0),
        ["trace-empty-requests"]
    );
    assert_eq!(
        with(|request| request.length_bytes = 100),
        ["trace-odd-sizes"]
    );
    let writes: Vec<Request> = steady(1_000_000)
        .into_iter()
        .map(|request| Request {
            kind: Kind::Write,
            ..request
        })
        .collect();
    assert_eq!(codes(&writes), ["trace-one-kind"]);
}

#[test]
fn a_rate_names_the_unit_that_would_make_it_plausible() {
    let remedy = |gap_ns| surveyed(&steady(gap_ns)).warnings()[0].remedy();
    assert!(remedy(50).contains("--time-scale 1e3"), "{}", remedy(50));
    assert!(
        remedy(50_000_000_000_000).contains("--time-scale 1e-6"),
        "{}",
        remedy(50_000_000_000_000)
    );
}

#[test]
fn no_request_is_too_strange_to_be_counted() {
    let far = request(u64::MAX, u64::MAX, u64::MAX, Kind::Write);
    let info = surveyed(&[far, far, request(0, 0, u64::MAX, Kind::Read)]);
    assert_eq!(info.end_bytes, u64::MAX);
    assert!(
        !info.pages_exact,
        "of such long requests not all pages are looked at"
    );
    assert!(
        !info
            .warnings()
            .iter()
            .any(|warning| warning.remedy().is_empty())
    );
}
