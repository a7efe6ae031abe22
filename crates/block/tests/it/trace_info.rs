//! What a trace is like, and what makes it implausible.

use crate::{each, with};
use ioassay_block::info::{Info, Survey, TraceWarning};
use ioassay_block::{Kind, Request};

fn request(at_ns: u64, offset_bytes: u64, length_bytes: u64, kind: Kind) -> Request {
    Request { kind, ..crate::write(at_ns, offset_bytes, length_bytes) }
}

fn surveyed(requests: &[Request]) -> Info {
    let mut survey = Survey::new(4096);
    requests.chunks(3).for_each(|batch| survey.take(batch));
    survey.finish()
}

fn codes(requests: &[Request]) -> Vec<&'static str> {
    let warnings = surveyed(requests).warnings();
    warnings.iter().map(TraceWarning::code).collect()
}

/// A read and a write every `gap_ns`.
fn steady(gap_ns: u64) -> Vec<Request> {
    each(10, |at| {
        let kind = [Kind::Read, Kind::Write][(at % 2) as usize];
        request(at * gap_ns, at * 8192, 4096, kind)
    })
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
    assert_eq!((info.backward, info.largest_burst), (1, 2));
    assert_eq!(info.distinct_times, 11);
    assert_eq!((info.sequential, info.devices), (1, 1));
    assert_eq!(info.end_bytes, 9 * 8192 + 4096);
    let aligned = (info.offset_align_bytes, info.length_align_bytes);
    assert_eq!(aligned, (512, 1024));
    assert_eq!((info.distinct_pages, info.pages_exact), (10, true));
    let rate = info.requests_per_second().unwrap();
    assert!((rate - 1222.2).abs() < 0.1);
}

#[test]
fn devices_have_pages_and_runs_of_their_own() {
    let requests =
        each(8, |at| Request { device: 1 + (at % 2) as u32, ..request(at / 2, at / 2 * 4096, 4096, Kind::Write) });
    let info = surveyed(&requests);
    assert_eq!((info.devices, info.distinct_pages), (2, 8));
    assert_eq!(info.sequential, 6);
}

#[test]
fn a_plausible_trace_raises_no_doubt() {
    assert!(codes(&steady(1_000_000)).is_empty());
}

type Change = fn(&mut Request);

#[test]
fn what_is_implausible_is_said() {
    let day_ns = 86_400_000_000_001;
    assert_eq!(codes(&[]), ["trace-empty"]);
    assert_eq!(codes(&steady(0)), ["trace-no-span"]);
    assert_eq!(codes(&steady(100)), ["trace-too-fast"]);
    assert_eq!(codes(&steady(3_700_000_000_000)), ["trace-too-slow"]);
    let both = ["trace-too-slow", "trace-long-gaps"];
    assert_eq!(codes(&steady(day_ns)), both);
    let changes: [(&str, Change); 5] = [
        ("trace-time-goes-back", |request| request.at_ns = 0),
        ("trace-far", |request| request.offset_bytes = 1 << 51),
        ("trace-long-requests", |request| {
            request.length_bytes = 65 << 20;
        }),
        ("trace-empty-requests", |request| request.length_bytes = 0),
        ("trace-odd-sizes", |request| request.length_bytes = 100),
    ];
    for (code, change) in changes {
        let requests = with(steady(1_000_000), |requests| change(&mut requests[4]));
        assert_eq!(codes(&requests), [code]);
    }
    let mut writes = steady(1_000_000);
    for request in &mut writes {
        request.kind = Kind::Write;
    }
    assert_eq!(codes(&writes), ["trace-one-kind"]);
}

#[test]
fn a_rate_names_the_unit_that_would_make_it_plausible() {
    let remedy = |gap_ns| surveyed(&steady(gap_ns)).warnings()[0].remedy();
    for (gap_ns, wanted) in [(50, "1e3"), (50_000_000_000_000, "1e-6")] {
        let said = remedy(gap_ns);
        assert!(said.contains(&format!("--time-scale {wanted}")), "{said}");
    }
}

#[test]
fn no_request_is_too_strange_to_be_counted() {
    let far = request(u64::MAX, u64::MAX, u64::MAX, Kind::Write);
    let info = surveyed(&[far, far, request(0, 0, u64::MAX, Kind::Read)]);
    assert_eq!(info.end_bytes, u64::MAX);
    assert!(!info.pages_exact); // of such long requests not all pages are looked at
    let warnings = info.warnings();
    assert!(warnings.iter().all(|warning| !warning.remedy().is_empty()));
}
