//! Value logs that are empty, cut, old, foreign or hostile: each has a clear result.

use ioassay_fiolog::{
    Direction, Error, Fault, HistogramLogOptions, LogKind, LogOptions, LogSummary,
    read_histogram_log, read_log,
};

fn strict(log: &[u8]) -> Result<LogSummary, Error> {
    read_log(log, LogOptions::new(LogKind::Clat))
}

fn lenient(log: &[u8]) -> LogSummary {
    read_log(
        log,
        LogOptions {
            strict: false,
            ..LogOptions::new(LogKind::Clat)
        },
    )
    .unwrap()
}

fn message(log: &[u8]) -> String {
    strict(log).unwrap_err().to_string()
}

const GOOD: &str = "1, 500, 0, 4096, 0\n";

#[test]
fn an_empty_log_has_no_directions() {
    for log in ["", "\n", "\r\n \n"] {
        let summary = strict(log.as_bytes()).unwrap();
        assert_eq!(
            (summary.directions().count(), summary.layout, summary.rows()),
            (0, None, 0)
        );
        assert_eq!(summary.bad_lines, 0);
    }
}

#[test]
fn the_message_names_line_text_and_what_was_wanted() {
    let log = format!("{GOOD}{GOOD}1, 5x0, 0, 4096, 0\n");
    let text = message(log.as_bytes());
    for part in [
        "line 3",
        "`1, 5x0, 0, 4096, 0`",
        "value is `5x0`",
        "wanted a whole number",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn every_fault_is_told() {
    for (line, part) in [
        ("-1, 5, 0, 4096, 0", "time is `-1`"),
        ("1, -5, 0, 4096, 0", "value is `-5`"),
        (
            "1, 5, 3, 4096, 0",
            "direction is `3`, wanted 0 (read), 1 (write) or 2 (trim)",
        ),
        ("1, 5, 0, , 0", "block size is ``"),
        ("1, 5, 0, 4096, zero", "offset or priority is `zero`"),
        ("1, 5, 0, 4096, 0x", "offset or priority is `0x`"),
        (
            "1, 18446744073709551616, 0, 4096, 0",
            "value is `18446744073709551616`",
        ),
        ("1, 5, 0", "3 columns, wanted 5"),
        ("1, 5, 0, 4096, 0, 0", "6 columns, wanted 5"),
        ("1;5;0;4096;0", "1 columns, wanted 5"),
    ] {
        let text = message(format!("{GOOD}{line}\n{GOOD}").as_bytes());
        assert!(
            text.contains("line 2") && text.contains(part),
            "{line}: {text}"
        );
        let summary = lenient(format!("{GOOD}{line}\n{GOOD}").as_bytes());
        assert_eq!(
            (summary.rows(), summary.bad_lines, summary.lines),
            (2, 1, 3),
            "{line}"
        );
    }
}

#[test]
fn the_largest_number_is_read_and_scaled_only_if_it_fits() {
    let log = b"1, 18446744073709551615, 0, 4096, 0\n".as_slice();
    let summary = strict(log).unwrap();
    let reads = summary.direction(Direction::Read).unwrap();
    assert_eq!(reads.histogram.moments().max(), Some(u64::MAX));
    let error = read_log(log, LogOptions::new(LogKind::Bw))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("value is `18446744073709551615`, wanted one that fits"),
        "{error}"
    );
}

#[test]
fn a_log_cut_in_a_line_says_so() {
    let text = message(format!("{GOOD}2, 60").as_bytes());
    assert!(
        text.contains("line 2") && text.contains("ends in the middle of this line"),
        "{text}"
    );
    let summary = lenient(format!("{GOOD}2, 60").as_bytes());
    assert!(summary.unterminated);
    assert_eq!((summary.rows(), summary.bad_lines), (1, 1));
}

#[test]
fn a_last_line_without_line_feed_is_read() {
    let summary = strict(b"1, 500, 0, 4096, 0\n2, 600, 0, 4096, 0").unwrap();
    assert_eq!((summary.rows(), summary.unterminated), (2, true));
}

#[test]
fn windows_line_ends_and_blank_lines_are_read() {
    let summary = strict(b"1, 500, 0, 4096, 0\r\n\r\n\n2,600,0,4096,0\r\n").unwrap();
    assert_eq!(
        (summary.rows(), summary.lines, summary.bad_lines),
        (2, 4, 0)
    );
}

#[test]
fn binary_rubbish_is_an_error_or_counted() {
    let mut rubbish: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let text = message(&rubbish);
    assert!(
        text.contains("line 1") && text.contains(r"\x00\x01"),
        "{text}"
    );
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
    assert!(
        matches!(
            error,
            Error::Line {
                line: 1,
                fault: Fault::TooLong(_),
                ..
            }
        ),
        "{error}"
    );
    let mut log = GOOD.as_bytes().to_vec();
    log.extend(&endless);
    log.extend(b"\n");
    log.extend(GOOD.as_bytes());
    let summary = lenient(&log);
    assert_eq!(
        (summary.rows(), summary.bad_lines, summary.lines),
        (2, 1, 3)
    );
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
    let windows: Vec<_> = reads
        .series
        .windows()
        .map(|(start, m)| (start, m.sum()))
        .collect();
    assert_eq!(windows, [(1000, 40), (2000, 20)]);
    assert_eq!(
        (reads.time_reversals, reads.first_ms, reads.last_ms),
        (1, 1500, 2500)
    );
    assert_eq!(
        summary.direction(Direction::Write).unwrap().time_reversals,
        0
    );
}

#[test]
fn times_at_the_end_of_the_clock_have_a_window() {
    let summary = strict(b"0, 1, 0, 0, 0\n18446744073709551615, 1, 0, 0, 0\n").unwrap();
    assert_eq!(
        summary
            .direction(Direction::Read)
            .unwrap()
            .series
            .windows()
            .len(),
        2
    );
}

#[test]
fn options_that_cannot_be_are_refused() {
    for options in [
        LogOptions {
            window_ms: 0,
            ..LogOptions::new(LogKind::Lat)
        },
        LogOptions {
            scale: 0,
            ..LogOptions::new(LogKind::Lat)
        },
        LogOptions {
            scale: 10_001,
            ..LogOptions::new(LogKind::Lat)
        },
    ] {
        assert!(matches!(
            read_log(&b""[..], options),
            Err(Error::Option { .. })
        ));
    }
    let options = HistogramLogOptions {
        quantiles: vec![1.5],
        ..Default::default()
    };
    assert!(matches!(
        read_histogram_log(&b""[..], &options),
        Err(Error::Quantile(_))
    ));
}
