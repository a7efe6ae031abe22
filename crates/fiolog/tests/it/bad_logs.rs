//! Logs of values and of histograms that are empty, cut, old, foreign or hostile: each has a clear result.

use ioassay_fiolog::{
    Direction, Error, Fault, HistogramLogOptions, HistogramLogSummary, LogKind, LogOptions, LogSummary,
    read_histogram_log, read_log,
};

fn strict(log: &[u8]) -> Result<LogSummary, Error> {
    read_log(log, LogOptions::new(LogKind::Clat))
}

fn lenient(log: &[u8]) -> LogSummary {
    let mut options = LogOptions::new(LogKind::Clat);
    options.strict = false;
    read_log(log, options).unwrap()
}

fn message(log: &[u8]) -> String {
    strict(log).unwrap_err().to_string()
}

/// Rows, bad lines and lines.
fn counts(summary: &LogSummary) -> (u64, u64, u64) {
    (summary.rows(), summary.bad_lines, summary.lines)
}

const GOOD: &str = "1, 500, 0, 4096, 0\n";

#[test]
fn an_empty_log_has_no_directions() {
    for log in ["", "\n", "\r\n \n"] {
        let summary = strict(log.as_bytes()).unwrap();
        assert_eq!((summary.directions().count(), summary.layout), (0, None));
        assert_eq!((summary.rows(), summary.bad_lines), (0, 0));
    }
}

