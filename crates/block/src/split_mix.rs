//! The generator of random numbers: SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number
//! Generators", OOPSLA 2014). The same seed gives the same numbers everywhere and for ever.

const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator in the state that is its seed.
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The number at a place of the sequence of `seed`; `next` begins at place 1.
    #[inline]
    pub fn at(seed: u64, place: u64) -> u64 {
        mixed(seed.wrapping_add(place.wrapping_mul(GOLDEN_RATIO)))
    }

    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the numbers have no end, so an Option says nothing")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_RATIO);
        mixed(self.0)
    }

    /// A number below `bound`, by multiplication of the upper half: as even as addresses need.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// The same for bounds of any size.
    #[inline]
    pub fn below_wide(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// The finalizer: neighbouring words give unrelated ones.
#[inline]
pub fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn numbers_are_those_of_the_reference_program() {
        let mut numbers = SplitMix64(1_234_567);
        let wanted = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(wanted.map(|_| numbers.next()), wanted);
        assert_eq!([1, 2, 3].map(|place| SplitMix64::at(1_234_567, place)), wanted);
    }
}
