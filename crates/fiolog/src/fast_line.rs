//! Lines that are just as fio writes them, read without a loop over bytes.

use crate::digits::{REACH, Reach, number_at};
use crate::line::Row;
use crate::tail::{Head, TailMemory};
use crate::{Direction, Layout};

/// A head has at most 21 bytes: comma, blank, direction, comma, blank, 15 digits, comma.
const LONGEST_HEAD: usize = 21;

/// Reads the line at the start of `text` if it is just as fio writes it; returns it with its length, line feed
/// included. Nothing for any other line, right or wrong: then [`read_careful`](crate::line::read_careful) decides.
#[inline(always)]
pub(crate) fn read_fast_line(text: &Reach, layout: Layout, tails: &mut TailMemory) -> Option<(Row, usize)> {
    let (time_ms, at) = number_at(text, 0)?;
    let (value, mut at) = number_at(text, after_comma(text, at)?)?;
    if layout.both_values {
        (_, at) = number_at(text, after_comma(text, at)?)?;
    }
    // Positions wrap at the reach; from here on no head can get there.
    if at + LONGEST_HEAD >= REACH {
        return None;
    }
    let Head { direction, block_size_bytes, length } = tails.head_or(text, at, || read_head(text, at))?;
    at += length;
    let more = layout.columns - layout.leading();
    match (text[at - 1] == b'\n', more) {
        (true, 0) => {}
        (false, 1..) => at += tails.rest_or(text, at, || rest_length(text, at, more))?,
        _ => return None,
    }
    Some((Row { time_ms, value, direction, block_size_bytes }, at))
}

/// Reads direction and block size, after the value that ends at `start`.
#[inline(always)]
fn read_head(text: &Reach, start: usize) -> Option<Head> {
    let at = after_comma(text, start)?;
    let direction = match text[at % REACH] {
        b'0' => Direction::Read,
        b'1' => Direction::Write,
        b'2' => Direction::Trim,
        _ => return None,
    };
    let (block_size_bytes, at) = number_at(text, after_comma(text, at + 1)?)?;
    matches!(text[at % REACH], b',' | b'\n').then_some(Head { block_size_bytes, length: at + 1 - start, direction })
}

/// Length of the last `columns`, which begin after the comma before `start`.
#[inline(always)]
fn rest_length(text: &Reach, start: usize, columns: usize) -> Option<usize> {
    let mut at = start - 1;
    for _ in 0..columns {
        at = skip_number(text, after_comma(text, at)?)?;
    }
    let end = match text[at % REACH..] {
        [b'\n', ..] => at + 1,
        // A log that went through Windows.
        [b'\r', b'\n', ..] => at + 2,
        _ => return None,
    };
    (at < REACH).then_some(end - start)
}

#[inline(always)]
fn after_comma(text: &Reach, at: usize) -> Option<usize> {
    let from = at % REACH;
    (text[from] == b',' && text[from + 1] == b' ').then_some(at + 2)
}

/// Where the number at `at` ends: decimal, or hexadecimal of four digits as `log_prio` writes it.
#[inline(always)]
fn skip_number(text: &Reach, at: usize) -> Option<usize> {
    let (_, end) = number_at(text, at)?;
    let from = end % REACH;
    if text[from] != b'x' {
        return Some(end);
    }
    let hex = text[from + 1..from + 5].iter().all(u8::is_ascii_hexdigit);
    (hex && end == at + 1 && text[at % REACH] == b'0').then_some(end + 5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::read_careful;
    use proptest::prelude::*;

    fn usual(line: &str, columns: usize, both_values: bool) -> Option<(Row, usize)> {
        let mut text = [b'9'; 2 * REACH];
        text[..line.len()].copy_from_slice(line.as_bytes());
        let layout = Layout { columns, both_values };
        let mut tails = TailMemory::new();
        let first = read_fast_line(&text, layout, &mut tails);
        let remembered = read_fast_line(&text, layout, &mut tails);
        assert_eq!(first, remembered, "{line:?}");
        first
    }

    #[test]
    fn lines_of_every_version_are_usual() {
        for (line, columns, both) in [
            ("0, 9554, 0, 4096\n", 4, false),
            ("0, 9554, 0, 4096, 0\n", 5, false),
            ("0, 9554, 0, 4096, 0\r\n", 5, false),
            ("1795221712414, 9384, 1, 4096, 0x4004\n", 5, false),
            ("999, 581, 2, 4096, 671744, 0\n", 6, false),
            ("999, 581, 2, 4096, 99999999999, 0x0000\n", 6, false),
            ("100, 581, 700, 1, 0, 0\n", 6, true),
            ("1, 581, 0, 4096, 671744, 0, 123456789012\n", 7, false),
        ] {
            let (row, length) = usual(line, columns, both).expect(line);
            assert_eq!(length, line.len());
            let layout = Layout { columns, both_values: both };
            let text = line.trim_end().as_bytes();
            assert_eq!(Ok(row), read_careful(text, layout));
        }
    }

    #[test]
    fn other_lines_are_left_to_the_careful_path() {
        for line in [
            "0,9554,0,4096,0\n",
            "0, 9554, 0, 4096, 0\r\r\n",
            "0, 9554, 3, 4096, 0\n",
            "0, -9554, 0, 4096, 0\n",
            "0, 9554, 0, 4096, 0, 0\n",
            "0, 9554, 0, 4096\n",
            "0, 9554, 0, 4096, 0x1\n",
            "0, 1234567890123456, 0, 4096, 0\n",
            "1, 2, 0, 1234567890123456, 0\n",
            "123456789012345, 123456789012345, 0, 123456789012345, 0x0000, 0\n",
            "\n",
        ] {
            assert_eq!(usual(line, 5, false), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_usual_the_careful_path_reads_alike(
            line in "[0-9]{1,16}, [0-9]{1,9}, [0-3], [0-9]{1,9}(, (0x[0-9a-f]{4}|[0-9]{1,12})){0,4}",
            columns in 4_usize..9,
            both: bool,
        ) {
            let with_feed = format!("{line}\n");
            prop_assume!(with_feed.len() < 2 * REACH && !(both && columns < 5));
            let layout = Layout { columns, both_values: both };
            let careful = read_careful(line.as_bytes(), layout);
            if let Some((row, length)) = usual(&with_feed, columns, both) {
                prop_assert_eq!(Ok(row), careful);
                prop_assert_eq!(length, with_feed.len());
            }
        }
    }
}
