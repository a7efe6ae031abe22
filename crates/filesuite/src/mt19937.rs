//! The Mersenne Twister MT19937-64, for the order of random tests. Nothing here is for secrets.
//!
//! After Nishimura, "Tables of 64-bit Mersenne Twisters" (ACM TOMACS 10(4), 2000), and Matsumoto and
//! Nishimura's seeding by an array of 2002.

const N: usize = 312;
const M: usize = 156;
const MATRIX: u64 = 0xB502_6F5A_A966_19E9;
const UPPER: u64 = 0xFFFF_FFFF_8000_0000;
const LOWER: u64 = 0x7FFF_FFFF;

/// Seed of the order, if none is given: the one that IOzone uses.
pub const USUAL_SEED: [u64; 4] = [0x12345, 0x23456, 0x34567, 0x45678];

/// A generator of whole numbers, evenly from 0 to 2^64 - 1.
pub struct Mt19937 {
    state: [u64; N],
    next: usize,
}

impl Mt19937 {
    /// Seeded by an array of at least one number.
    pub fn from_key(key: &[u64]) -> Self {
        let mut state = Self::linear(19_650_218);
        let mut i = 1;
        for step in 0..N.max(key.len()) {
            let j = step % key.len();
            state[i] = (state[i] ^ folded(state[i - 1]).wrapping_mul(3_935_559_000_370_003_845))
                .wrapping_add(key[j])
                .wrapping_add(j as u64);
            i = onward(&mut state, i);
        }
        for _ in 0..N - 1 {
            state[i] = (state[i] ^ folded(state[i - 1]).wrapping_mul(2_862_933_555_777_941_757)).wrapping_sub(i as u64);
            i = onward(&mut state, i);
        }
        state[0] = 1 << 63;
        Self { state, next: N }
    }

    fn linear(seed: u64) -> [u64; N] {
        let mut state = [seed; N];
        for i in 1..N {
            state[i] = folded(state[i - 1]).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i as u64);
        }
        state
    }

    pub fn draw(&mut self) -> u64 {
        if self.next == N {
            self.refill();
        }
        let mut x = self.state[self.next];
        self.next += 1;
        x ^= (x >> 29) & 0x5555_5555_5555_5555;
        x ^= (x << 17) & 0x71D6_7FFF_EDA6_0000;
        x ^= (x << 37) & 0xFFF7_EEE0_0000_0000;
        x ^ (x >> 43)
    }

    fn refill(&mut self) {
        for i in 0..N {
            let x = (self.state[i] & UPPER) | (self.state[(i + 1) % N] & LOWER);
            let twist = if x & 1 == 1 { MATRIX } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (x >> 1) ^ twist;
        }
        self.next = 0;
    }
}

fn folded(x: u64) -> u64 {
    x ^ (x >> 62)
}

/// The place after `i`; past the end it is 1, and the last number stands before it.
fn onward(state: &mut [u64; N], i: usize) -> usize {
    if i + 1 < N {
        return i + 1;
    }
    state[0] = state[N - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::{Mt19937, USUAL_SEED};

    #[test]
    fn draws_the_published_numbers() {
        let mut generator = Mt19937::from_key(&USUAL_SEED);
        let wanted = [
            7_266_447_313_870_364_031,
            4_946_485_549_665_804_864,
            16_945_909_448_695_747_420,
            16_394_063_075_524_226_720,
            4_873_882_236_456_199_058_u64,
        ];
        for value in wanted {
            assert_eq!(generator.draw(), value);
        }
    }

    #[test]
    fn a_key_longer_than_the_state_is_used_whole() {
        let mut key: Vec<u64> = (0..400).collect();
        let first = Mt19937::from_key(&key).draw();
        key[399] = 1;
        assert_ne!(Mt19937::from_key(&key).draw(), first);
    }
}
