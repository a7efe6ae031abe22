//! The fields of a line, read from left to right without allocation.

use super::decimal::{Unit, scaled};
use crate::{Fault, Kind, Request};

/// Size of the sectors that traces count in, whatever the drive's are.
pub(super) const SECTOR_BYTES: u64 = 512;

const WHOLE: &str = "a whole number from 0 to 18446744073709551615";
const DECIMAL: &str = "a decimal number such as 12.345, without sign or exponent";

/// Reads fields that `SEPARATOR` divides: a comma, with white space around fields allowed, or
/// white space, of which any amount divides.
pub(super) struct Fields<'a, const SEPARATOR: u8> {
    line: &'a [u8],
    at: usize,
    seen: usize,
}

pub(super) type Commas<'a> = Fields<'a, b','>;
/// Fields between spaces or tabulators.
pub(super) type Spaces<'a> = Fields<'a, b' '>;

impl<'a, const SEPARATOR: u8> Fields<'a, SEPARATOR> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0, seen: 0 }
    }

    #[inline(always)]
    pub(super) fn whole(&mut self, column: &'static str) -> Result<u64, Fault> {
        let start = self.skip_blanks(self.at);
        let Some((number, end)) = digits(self.line, start) else {
            return Err(self.fault(start, column, WHOLE));
        };
        match self.next_field(end) {
            Some(next) => {
                self.enter(next);
                Ok(number)
            }
            None => Err(self.fault(start, column, WHOLE)),
        }
    }

    /// A decimal number of a unit of time, as nanoseconds; digits below a nanosecond are dropped.
    #[inline(always)]
    pub(super) fn time(&mut self, column: &'static str, unit: Unit) -> Result<u64, Fault> {
        let start = self.skip_blanks(self.at);
        let Some((whole, mut end)) = digits(self.line, start) else {
            return Err(self.fault(start, column, DECIMAL));
        };
        let (mut fraction, mut fraction_digits) = (0, 0);
        if self.line.get(end) == Some(&b'.') {
            let from = end + 1;
            (fraction, fraction_digits, end) = fraction_at(self.line, from);
        }
        let Some(next) = self.next_field(end) else {
            return Err(self.fault(start, column, DECIMAL));
        };
        let Some(time_ns) = scaled(whole, fraction, fraction_digits, unit) else {
            let limit = "times must be below 2^64 ns (584 years)";
            return Err(Fault::overflow(column, &self.line[start..end], limit));
        };
        self.enter(next);
        Ok(time_ns)
    }

    /// A time without a fraction, as nanoseconds.
    #[inline(always)]
    pub(super) fn whole_time(&mut self, column: &'static str, unit: Unit) -> Result<u64, Fault> {
        let number = self.whole(column)?;
        scaled(number, 0, 0, unit).ok_or_else(|| {
            let limit = "times must be below 2^64 ns (584 years)";
            Fault::overflow(column, number.to_string().as_bytes(), limit)
        })
    }

    /// The next field as it stands, without white space around it.
    #[inline(always)]
    pub(super) fn text(&mut self, column: &'static str) -> Result<&'a [u8], Fault> {
        let start = self.skip_blanks(self.at);
        let end = self.end_of(start);
        let field = without_white_space(&self.line[start..end]);
        if field.is_empty() {
            return Err(self.fault(start, column, "something"));
        }
        let next = self.next_field(end).unwrap_or(end);
        self.enter(next);
        Ok(field)
    }

    /// Passes over a field, which may be empty.
    pub(super) fn pass(&mut self) {
        if self.more() {
            let end = self.end_of(self.at);
            let next = self.next_field(end).unwrap_or(end);
            self.enter(next);
        }
    }

    /// How many fields were read.
    pub(super) fn read(&self) -> usize {
        self.seen
    }

    /// What has not been read.
    #[inline(always)]
    pub(super) fn remaining(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    /// Whether there is another field.
    #[inline(always)]
    pub(super) fn more(&self) -> bool {
        self.at < self.line.len()
    }

    /// An error unless all fields were read.
    #[inline(always)]
    pub(super) fn end(&self, wanted: &'static str) -> Result<(), Fault> {
        if self.more() {
            return Err(self.columns(wanted));
        }
        Ok(())
    }

    /// The error for too many or too few columns.
    #[cold]
    pub(super) fn columns(&self, wanted: &str) -> Fault {
        Fault::Columns { seen: count::<SEPARATOR>(self.line), wanted: wanted.into() }
    }

    #[inline(always)]
    fn enter(&mut self, next: usize) {
        self.at = next;
        self.seen += 1;
    }

    #[inline(always)]
    fn skip_blanks(&self, from: usize) -> usize {
        let mut at = from;
        while matches!(self.line.get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        at
    }

    /// Where the field behind the one that ends at `end` begins; nothing if it does not end there.
    #[inline(always)]
    fn next_field(&self, end: usize) -> Option<usize> {
        let at = self.skip_blanks(end);
        match self.line.get(at) {
            None => Some(at),
            // A comma at the very end opens a last field, which is empty.
            Some(b',') if SEPARATOR == b',' => Some(at + 1),
            Some(_) if SEPARATOR == b' ' && at > end => Some(at),
            Some(_) => None,
        }
    }

    fn end_of(&self, start: usize) -> usize {
        let rest = &self.line[start..];
        let length = if SEPARATOR == b',' {
            rest.iter().position(|&byte| byte == b',')
        } else {
            rest.iter().position(|&byte| matches!(byte, b' ' | b'\t'))
        };
        start + length.unwrap_or(rest.len())
    }

    #[cold]
    fn fault(&self, start: usize, column: &'static str, wanted: &'static str) -> Fault {
        if start >= self.line.len() {
            return Fault::Columns { seen: self.seen, wanted: format!("{column} as the next") };
        }
        let field = without_white_space(&self.line[start..self.end_of(start)]);
        Fault::field(column, field, wanted)
    }
}

/// How many fields a line has.
fn count<const SEPARATOR: u8>(line: &[u8]) -> usize {
    if SEPARATOR == b',' {
        return memchr::memchr_iter(b',', line).count() + 1;
    }
    line.split(|&byte| matches!(byte, b' ' | b'\t')).filter(|field| !field.is_empty()).count()
}

/// The number at a place and where it ends; nothing without a digit or beyond 64 bits.
#[inline(always)]
fn digits(line: &[u8], start: usize) -> Option<(u64, usize)> {
    let mut at = start;
    let mut number = 0_u64;
    // 19 digits always fit.
    while at < line.len() && at - start < 19 {
        let digit = line[at].wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number * 10 + u64::from(digit);
        at += 1;
    }
    while let Some(digit) = line.get(at).map(|byte| byte.wrapping_sub(b'0')) {
        if digit > 9 {
            break;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
        at += 1;
    }
    (at > start).then_some((number, at))
}

/// Nine digits behind a point at most, how many there are, and where all of them end.
#[inline(always)]
fn fraction_at(line: &[u8], start: usize) -> (u64, usize, usize) {
    let mut at = start;
    let mut number = 0_u64;
    let mut kept = 0;
    while let Some(digit) = line.get(at).map(|byte| byte.wrapping_sub(b'0')) {
        if digit > 9 {
            break;
        }
        if kept < 9 {
            number = number * 10 + u64::from(digit);
            kept += 1;
        }
        at += 1;
    }
    (number, kept, at)
}

/// The line without white space at its ends; a carriage return is some.
#[inline(always)]
pub(super) fn without_white_space(mut line: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r', rest @ ..] = line {
        line = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r'] = line {
        line = rest;
    }
    line
}

#[inline(always)]
pub(super) fn sectors(column: &'static str, number: u64) -> Result<u64, Fault> {
    number.checked_mul(SECTOR_BYTES).ok_or_else(|| too_many_sectors(column, number))
}

#[cold]
fn too_many_sectors(column: &'static str, number: u64) -> Fault {
    let limit = "it must be below 2^64 bytes";
    Fault::overflow(column, number.to_string().as_bytes(), limit)
}

#[inline(always)]
pub(super) fn device(column: &'static str, number: u64) -> Result<u32, Fault> {
    u32::try_from(number).map_err(|_| Fault::overflow(column, number.to_string().as_bytes(), "it must be below 2^32"))
}

/// A request whose range is in sectors.
#[inline(always)]
pub(super) fn sector_request(at_ns: u64, device: u32, first: u64, count: u64, kind: Kind) -> Result<Request, Fault> {
    Ok(Request { at_ns, offset_bytes: sectors("offset", first)?, length_bytes: sectors("size", count)?, device, kind })
}
