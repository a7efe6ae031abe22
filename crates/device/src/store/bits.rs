//! A bit for each unit of the content.

use std::ops::Range;

pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn new(count: u64) -> Self {
        Self {
            words: vec![0; count.div_ceil(64) as usize],
        }
    }

    fn is_set(&self, bit: u64) -> bool {
        (self.words[(bit / 64) as usize] >> (bit % 64)) & 1 == 1
    }

    pub fn set(&mut self, bits: Range<u64>) {
        let mut bit = bits.start;
        while bit < bits.end {
            let word = bit / 64;
            let until = ((word + 1) * 64).min(bits.end);
            let width = until - bit;
            let ones = if width == 64 {
                u64::MAX
            } else {
                (1 << width) - 1
            };
            self.words[word as usize] |= ones << (bit % 64);
            bit = until;
        }
    }

    /// The first run of bits of a range that are not set.
    pub fn missing(&self, bits: Range<u64>) -> Option<Range<u64>> {
        let mut bits = bits;
        let start = bits.find(|&bit| !self.is_set(bit))?;
        let end = bits.find(|&bit| self.is_set(bit)).unwrap_or(bits.end);
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_missing_are_found() {
        let mut bits = Bits::new(300);
        assert_eq!(bits.missing(0..300), Some(0..300));
        bits.set(10..20);
        bits.set(60..200);
        assert_eq!(bits.missing(0..300), Some(0..10));
        assert_eq!(bits.missing(10..300), Some(20..60));
        assert_eq!(bits.missing(60..300), Some(200..300));
        assert_eq!(bits.missing(60..200), None);
        assert_eq!(bits.missing(5..5), None);
        bits.set(0..300);
        assert_eq!(bits.missing(0..300), None);
    }
}
