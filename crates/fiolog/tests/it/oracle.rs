//! The reader against a naive one, over random logs cut into random reads, and over any bytes.

use std::io::{self, Read};

use ioassay_fiolog::{Direction, LogKind, LogSummary, read_histogram_log, read_log};
use ioassay_stats::Histogram;
use proptest::prelude::*;

/// Gives its bytes in pieces of the given sizes, over and over.
struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: Vec<usize>,
    next: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = self.sizes[self.next % self.sizes.len()];
        let size = wanted.min(buffer.len()).min(self.bytes.len());
        self.next += 1;
        let (piece, rest) = self.bytes.split_at(size);
        buffer[..size].copy_from_slice(piece);
        self.bytes = rest;
        Ok(size)
    }
}

type Line = (u64, u64, u8, u64, u64);

fn lines() -> impl Strategy<Value = Vec<Line>> {
    // Below 2^56 the sums of squares are exact, so that histograms compare equal.
    let value = (8_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
    let size = prop_oneof![Just(0), Just(4096), Just(16384), 0_u64..1 << 40];
    let offset = prop_oneof![Just(0_u64), any::<u64>()];
    prop::collection::vec((0_u64..5000, value, 0_u8..3, size, offset), 0..1500)
}

fn text_of(lines: &[Line], columns: usize, foreign: bool) -> String {
    let text = |(number, (time, value, direction, size, offset)): (usize, &Line)| {
        let more = [format!(", {offset}"), ", 0x4004".into(), ", 77".into()];
        let more = more[..columns - 4].concat();
        let line = format!("{time}, {value}, {direction}, {size}{more}");
        // Now and then a line that no fast path takes.
        if foreign && number % 7 == 3 { line.replace(", ", ",") + "\r\n" } else { line + "\n" }
    };
    lines.iter().enumerate().map(text).collect()
}

fn check(summary: &LogSummary, lines: &[Line], window_ms: u64) -> Result<(), TestCaseError> {
    for direction in Direction::ALL {
        let mine = lines.iter().filter(|line| line.2 == direction as u8);
        let mine: Vec<&Line> = mine.collect();
        let Some(read) = summary.direction(direction) else {
            prop_assert!(mine.is_empty());
            continue;
        };
        let mut histogram = Histogram::new();
        for line in &mine {
            histogram.record(line.1);
        }
        prop_assert_eq!(&read.histogram, &histogram);
        prop_assert_eq!(Some(read.first_ms), mine.iter().map(|line| line.0).min());
        prop_assert_eq!(Some(read.last_ms), mine.iter().map(|line| line.0).max());
        let reversals = mine.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
        prop_assert_eq!(read.time_reversals, reversals as u64);
        let mut windows: Vec<u64> = mine.iter().map(|line| line.0 / window_ms).collect();
        windows.sort_unstable();
        windows.dedup();
        prop_assert_eq!(read.series.windows().len(), windows.len());
        for (start_ms, moments) in read.series.windows() {
            let is_inside = |line: &&&Line| line.0 / window_ms == start_ms / window_ms;
            let inside = mine.iter().filter(is_inside);
            let values = inside.clone().map(|line| u128::from(line.1));
            prop_assert_eq!(moments.sum(), values.sum());
            prop_assert_eq!(moments.count(), inside.count() as u64);
        }
        prop_assert_eq!(read.bytes, mine.iter().map(|line| u128::from(line.3)).sum());
    }
    Ok(())
}

/// Failures are shown with their input; no files are written beside the tests.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_log_is_read_as_a_naive_reader_would(
        lines in lines(),
        columns in 4_usize..=7,
        foreign: bool,
        window_ms in 40_u64..3000,
        sizes in prop::collection::vec(1_usize..70_000, 1..5),
    ) {
        let text = text_of(&lines, columns, foreign);
        let source = Pieces { bytes: text.as_bytes(), sizes, next: 0 };
        let summary = read_log(source, LogKind::Lat, window_ms).unwrap();
        prop_assert_eq!(summary.rows(), lines.len() as u64);
        check(&summary, &lines, window_ms)?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = read_log(bytes.as_slice(), LogKind::Bw, 1000);
        let _ = read_histogram_log(bytes.as_slice());
    }

    #[test]
    fn nearly_right_text_never_panics(text in "([0-9x]{0,20},? ?){0,9}(\r?\n([0-9]{1,17}, ){0,8}0?){0,20}") {
        let _ = read_log(text.as_bytes(), LogKind::Lat, 1000);
        let _ = read_histogram_log(text.as_bytes());
    }
}
