//! Logs of values and of histograms that are empty, cut, old, foreign or hostile: each has a clear result.

use ioassay_fiolog::{Direction, Error, Fault, LogKind, LogSummary, read_histogram_log, read_log};

fn read(log: &[u8]) -> Result<LogSummary, Error> {
    read_log(log, LogKind::Clat, 1000)
}

fn message(log: &[u8]) -> String {
    read(log).unwrap_err().to_string()
}

const GOOD: &str = "1, 500, 0, 4096, 0\n";

#[test]
fn unusual_logs_are_read() {
    // Rows, lines, and whether the last line lacks its line feed.
    for (log, wanted) in [
        ("", (0, 0, false)),
        ("\n", (0, 1, false)),
        ("\r\n \n", (0, 2, false)),
        ("1, 500, 0, 4096, 0\n2, 600, 0, 4096, 0", (2, 2, true)),
        ("1, 500, 0, 4096, 0\r\n\r\n\n2,600,0,4096,0\r\n", (2, 4, false)),
    ] {
        let summary = read(log.as_bytes()).unwrap();
        assert_eq!((summary.rows(), summary.lines, summary.unterminated), wanted, "{log:?}");
        assert_eq!(summary.layout.is_some(), wanted.0 > 0, "{log:?}");
    }
}

#[test]
fn a_fault_is_named_with_its_line_and_text() {
    for row in include_str!("line_faults.tsv").lines().skip(1) {
        let (line, part) = row.split_once('\t').unwrap();
        let text = message(format!("{GOOD}{line}\n{GOOD}").as_bytes());
        for part in ["line 2", &format!("`{line}`"), part] {
            assert!(text.contains(part), "{line}: {text}");
        }
    }
    let text = message(format!("{GOOD}2, 60").as_bytes());
    for part in ["line 2", "ends in the middle of this line"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_largest_number_is_read_and_scaled_only_if_it_fits() {
    let log = b"1, 18446744073709551615, 0, 4096, 0\n".as_slice();
    let summary = read(log).unwrap();
    let reads = summary.direction(Direction::Read).unwrap();
    assert_eq!(reads.histogram.moments().max(), Some(u64::MAX));
    let error = read_log(log, LogKind::Bw, 1000).unwrap_err();
    let wanted = "value is `18446744073709551615`, expected one that fits";
    assert!(error.to_string().contains(wanted), "{error}");
}

#[test]
fn binary_rubbish_is_an_error() {
    let rubbish: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let text = message(&rubbish);
    for part in ["line 1", r"\x00\x01"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let endless = vec![b'7'; 8 << 20];
    let error = read(&endless).unwrap_err();
    let Error::Line { line, fault, .. } = error else { panic!("{error}") };
    assert!(line == 1 && matches!(fault, Fault::TooLong(_)));
}

#[test]
fn compressed_logs_are_named() {
    for start in [&[0x78, 0x9c, 1, 2][..], &[0x1f, 0x8b, 8, 0]] {
        assert!(message(start).contains("fio --inflate-log"));
        assert!(read_histogram_log(start).is_err());
    }
}

#[test]
fn time_that_runs_backwards_is_counted_and_its_window_taken_up_again() {
    let log = b"1500, 10, 0, 0, 0\n2500, 20, 0, 0, 0\n1600, 30, 0, 0, 0\n1600, 30, 1, 0, 0\n";
    let summary = read(log).unwrap();
    let reads = summary.direction(Direction::Read).unwrap();
    let windows = reads.series.windows().map(|(start, m)| (start, m.sum()));
    assert_eq!(windows.collect::<Vec<_>>(), [(1000, 40), (2000, 20)]);
    assert_eq!((reads.first_ms, reads.last_ms), (1500, 2500));
    let writes = summary.direction(Direction::Write).unwrap();
    assert_eq!((reads.time_reversals, writes.time_reversals), (1, 0));
}

#[test]
fn times_at_the_end_of_the_clock_have_a_window() {
    let summary = read(b"0, 1, 0, 0, 0\n18446744073709551615, 1, 0, 0, 0\n").unwrap();
    let reads = summary.direction(Direction::Read).unwrap();
    assert_eq!(reads.series.windows().len(), 2);
}

#[test]
fn windows_of_no_length_are_refused() {
    assert!(matches!(read_log(&b""[..], LogKind::Lat, 0), Err(Error::Option { .. })));
}

// Histograms

fn bin_line(time_ms: u64, bins: usize, filled: &[(usize, u64)]) -> String {
    let mut counts = vec![0; bins];
    for &(bin, count) in filled {
        counts[bin] = count;
    }
    let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
    format!("{time_ms}, 0, 4096, {}\n", counts.join(", "))
}

#[test]
fn running_totals_are_suspected() {
    let line = |i| bin_line(i * 100, 1216, &[(3, i * 10), (1215, i)]);
    for (order, suspected) in [(&[1, 2, 3][..], true), (&[1, 2], false), (&[1, 3, 2], false)] {
        let log: String = order.iter().copied().map(line).collect();
        let summary = read_histogram_log(log.as_bytes()).unwrap();
        let (_, reads) = summary.directions().next().unwrap();
        assert_eq!(reads.looks_cumulative(), suspected, "{order:?}");
        // Old logs hold microseconds.
        let median_ns = reads.histogram.value_at_quantile(0.5).unwrap();
        assert!((median_ns - 3000.0).abs() < 1.0, "{median_ns}");
    }
}

#[test]
fn bad_histogram_lines_are_named() {
    let good = bin_line(1, 1856, &[(100, 7)]);
    let other = bin_line(1, 928, &[]);
    let seven = good.replace(" 7,", " seven,");
    for (line, part) in [
        ("1, 0, 4096, 1, 2, 3\n", "6 columns, expected 3 and 1856 bins"),
        ("1, 0\n", "block size is ``"),
        (&other, "931 columns, expected 1859 as in the other lines"),
        (&seven, "a bin's count is `seven`"),
        (&good[..3000], "ends in the middle"),
    ] {
        let error = read_histogram_log(format!("{good}{line}").as_bytes()).unwrap_err();
        for part in ["line 2", part] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
