//! Real logs of fio 3.33, against what fio itself said of the same runs.

use ioassay_fiolog::{Direction, HistogramLogSummary, LogKind, LogSummary, read_histogram_log, read_log};

fn golden(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/fio-3.33");
    let path = format!("{folder}/{name}");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read(name: &str, kind: LogKind, window_ms: u64) -> LogSummary {
    read_log(golden(name).as_slice(), kind, window_ms).unwrap()
}

#[test]
fn a_per_io_log_gives_the_moments_that_fio_reports() {
    // clat_ns of hist.json.
    let reads = (875, 30, 145_806, 1_009.350_857, 9_860.319_393);
    let writes = (917, 30, 161_809, 1_291.155_943, 11_929.079_982);
    let log = read("hist_clat.1.log", LogKind::Clat, 1000);
    for (direction, expected) in [(Direction::Read, reads), (Direction::Write, writes)] {
        let (count, min, max, mean, stddev) = expected;
        let moments = *log.direction(direction).unwrap().histogram.moments();
        let ends = (moments.min(), moments.max());
        assert_eq!((moments.count(), ends), (count, (Some(min), Some(max))));
        assert!((moments.mean().unwrap() - mean).abs() < 1e-6);
        assert!((moments.stddev().unwrap() - stddev).abs() < 1e-6);
    }
    assert_eq!(log.rows(), 875 + 917);
    assert!(!log.unterminated);
}

#[test]
fn offsets_and_priorities_are_passed_over() {
    let log = read("offset_prio_clat.1.log", LogKind::Clat, 1000);
    assert_eq!(log.layout.map(|layout| layout.columns), Some(6));
    let bytes = |direction| log.direction(direction).unwrap().bytes;
    assert_eq!(bytes(Direction::Read), 10 * 4096 + 16 * 16384 + 2 * 65536);
    assert_eq!(bytes(Direction::Write), 10 * 4096 + 12288 + 16 * 16384 + 5 * 65536);
}

#[test]
fn bandwidth_comes_in_bytes_per_second_and_in_windows() {
    let log = read("windowed_bw.1.log", LogKind::Bw, 500);
    let writes = log.direction(Direction::Write).unwrap();
    let windows = writes.series.windows();
    let windows: Vec<_> = windows.map(|(at_ms, of)| (at_ms, of.count(), of.min().unwrap())).collect();
    assert_eq!(windows, [(0, 3, 6513 * 1024), (500, 5, 6480 * 1024)]);
    assert_eq!((writes.first_ms, writes.last_ms), (148, 900));
    assert_eq!(writes.time_reversals, 0);
    assert!(log.direction(Direction::Trim).is_some() && log.direction(Direction::Read).is_none());
}

#[test]
fn an_iops_log_counts_its_ios() {
    let log = read("per_io_iops.1.log", LogKind::Iops, 1000);
    assert_eq!(log.rows(), 60);
    assert_eq!(log.layout.map(|layout| layout.both_values), Some(false));
}

#[test]
fn of_average_and_maximum_the_average_is_read() {
    let log = b"100, 581, 900, 1, 0, 0\n200, 600, 2, 0, 0, 0\n".as_slice();
    let summary = read_log(log, LogKind::Clat, 1000).unwrap();
    let writes = summary.direction(Direction::Write).unwrap();
    assert_eq!(writes.histogram.moments().max(), Some(581));
    assert_eq!(summary.layout.map(|layout| layout.both_values), Some(true));
}

fn bins(name: &str) -> HistogramLogSummary {
    read_histogram_log(golden(name).as_slice()).unwrap()
}

/// Time of the last line of the histogram log.
const LAST_LINE_MS: u64 = 753;

#[test]
fn a_histogram_log_agrees_with_the_log_of_single_ios() {
    let bins = bins("hist_clat_hist.1.log");
    let single = golden("hist_clat.1.log");
    let counts = bins.directions().map(|(_, of)| (of.lines, of.histogram.count())).collect::<Vec<_>>();
    assert_eq!(counts, [(3, 224 + 236 + 186), (3, 249 + 242 + 192)]);
    for (direction, read) in bins.directions() {
        // fio logs no histogram for the last quarter of a second: leave it out on both sides.
        let text = String::from_utf8(single.clone()).unwrap();
        let before = |line: &&str| line.split(',').next().unwrap().parse::<u64>().unwrap() < LAST_LINE_MS;
        let text: Vec<&str> = text.lines().filter(before).collect();
        let log = read_log(text.join("\n").as_bytes(), LogKind::Clat, 1000).unwrap();
        let exact = &log.direction(direction).unwrap().histogram;
        for q in [0.25, 0.5, 0.75, 0.9] {
            let binned = read.histogram.value_at_quantile(q).unwrap();
            let exact = exact.value_at_quantile(q).unwrap();
            let off = (binned / exact - 1.0).abs();
            assert!(off < 0.05, "{q}: {binned} against {exact}");
        }
        assert!(!read.looks_cumulative());
    }
}

#[test]
fn coarse_bins_are_known_by_their_number() {
    let bins = bins("coarse_clat_hist.1.log");
    let layout = bins.layout.unwrap();
    assert_eq!((layout.bins, layout.coarseness), (232, 3));
    assert_eq!(layout.unit_ns, 1);
    let (_, reads) = bins.directions().next().unwrap();
    let median = reads.histogram.value_at_quantile(0.5).unwrap();
    assert!((200.0..300.0).contains(&median), "median {median}");
}
