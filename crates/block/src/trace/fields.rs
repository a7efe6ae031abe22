//! The fields of a line, read from left to right without allocation, eight bytes at once.
//!
//! Eight digits become a number without a loop (D. Lemire, "Number parsing at a gigabyte per second", Software: Practice
//! and Experience, 2021): a loop whose length changes from line to line costs more than what it reads.

use super::decimal::{POWERS_OF_TEN, Unit, scaled};
use super::lines::{Line, is_white};
use crate::Fault;

/// Size of the sectors that traces count in, whatever the drive's are.
pub(super) const SECTOR_BYTES: u64 = 512;

const WHOLE: &str = "a whole number from 0 to 18446744073709551615";
const DECIMAL: &str = "a decimal number such as 12.345, without sign or exponent";
const TIME_LIMIT: &str = "times must be below 2^64 ns (584 years)";

/// Reads fields that `SEPARATOR` divides: a comma, with white space around fields allowed, or
/// white space, of which any amount divides.
///
/// Each kind of field is read in two ways: at once, if it is short and what follows is its separator or the line's end,
/// and else step by step.
pub(super) struct Fields<'a, const SEPARATOR: u8> {
    line: Line<'a>,
    /// Where the next field begins, or white space before it.
    at: usize,
}

/// Fields between spaces or tabulators.
pub(super) type Spaces<'a> = Fields<'a, b' '>;

impl<'a, const SEPARATOR: u8> Fields<'a, SEPARATOR> {
    #[inline(always)]
    pub(super) fn new(line: Line<'a>) -> Self {
        Self { line, at: 0 }
    }

    #[inline(always)]
    pub(super) fn whole(&mut self, column: &'static str) -> Result<u64, Fault> {
        if let Some(word) = self.line.word(self.at) {
            let digit = u64::from((word as u8).wrapping_sub(b'0'));
            if digit <= 9 && (word >> 8) as u8 == SEPARATOR && self.at + 1 < self.line.len() {
                self.at += 2;
                return Ok(digit);
            }
            let (number, count) = eight_digits(word);
            if count > 0 && self.ends_behind(count) {
                return Ok(number);
            }
        }
        self.whole_in_steps(column)
    }

    #[inline(never)]
    fn whole_in_steps(&mut self, column: &'static str) -> Result<u64, Fault> {
        let start = self.skip_blanks(self.at);
        let read = digits(self.line, start);
        let Some((number, next)) = read.and_then(|(number, end)| Some((number, self.next_field(end)?))) else {
            return Err(self.fault(start, column, WHOLE));
        };
        self.at = next;
        Ok(number)
    }

    /// A decimal number of a unit of time, as nanoseconds; digits below a nanosecond are dropped.
    #[inline(always)]
    pub(super) fn time(&mut self, column: &'static str, unit: Unit) -> Result<u64, Fault> {
        if let Some(word) = self.line.word(self.at) {
            let (whole, count) = eight_digits(word);
            if count < 8 && (word >> (8 * count)) as u8 == b'.' && count > 0 {
                if let Some(word) = self.line.word(self.at + count + 1) {
                    let (fraction, places) = eight_digits(word);
                    if places <= unit.digits() && self.ends_behind(count + 1 + places) {
                        // Below 10^8 units, and so below 10^17 ns.
                        return Ok(whole * unit.nanoseconds() + fraction * POWERS_OF_TEN[unit.digits() - places]);
                    }
                }
            }
        }
        self.time_in_steps(column, unit)
    }

    #[inline(never)]
    fn time_in_steps(&mut self, column: &'static str, unit: Unit) -> Result<u64, Fault> {
        let start = self.skip_blanks(self.at);
        let Some((whole, mut end)) = digits(self.line, start) else {
            return Err(self.fault(start, column, DECIMAL));
        };
        let (mut fraction, mut fraction_digits) = (0, 0);
        if self.line.byte(end) == Some(b'.') {
            (fraction, fraction_digits, end) = fraction_at(self.line, end + 1);
        }
        let Some(next) = self.next_field(end) else {
            return Err(self.fault(start, column, DECIMAL));
        };
        let Some(time_ns) = scaled(whole, fraction, fraction_digits, unit) else {
            return Err(Fault::overflow(column, self.line.part(start, end), TIME_LIMIT));
        };
        self.at = next;
        Ok(time_ns)
    }

