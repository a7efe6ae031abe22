//! Zipf's law over any number of things, without a table of them.

use super::chance::Chance;
use crate::split_mix::mixed;

/// Ranks from 1 to `n`, rank `k` with a probability in proportion to `k^-theta`.
///
/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", ACM TOMACS 6(3), 1996): exact for any `theta` above 0, and a little more than one try a number.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    theta: f64,
    n: u64,
    from: f64,
    to: f64,
    sure: f64,
}

impl Zipf {
    /// `n` is at least 1 and at most 2^53, `theta` is above 0.
    pub fn new(n: u64, theta: f64) -> Self {
        let mut zipf = Self { theta, n, from: 0.0, to: 0.0, sure: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(n as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    #[inline]
    pub fn draw(&self, chance: &mut Chance) -> u64 {
        loop {
            let u = self.to + chance.unit() * (self.from - self.to);
            let x = self.inverse(u);
            let rank = ((x + 0.5) as u64).clamp(1, self.n);
            let k = rank as f64;
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.density(k) {
                return rank;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// The integral of the density: `(x^(1-theta) - 1) / (1 - theta)`, and `ln x` for `theta` 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.theta) * log;
        let slope = if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t / 2.0 };
        slope * log
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.theta)).max(-1.0);
        let slope = if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t / 2.0 };
        libm::exp(slope * y)
    }
}

/// Scatters the ranks over the range: a permutation of the numbers below `n`, without a table.
///
/// Multiplications by odd numbers and shifted exclusive ors are permutations of the numbers of
/// `bits` bits; what falls beyond `n` is permuted again, which leaves a permutation of the rest.
#[derive(Debug, Clone, Copy)]
pub struct Scatter {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Scatter {
    /// `n` is at least 1; each seed has another permutation.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = (64 - (n - 1).leading_zeros()).max(1);
        Self {
            n,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            keys: [1, 2, 3].map(|round| mixed(seed ^ mixed(round)) | 1),
        }
    }

    /// Where the number `index` below `n` goes.
    #[inline]
    pub fn place(&self, index: u64) -> u64 {
        let mut place = index;
        loop {
            for key in self.keys {
                place = place.wrapping_mul(key).wrapping_add(key >> 1) & self.mask;
                place ^= place >> self.shift;
            }
            if place < self.n {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_is_a_permutation() {
        for n in [1, 2, 3, 63, 64, 65, 1000, 4099] {
            let scatter = Scatter::new(n, 7);
            let mut places: Vec<u64> = (0..n).map(|index| scatter.place(index)).collect();
            places.sort_unstable();
            assert!(places.iter().copied().eq(0..n), "{n}");
        }
    }

    #[test]
    fn ranks_follow_the_exact_law() {
        for (n, theta) in [(1, 0.9), (2, 1.0), (50, 0.2), (50, 0.99), (50, 1.0), (50, 2.5)] {
            let zipf = Zipf::new(n, theta);
            let mut chance = Chance::new(11, 0);
            let draws = 200_000.0;
            let mut seen = vec![0.0; n as usize];
            for _ in 0..draws as u64 {
                seen[zipf.draw(&mut chance) as usize - 1] += 1.0;
            }
            let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
            let sum: f64 = weights.iter().sum();
            let chi_square: f64 = weights
                .iter()
                .map(|weight| draws * weight / sum)
                .zip(&seen)
                .map(|(wanted, seen): (f64, &f64)| (seen - wanted).powi(2) / wanted)
                .sum();
            // 49 degrees of freedom exceed 85 once in a thousand seeds.
            assert!(chi_square < 85.0, "n {n}, theta {theta}: {chi_square}");
        }
    }

    #[test]
    fn a_range_of_petabytes_costs_no_more() {
        let zipf = Zipf::new(1 << 53, 0.99);
        let mut chance = Chance::new(1, 0);
        assert!((0..1000).all(|_| (1..=1 << 53).contains(&zipf.draw(&mut chance))));
    }
}
