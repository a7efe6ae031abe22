//! Decimal numbers from text, eight digits at a time.
//!
//! The word trick (SWAR: SIMD within a register) follows Daniel Lemire, "Quickly parsing eight digits" (2018): eight
//! bytes in one `u64`, digits found by one addition and a mask, joined to a number by three multiplications.
//! No branch depends on the length of a number; a loop over digits loses its time there.

/// Longest number that is read by words; longer ones go the careful way.
const LONGEST: usize = 16;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Bytes that a number may begin in. Positions are cut to it, which spares a check of bounds at
/// every step: whoever walks past it finds any number, and must look where the walk has ended.
pub(crate) const REACH: usize = 64;

/// Text with room behind its reach for the words that begin within.
pub(crate) type Reach = [u8; 2 * REACH];

/// The number at `at`, and where it ends. Nothing if there is no digit or more than 15.
#[inline(always)]
pub(crate) fn number_at(text: &Reach, at: usize) -> Option<(u64, usize)> {
    let (first, digits) = word_digits(word_at::<0>(text, at));
    if digits == 0 {
        return None;
    }
    if digits < 8 {
        return Some((join(first, digits), at + digits));
    }
    let (second, more) = word_digits(word_at::<8>(text, at));
    if 8 + more >= LONGEST {
        return None;
    }
    let low = if more == 0 { 0 } else { join(second, more) };
    Some((join(first, 8) * POWERS_OF_TEN[more] + low, at + 8 + more))
}

const POWERS_OF_TEN: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Eight bytes, `PAST` bytes past a position.
#[inline(always)]
pub(crate) fn word_at<const PAST: usize>(text: &Reach, at: usize) -> u64 {
    let from = at % REACH + PAST;
    text[from..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The word with its digits as values 0 to 9, and how many of its first bytes are digits.
#[inline(always)]
fn word_digits(word: u64) -> (u64, usize) {
    let values = word ^ 0x3030_3030_3030_3030;
    // 0..=9 stay below 0x80 when 0x76 is added; all else reaches it or has the bit already. A carry
    // only runs towards later bytes, so the first byte that is no digit is always found.
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & HIGH_BITS;
    (values, (others.trailing_zeros() / 8) as usize)
}

/// Joins the first `digits` (1 to 8) bytes to a number.
#[inline(always)]
fn join(values: u64, digits: usize) -> u64 {
    // Leading zeros move in; what follows the number moves out. Then each multiplication adds
    // neighbours, the left one times 10, 100, 10000, and the shift drops what it left below.
    let ones = values << (64 - 8 * digits);
    let pairs = (ones.wrapping_mul((10 << 8) | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul((100 << 16) | 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul((10_000 << 32) | 1) >> 32
}

/// All of `text` as a number, or nothing if it is empty, has another byte than digits, or passes 2^64 - 1.
pub(crate) fn whole_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// All of `text` as a number, decimal or with `0x` before it.
pub(crate) fn whole_number_or_hex(text: &[u8]) -> Option<u64> {
    match text.strip_prefix(b"0x") {
        Some(hex) => u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok(),
        None => whole_number(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn padded(text: &str) -> Reach {
        let mut bytes = [b','; 2 * REACH];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn no_digit_is_no_number() {
        for text in ["", ",", " 1", "-1", "x", "/", ":"] {
            assert_eq!(number_at(&padded(text), 0), None, "{text:?}");
        }
    }

    #[test]
    fn overflow_is_no_number() {
        assert_eq!(whole_number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole_number(b"18446744073709551616"), None);
        assert_eq!(whole_number_or_hex(b"0x4004"), Some(0x4004));
        assert_eq!(whole_number_or_hex(b"0x"), None);
    }

    proptest! {
        #[test]
        fn words_agree_with_single_digits(number in 0_u64..1_000_000_000_000_000, after: u8) {
            let text = number.to_string();
            let mut bytes = padded(&text);
            bytes[text.len()] = if after.is_ascii_digit() { b' ' } else { after };
            prop_assert_eq!(number_at(&bytes, 0), Some((number, text.len())));
        }

        #[test]
        fn any_bytes_agree_with_single_digits(start: [u8; 24]) {
            let mut bytes = padded("");
            bytes[..24].copy_from_slice(&start);
            let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let wanted = whole_number(&bytes[..digits]).filter(|_| digits < LONGEST);
            prop_assert_eq!(number_at(&bytes, 0), wanted.map(|number| (number, digits)));
        }
    }
}