    /// Passes over so many bytes of a field, if the field ends behind them.
    #[inline(always)]
    fn ends_behind(&mut self, count: usize) -> bool {
        let end = self.at + count;
        match self.line.byte(end) {
            None => self.at = end,
            Some(byte) if byte == SEPARATOR => self.at = end + 1,
            Some(_) => return false,
        }
        true
    }

    /// A whole number of steps of time, as nanoseconds.
    #[inline(always)]
    pub(super) fn ticks(&mut self, column: &'static str, tick_ns: u64) -> Result<u64, Fault> {
        ticks(column, self.whole(column)?, tick_ns)
    }

    /// A whole number of units of so many bytes, as bytes.
    #[inline(always)]
    pub(super) fn bytes(&mut self, column: &'static str, unit_bytes: u64) -> Result<u64, Fault> {
        units(column, self.whole(column)?, unit_bytes)
    }

    #[inline(always)]
    pub(super) fn device(&mut self, column: &'static str) -> Result<u32, Fault> {
        device(column, self.whole(column)?)
    }

    /// The next field, if it is a single byte.
    #[inline(always)]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = self.line.byte(self.at)?;
        (!is_white(byte) && byte != SEPARATOR && self.ends_behind(1)).then_some(byte)
    }

    /// The next field as it stands, without white space around it.
    #[inline(always)]
    pub(super) fn text(&mut self, column: &'static str) -> Result<&'a [u8], Fault> {
        let start = self.skip_blanks(self.at);
        let end = self.end_of(start);
        let field = self.line.part(start, self.without_blanks(start, end));
        if field.is_empty() {
            return Err(self.fault(start, column, "something"));
        }
        self.at = self.next_field(end).unwrap_or(end);
        Ok(field)
    }

    /// Passes over a field, which may be empty; returns false where there is none.
    pub(super) fn pass(&mut self) -> bool {
        let more = self.more();
        if more {
            let end = self.end_of(self.skip_blanks(self.at));
            self.at = self.next_field(end).unwrap_or(end);
        }
        more
    }

    /// What has not been read.
    #[inline(always)]
    pub(super) fn remaining(&self) -> &'a [u8] {
        self.line.part(self.skip_blanks(self.at), self.line.len())
    }

    /// Whether nothing stands in the next field, behind which others are.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.line.byte(self.skip_blanks(self.at)) == Some(SEPARATOR)
    }

    /// Whether there is another field.
    #[inline(always)]
    pub(super) fn more(&self) -> bool {
        self.at < self.line.len()
    }

    /// An error unless all fields were read.
    pub(super) fn end(&self, wanted: &str) -> Result<(), Fault> {
        if self.more() { Err(self.columns(wanted)) } else { Ok(()) }
    }

    /// The error for too many or too few columns.
    #[cold]
    pub(super) fn columns(&self, wanted: &str) -> Fault {
        Fault::Columns { seen: count::<SEPARATOR>(&self.line), wanted: wanted.into() }
    }

    #[inline(always)]
    fn skip_blanks(&self, from: usize) -> usize {
        let mut at = from;
        while matches!(self.line.byte(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        at
    }

    /// Where a field ends that has no white space at its end.
    #[inline(always)]
    fn without_blanks(&self, start: usize, mut end: usize) -> usize {
        while end > start && is_white(self.line[end - 1]) {
            end -= 1;
        }
        end
    }

    /// Where the field behind the one that ends at `end` begins; nothing if it does not end there.
    #[inline(always)]
    fn next_field(&self, end: usize) -> Option<usize> {
        let Some(byte) = self.line.byte(end) else {
            return Some(end);
        };
        // A comma at the very end opens a last field, which is empty.
        if is_separator::<SEPARATOR>(byte) {
            return Some(end + 1);
        }
        let at = self.skip_blanks(end);
        match self.line.byte(at) {
            None => Some(at),
            Some(b',') if SEPARATOR == b',' => Some(at + 1),
            Some(_) => None,
        }
    }

    #[inline(always)]
    fn end_of(&self, start: usize) -> usize {
        if let Some(word) = self.line.word(start) {
            let length = bytes_before::<SEPARATOR>(word);
            if length < 8 {
                return self.line.len().min(start + length);
            }
        }
        let rest = self.line.part(start, self.line.len());
        let length = rest.iter().position(|&byte| is_separator::<SEPARATOR>(byte));
        start + length.unwrap_or(rest.len())
    }

    #[cold]
    fn fault(&self, start: usize, column: &'static str, wanted: &'static str) -> Fault {
        if start >= self.line.len() {
            let line: &[u8] = &self.line;
            let seen = count::<SEPARATOR>(line.strip_suffix(b",").unwrap_or(line));
            return Fault::Columns { seen, wanted: format!("{column} as the next") };
        }
        let end = self.without_blanks(start, self.end_of(start));
        Fault::field(column, self.line.part(start, end), wanted)
    }
}

fn is_separator<const SEPARATOR: u8>(byte: u8) -> bool {
    byte == SEPARATOR || SEPARATOR == b' ' && byte == b'\t'
}

/// How many fields a line has.
fn count<const SEPARATOR: u8>(line: &[u8]) -> usize {
    let fields = line.split(|&byte| is_separator::<SEPARATOR>(byte));
    fields.filter(|field| SEPARATOR == b',' || !field.is_empty()).count()
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x80 * ONES;

/// How many of eight bytes stand before the first separator.
#[inline(always)]
fn bytes_before<const SEPARATOR: u8>(word: u64) -> usize {
    let equal = |byte: u8| {
        let zero_where_equal = word ^ (u64::from(byte) * ONES);
        zero_where_equal.wrapping_sub(ONES) & !zero_where_equal
    };
    let separators = if SEPARATOR == b' ' { equal(b' ') | equal(b'\t') } else { equal(SEPARATOR) };
    (separators & HIGH_BITS).trailing_zeros() as usize / 8
}

/// The number that the first of eight bytes are, and how many of them are digits.
#[inline(always)]
fn eight_digits(word: u64) -> (u64, usize) {
    let values = word ^ (u64::from(b'0') * ONES);
    // A byte above 9 gets its high bit. Its carry can only change bytes behind it.
    let others = (values.wrapping_add(0x76 * ONES) | values) & HIGH_BITS;
    let count = others.trailing_zeros() as usize / 8;
    // The digits that are there become the last ones, behind zeros: in two steps, as no shift is by 64 bits.
    let half = 4 * (8 - count);
    let digits = values << half << half;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let even = (pairs & 0xff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let odd = ((pairs >> 16) & 0xff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    (even.wrapping_add(odd) >> 32, count)
}

/// The number at a place and where it ends; nothing without a digit or beyond 64 bits.
#[inline(always)]
fn digits(line: Line<'_>, start: usize) -> Option<(u64, usize)> {
    let Some(word) = line.word(start) else {
        return more_digits(line, start, 0).filter(|(_, end)| *end > start);
    };
    let (number, count) = eight_digits(word);
    if count < 8 {
        return (count > 0).then_some((number, start + count));
    }
    let Some(word) = line.word(start + 8) else {
        return more_digits(line, start + 8, number);
    };
    let (rest, count) = eight_digits(word);
    let number = number * POWERS_OF_TEN[count] + rest;
    if count < 8 { Some((number, start + 8 + count)) } else { more_digits(line, start + 16, number) }
}

/// A number that goes on at a place, and where it ends; nothing beyond 64 bits.
fn more_digits(line: Line<'_>, start: usize, number: u64) -> Option<(u64, usize)> {
    let (mut at, mut number) = (start, number);
    while let Some(digit @ b'0'..=b'9') = line.byte(at) {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        at += 1;
    }
    Some((number, at))
}

/// Nine digits behind a point at most, how many there are, and where all of them end.
#[inline(always)]
fn fraction_at(line: Line<'_>, start: usize) -> (u64, usize, usize) {
    let (mut number, mut kept) = line.word(start).map_or((0, 0), eight_digits);
    let mut at = start + kept;
    if kept == 0 || kept == 8 {
        while let Some(digit @ b'0'..=b'9') = line.byte(at) {
            if kept < 9 {
                number = number * 10 + u64::from(digit - b'0');
                kept += 1;
            }
            at += 1;
        }
    }
    (number, kept, at)
}

/// A number of units; nothing of it may be beyond 64 bits.
#[inline(always)]
fn product(column: &'static str, number: u64, unit: u64, limit: &'static str) -> Result<u64, Fault> {
    number.checked_mul(unit).ok_or_else(|| too_large(column, number, limit))
}

#[cold]
fn too_large(column: &'static str, number: u64, limit: &'static str) -> Fault {
    Fault::overflow(column, number.to_string().as_bytes(), limit)
}

#[inline(always)]
pub(super) fn device(column: &'static str, number: u64) -> Result<u32, Fault> {
    u32::try_from(number).map_err(|_| too_large(column, number, "it must be below 2^32"))
}

/// A hexadecimal number below 2^32, perhaps with `0x` before it.
pub(super) fn hexadecimal(field: &[u8]) -> Option<u32> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    let digits = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(digits, 16).ok()
}

/// A number of steps of time, as nanoseconds.
#[inline(always)]
pub(super) fn ticks(column: &'static str, number: u64, tick_ns: u64) -> Result<u64, Fault> {
    product(column, number, tick_ns, TIME_LIMIT)
}

/// A number of units of so many bytes, as bytes.
#[inline(always)]
pub(super) fn units(column: &'static str, number: u64, unit_bytes: u64) -> Result<u64, Fault> {
    product(column, number, unit_bytes, "it must be below 2^64 bytes")
}

/// A number of sectors, as bytes.
#[inline(always)]
pub(super) fn sectors(column: &'static str, number: u64) -> Result<u64, Fault> {
    units(column, number, SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text with what stands behind it in the buffer, and alone.
    fn numbers(text: &str) -> [Option<(u64, usize)>; 2] {
        let buffer = format!("{text}\n1234567890123456");
        let lines = [Line::of(buffer.as_bytes()), Line::of(text.as_bytes())];
        lines.map(|line| digits(line, 0))
    }

    #[test]
    fn numbers_of_all_lengths_are_read_and_end_where_their_digits_do() {
        for length in 1..=19 {
            let text = "9182736450192837465"[..length].to_string();
            for behind in ["", " 7", ",8", ".5", "\r", "x", "\u{7f}", "\u{e9}"] {
                let wanted = Some((text.parse().unwrap(), length));
                assert_eq!(numbers(&format!("{text}{behind}")), [wanted; 2], "{text}{behind}");
            }
        }
        for text in ["18446744073709551615", "00000000000000000000000000000001"] {
            assert_eq!(numbers(text)[0], Some((text.parse().unwrap(), text.len())));
        }
        for none in ["", "x", "/", ":", "-1", "18446744073709551616", "99999999999999999999"] {
            assert_eq!(numbers(none), [None; 2], "{none}");
        }
    }

    #[test]
    fn nine_digits_of_a_fraction_are_kept() {
        for (text, kept) in [("5", 5), ("12345678", 12_345_678), ("1234567891", 123_456_789), ("", 0)] {
            for line in [text.to_string(), format!("{text} 0 8 16 1")] {
                let seen = fraction_at(Line::of(line.as_bytes()), 0);
                assert_eq!(seen, (kept, text.len().min(9), text.len()), "{line}");
            }
        }
    }
}
