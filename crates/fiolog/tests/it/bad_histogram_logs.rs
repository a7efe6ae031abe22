//! Histogram logs that are cut, old, foreign or hostile: each has a clear result.

use ioassay_fiolog::{HistogramLogOptions, read_histogram_log};

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
    let log: String = (1..=3)
        .map(|i| bin_line(i * 100, 1216, &[(3, i * 10), (1215, i)]))
        .collect();
    let read = |cumulative| {
        let options = HistogramLogOptions {
            cumulative,
            ..Default::default()
        };
        read_histogram_log(log.as_bytes(), &options).unwrap()
    };
    let (apart, naive) = (read(true), read(false));
    let (_, apart) = apart.directions().next().unwrap();
    let (_, naive) = naive.directions().next().unwrap();
    assert_eq!(
        apart.rows.iter().map(|row| row.count).collect::<Vec<_>>(),
        [11, 11, 11]
    );
    let median_ns = apart.rows[1].quantiles_ns[0];
    assert!(
        (median_ns - 3000.0).abs() < 1.0,
        "old logs hold microseconds: {median_ns}"
    );
    assert_eq!(naive.histogram.count(), 66);
    assert!(naive.looks_cumulative());
}

#[test]
fn differences_read_as_totals_are_an_error() {
    let log = bin_line(1, 29, &[(3, 10)]) + &bin_line(2, 29, &[(3, 9)]);
    let options = HistogramLogOptions {
        cumulative: true,
        ..Default::default()
    };
    let error = read_histogram_log(log.as_bytes(), &options)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 2") && error.contains("9 in bin 3"),
        "{error}"
    );
}

#[test]
fn bad_histogram_lines_are_told() {
    let good = bin_line(1, 1856, &[(100, 7)]);
    for (line, part) in [
        (
            "1, 0, 4096, 1, 2, 3".to_owned(),
            "6 columns, wanted 3 and 1856 bins",
        ),
        ("1, 0".to_owned(), "block size is ``"),
        (
            bin_line(1, 928, &[]),
            "931 columns, wanted 1859 as in the other lines",
        ),
        (good.replace(" 7,", " seven,"), "a bin's count is `seven`"),
    ] {
        let log = format!("{good}{}\n", line.trim_end());
        let error = read_histogram_log(log.as_bytes(), &HistogramLogOptions::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2") && error.contains(part), "{error}");
        let options = HistogramLogOptions {
            strict: false,
            ..Default::default()
        };
        let summary = read_histogram_log(log.as_bytes(), &options).unwrap();
        assert_eq!((summary.bad_lines, summary.directions().count()), (1, 1));
    }
    let cut = format!("{good}{}", &good[..3000]);
    let error = read_histogram_log(cut.as_bytes(), &HistogramLogOptions::default()).unwrap_err();
    assert!(error.to_string().contains("ends in the middle"), "{error}");
}

#[test]
fn an_empty_window_has_no_mean() {
    let summary = read_histogram_log(
        bin_line(1, 29, &[]).as_bytes(),
        &HistogramLogOptions::default(),
    );
    let summary = summary.unwrap();
    let (_, reads) = summary.directions().next().unwrap();
    assert!(reads.rows[0].mean_ns.is_nan() && reads.rows[0].quantiles_ns[0].is_nan());
}
