//! Random numbers that are the same on every machine and for ever.
//!
//! The generator is xoshiro256++ 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS
//! 47(4), 2021), its state filled by `SplitMix64` as its authors advise. Both are written out and logarithms come from the crate `libm`, so that no update of a library and no processor changes a trace that was made from a seed.

use crate::split_mix::{SplitMix64, mixed};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Chance([u64; 4]);

impl Chance {
    /// Stream number `stream` of a seed. Each property of a request has a stream of its own, so
    /// that a recipe with other arrivals has the same addresses.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut state = SplitMix64(mixed(seed ^ mixed(stream)));
        Self(std::array::from_fn(|_| state.next()))
    }

    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform from 0 (included) to 1 (not), a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// A whole number below `n`, all equally likely (Lemire, "Fast random integer generation in an
    /// interval", ACM TOMACS 29(1), 2019). `n` is at least 1.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.bits()) * u128::from(n);
        if (product as u64) < n {
            let biased = n.wrapping_neg() % n;
            while (product as u64) < biased {
                product = u128::from(self.bits()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Exponentially distributed with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normally distributed with mean 0 and deviation 1 (Marsaglia's polar method; its second
    /// number is left unused, so that one call does not depend on the one before).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * libm::sqrt(-2.0 * libm::log(square) / square);
            }
        }
    }
}

/// A whole number of at least 1 with a given mean, geometrically distributed: an exponential
/// length, rounded up, whose mean is nevertheless what was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Geometric {
    /// `1 / ln(1 - 1/mean)`; 0 for a mean of 1.
    scale: f64,
}

impl Geometric {
    /// `mean` is at least 1.
    pub fn of_mean(mean: f64) -> Self {
        let scale = if mean > 1.0 { libm::log1p(-1.0 / mean).recip() } else { 0.0 };
        Self { scale }
    }

    #[inline]
    pub fn draw(self, chance: &mut Chance) -> u64 {
        let further = libm::floor(-chance.exponential() * self.scale);
        1_u64.saturating_add(further as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_xoshiro256_plus_plus() {
        // The first outputs of the authors' program for the state 1, 2, 3, 4.
        let mut chance = Chance([1, 2, 3, 4]);
        let wanted = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386, 9_228_616_714_210_784_205];
        assert_eq!(wanted.map(|_| chance.bits()), wanted);
    }

    #[test]
    fn numbers_below_a_bound_are_all_equally_likely() {
        let mut chance = Chance::new(3, 0);
        let mut seen = [0_i32; 7];
        for _ in 0..70_000 {
            seen[chance.below(7) as usize] += 1;
        }
        let chi_square: f64 = seen.iter().map(|&n| f64::from(n - 10_000).powi(2) / 1e4).sum();
        assert!(chi_square < 22.5, "6 degrees of freedom, 0.1 %: {seen:?}");
    }

    #[test]
    fn a_geometric_length_has_its_mean() {
        for mean in [1.0, 1.5, 8.0, 100.0] {
            let mut chance = Chance::new(5, 0);
            let length = Geometric::of_mean(mean);
            let sum: u64 = (0..200_000).map(|_| length.draw(&mut chance)).sum();
            let seen = sum as f64 / 2e5;
            assert!((seen / mean - 1.0).abs() < 0.01, "{seen}, expected {mean}");
        }
    }
}
