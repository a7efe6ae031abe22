//! One line of a value log: how its columns lie, and the careful way to read it, which finds the fault of a bad one.
//!
//! Columns by version of fio (`flush_samples` in iolog.c):
//!
//! | columns | layout |
//! |---|---|
//! | 4 | time, value, direction, block size (fio 2) |
//! | 5 | … and offset (fio 2 with `log_offset`), or … and priority (fio 3) |
//! | 6 | … offset, priority (fio 3 with `log_offset`) |
//! | 7 | … offset, priority, issue time (`log_issue_time`, fio 3.38) |
//!
//! `log_window_value=both` (fio 3.37) puts the window's maximum after its average, so one column
//! more; the average is read. The priority is 0 or 1, or hexadecimal with `log_prio`.

use crate::digits::{whole_number, whole_number_or_hex};
use crate::error::excerpt;
use crate::{Direction, Fault};

/// Columns of the widest layout: both values, offset, priority and issue time.
const MOST_COLUMNS: usize = 8;

/// How the columns of one log lie. All lines of a log have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Number of columns, 4 to 8.
    pub columns: usize,
    /// Whether average and maximum are both there.
    pub both_values: bool,
}

/// The columns of a line that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Row {
    pub time_ms: u64,
    pub value: u64,
    pub direction: Direction,
    pub block_size_bytes: u64,
}

impl Layout {
    /// Columns up to and including the block size.
    pub(crate) fn leading(self) -> usize {
        4 + usize::from(self.both_values)
    }

    /// The layout that `lines` (the first ones of a log) have, by the first that has a known number
    /// of columns. Both values are there if a third column is no direction and a fourth is one.
    pub(crate) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut layout: Option<Self> = None;
        for line in lines {
            let fields: Vec<Option<u64>> = fields(line).map(whole_number_or_hex).take(9).collect();
            let known = (4..=8).contains(&fields.len()) && fields.iter().all(Option::is_some);
            if !known || layout.is_some_and(|layout| layout.columns != fields.len()) {
                continue;
            }
            let both = fields.len() >= 6 && fields[2] > Some(2) && fields[3] <= Some(2);
            layout = Some(Self { columns: fields.len(), both_values: both });
            if both {
                break;
            }
        }
        layout
    }
}

/// Reads any line (without its line feed), or says what is wrong with it.
pub(crate) fn read_careful(line: &[u8], layout: Layout) -> Result<Row, Fault> {
    let mut places = [&line[..0]; MOST_COLUMNS];
    let mut seen = 0;
    for field in fields(line) {
        if let Some(place) = places.get_mut(seen) {
            *place = field;
        }
        seen += 1;
    }
    if seen != layout.columns {
        let wanted = format!("{} as in the other lines", layout.columns);
        return Err(Fault::Columns { seen, wanted });
    }
    let fields = &places[..seen];
    let time_ms = number("time", fields[0])?;
    let value = number("value", fields[1])?;
    if layout.both_values {
        number("maximum", fields[2])?;
    }
    let direction = direction(fields[layout.leading() - 2])?;
    let block_size_bytes = number("block size", fields[layout.leading() - 1])?;
    for field in &fields[layout.leading()..] {
        whole_number_or_hex(field).ok_or_else(|| fault("offset or priority", field, "a whole number"))?;
    }
    Ok(Row { time_ms, value, direction, block_size_bytes })
}

/// The fault of a log in which no line has a known layout, by its first line.
pub(crate) fn unknown_layout(line: &[u8]) -> Fault {
    let seen = fields(line).count();
    if !(4..=8).contains(&seen) {
        return Fault::Columns { seen, wanted: "4 to 8: time, value, direction, block size …".into() };
    }
    let layout = Layout { columns: seen, both_values: false };
    match read_careful(line, layout) {
        Err(fault) => fault,
        Ok(_) => Fault::Columns { seen, wanted: "the columns of fio's logs".into() },
    }
}

/// The fields of a line, without the white space around each.
pub(crate) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

pub(crate) fn number(column: &'static str, field: &[u8]) -> Result<u64, Fault> {
    whole_number(field).ok_or_else(|| fault(column, field, "a whole number from 0 to 18446744073709551615"))
}

pub(crate) fn direction(field: &[u8]) -> Result<Direction, Fault> {
    whole_number(field)
        .and_then(Direction::from_number)
        .ok_or_else(|| fault("direction", field, "0 (read), 1 (write) or 2 (trim)"))
}

fn fault(column: &'static str, field: &[u8], wanted: &'static str) -> Fault {
    Fault::Field { column, seen: excerpt(field, 24), wanted }
}