#[test]
fn the_message_names_line_text_and_what_was_wanted() {
    let log = format!("{GOOD}{GOOD}1, 5x0, 0, 4096, 0\n");
    let text = message(log.as_bytes());
    let value = "value is `5x0`";
    for part in ["line 3", "`1, 5x0, 0, 4096, 0`", value, "expected a whole number"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn every_fault_is_told() {
    for row in include_str!("line_faults.tsv").lines().skip(1) {
        let (line, part) = row.split_once('\t').unwrap();
        let log = format!("{GOOD}{line}\n{GOOD}");
        let text = message(log.as_bytes());
        assert!(text.contains("line 2"), "{line}: {text}");
        assert!(text.contains(part), "{line}: {text}");
        assert_eq!(counts(&lenient(log.as_bytes())), (2, 1, 3), "{line}");
    }
}

#[test]
fn the_largest_number_is_read_and_scaled_only_if_it_fits() {
    let log = b"1, 18446744073709551615, 0, 4096, 0\n".as_slice();
    let summary = strict(log).unwrap();
    let reads = summary.direction(Direction::Read).unwrap();
    assert_eq!(reads.histogram.moments().max(), Some(u64::MAX));
    let error = read_log(log, LogOptions::new(LogKind::Bw)).unwrap_err();
    let wanted = "value is `18446744073709551615`, expected one that fits";
    assert!(error.to_string().contains(wanted), "{error}");
}

#[test]
fn a_log_cut_in_a_line_says_so() {
    let text = message(format!("{GOOD}2, 60").as_bytes());
    assert!(text.contains("line 2"), "{text}");
    assert!(text.contains("ends in the middle of this line"), "{text}");
    let summary = lenient(format!("{GOOD}2, 60").as_bytes());
    assert_eq!((counts(&summary), summary.unterminated), ((1, 1, 2), true));
}

#[test]
fn a_last_line_without_line_feed_is_read() {
    let summary = strict(b"1, 500, 0, 4096, 0\n2, 600, 0, 4096, 0").unwrap();
    assert_eq!((summary.rows(), summary.unterminated), (2, true));
}

#[test]
fn windows_line_ends_and_blank_lines_are_read() {
    let summary = strict(b"1, 500, 0, 4096, 0\r\n\r\n\n2,600,0,4096,0\r\n").unwrap();
    assert_eq!(counts(&summary), (2, 0, 4));
}

#[test]
fn binary_rubbish_is_an_error_or_counted() {
    let mut rubbish: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let text = message(&rubbish);
    assert!(text.contains("line 1"), "{text}");
    assert!(text.contains(r"\x00\x01"), "{text}");
    rubbish.extend(GOOD.as_bytes());
    let summary = lenient(&rubbish);
    assert_eq!(summary.rows(), 0, "the good line is glued to rubbish");
    rubbish.push(b'\n');
    rubbish.extend(GOOD.as_bytes());
    assert_eq!(lenient(&rubbish).rows(), 1);
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let endless = vec![b'7'; 8 << 20];
    let error = strict(&endless).unwrap_err();
    let Error::Line { line, fault, .. } = error else { panic!("{error}") };
    assert!(line == 1 && matches!(fault, Fault::TooLong(_)));
    let good = GOOD.as_bytes();
    let log = [good, &endless, b"\n", good].concat();
    assert_eq!(counts(&lenient(&log)), (2, 1, 3));
}

#[test]
fn compressed_logs_are_named() {
    for start in [&[0x78, 0x9c, 1, 2][..], &[0x1f, 0x8b, 8, 0]] {
        assert!(message(start).contains("fio --inflate-log"));
        assert!(read_histogram_log(start, &HistogramLogOptions::default()).is_err());
    }
}

#[test]
fn time_that_runs_backwards_is_counted_and_its_window_taken_up_again() {
    let log = b"1500, 10, 0, 0, 0\n2500, 20, 0, 0, 0\n1600, 30, 0, 0, 0\n1600, 30, 1, 0, 0\n";
    let summary = strict(log).unwrap();
    let reads = summary.direction(Direction::Read).unwrap();
    let windows = reads.series.windows().map(|(start, m)| (start, m.sum()));
    assert_eq!(windows.collect::<Vec<_>>(), [(1000, 40), (2000, 20)]);
    assert_eq!((reads.first_ms, reads.last_ms), (1500, 2500));
    let writes = summary.direction(Direction::Write).unwrap();
    assert_eq!((reads.time_reversals, writes.time_reversals), (1, 0));
}

#[test]
fn times_at_the_end_of_the_clock_have_a_window() {
    let summary = strict(b"0, 1, 0, 0, 0\n18446744073709551615, 1, 0, 0, 0\n").unwrap();
    let reads = summary.direction(Direction::Read).unwrap();
    assert_eq!(reads.series.windows().len(), 2);
}

#[test]
fn options_that_cannot_be_are_refused() {
    let spoils: [fn(&mut LogOptions); 3] =
        [|options| options.window_ms = 0, |options| options.scale = 0, |options| options.scale = 10_001];
    for spoil in spoils {
        let mut options = LogOptions::new(LogKind::Lat);
        spoil(&mut options);
        let refused = read_log(&b""[..], options);
        assert!(matches!(refused, Err(Error::Option { .. })));
    }
    let refused = read_histogram(&[], |options| options.quantiles = vec![1.5]);
    assert!(matches!(refused, Err(Error::Quantile(_))));
}

// Histograms

fn read_histogram(log: &[u8], change: impl FnOnce(&mut HistogramLogOptions)) -> Result<HistogramLogSummary, Error> {
    let mut options = HistogramLogOptions::default();
    change(&mut options);
    read_histogram_log(log, &options)
}

fn bin_line(time_ms: u64, bins: usize, filled: &[(usize, u64)]) -> String {
    let mut counts = vec![0; bins];
    for &(bin, count) in filled {
        counts[bin] = count;
    }
    let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
    format!("{time_ms}, 0, 4096, {}\n", counts.join(", "))
}

#[test]
fn running_totals_are_taken_apart_or_suspected() {
    let line = |i| bin_line(i * 100, 1216, &[(3, i * 10), (1215, i)]);
    let log: String = (1..=3).map(line).collect();
    let read = |cumulative| {
        let read = read_histogram(log.as_bytes(), |options| options.cumulative = cumulative);
        read.unwrap()
    };
    let (apart, naive) = (read(true), read(false));
    let (_, apart) = apart.directions().next().unwrap();
    let (_, naive) = naive.directions().next().unwrap();
    let counts: Vec<u64> = apart.rows.iter().map(|row| row.count).collect();
    assert_eq!(counts, [11, 11, 11]);
    // Old logs hold microseconds.
    let median_ns = apart.rows[1].quantiles_ns[0];
    assert!((median_ns - 3000.0).abs() < 1.0, "{median_ns}");
    assert_eq!(naive.histogram.count(), 66);
    assert!(naive.looks_cumulative());
}

#[test]
fn differences_read_as_totals_are_an_error() {
    let log = bin_line(1, 29, &[(3, 10)]) + &bin_line(2, 29, &[(3, 9)]);
    let error = read_histogram(log.as_bytes(), |options| options.cumulative = true).unwrap_err();
    for part in ["line 2", "9 in bin 3"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn bad_histogram_lines_are_told() {
    let good = bin_line(1, 1856, &[(100, 7)]);
    let other = bin_line(1, 928, &[]);
    let seven = good.replace(" 7,", " seven,");
    for (line, part) in [
        ("1, 0, 4096, 1, 2, 3", "6 columns, expected 3 and 1856 bins"),
        ("1, 0", "block size is ``"),
        (&other, "931 columns, expected 1859 as in the other lines"),
        (&seven, "a bin's count is `seven`"),
    ] {
        let log = format!("{good}{}\n", line.trim_end());
        let error = read_histogram(log.as_bytes(), |_| ()).unwrap_err();
        for part in ["line 2", part] {
            assert!(error.to_string().contains(part), "{error}");
        }
        let read = read_histogram(log.as_bytes(), |options| options.strict = false);
        let summary = read.unwrap();
        assert_eq!((summary.bad_lines, summary.directions().count()), (1, 1));
    }
    let cut = format!("{good}{}", &good[..3000]);
    let error = read_histogram(cut.as_bytes(), |_| ()).unwrap_err();
    assert!(error.to_string().contains("ends in the middle"), "{error}");
}

#[test]
fn an_empty_window_has_no_mean() {
    let summary = read_histogram(bin_line(1, 29, &[]).as_bytes(), |_| ()).unwrap();
    let (_, reads) = summary.directions().next().unwrap();
    assert!(reads.rows[0].mean_ns.is_nan() && reads.rows[0].quantiles_ns[0].is_nan());
}
