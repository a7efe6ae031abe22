//! A bit for each unit of the content. Runs of bits are found, and nothing is counted.

use std::ops::Range;

pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn new(count: u64) -> Self {
        Self { words: vec![0; count.div_ceil(64) as usize] }
    }

    pub fn is_set(&self, bit: u64) -> bool {
        (self.words[(bit / 64) as usize] >> (bit % 64)) & 1 == 1
    }

    pub fn set(&mut self, bits: Range<u64>) {
        self.change(bits, |word, ones| *word |= ones);
    }

    pub fn clear(&mut self, bits: Range<u64>) {
        self.change(bits, |word, ones| *word &= !ones);
    }

    fn change(&mut self, bits: Range<u64>, change: impl Fn(&mut u64, u64)) {
        let mut bit = bits.start;
        while bit < bits.end {
            let word = bit / 64;
            let until = ((word + 1) * 64).min(bits.end);
            let width = until - bit;
            let ones = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            change(&mut self.words[word as usize], ones << (bit % 64));
            bit = until;
        }
    }

    /// The first run of bits of a range that are not set.
    pub fn missing(&self, bits: Range<u64>) -> Option<Range<u64>> {
        let start = self.run_end(true, bits.clone());
        (start < bits.end).then(|| start..self.run_end(false, start..bits.end))
    }

    /// Where the bits that are set, or not set, from the beginning of a range on end; at most its end.
    pub fn run_end(&self, is_set: bool, bits: Range<u64>) -> u64 {
        let mut bit = bits.start;
        while bit < bits.end {
            let word = self.words[(bit / 64) as usize];
            let others = if is_set { !word } else { word } >> (bit % 64);
            if others != 0 {
                return (bit + u64::from(others.trailing_zeros())).min(bits.end);
            }
            bit = (bit / 64 + 1) * 64;
        }
        bits.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_a_bit_by_bit_search_finds_it() {
        let mut bits = Bits::new(400);
        for (from, to) in [(3, 5), (63, 65), (128, 256), (300, 301), (330, 400)] {
            bits.set(from..to);
        }
        bits.clear(130..131);
        bits.clear(190..195);
        for from in 0..400 {
            for end in [from, from + 1, from + 63, from + 64, 400].map(|end| end.min(400)) {
                let run_end = |is_set, from| (from..end).find(|&bit| bits.is_set(bit) != is_set).unwrap_or(end);
                for is_set in [false, true] {
                    assert_eq!(bits.run_end(is_set, from..end), run_end(is_set, from), "{from} {end}");
                }
                let missing = run_end(true, from)..run_end(false, run_end(true, from));
                assert_eq!(bits.missing(from..end), Some(missing).filter(|run| !run.is_empty()), "{from} {end}");
            }
        }
    }
}
