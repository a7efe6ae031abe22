//! Maps by numbers of pages and requests. They hold what is in flight or buffered, so that somebody who
//! chose pages that collide would win little: a multiplication mixes them well enough, and takes a
//! fraction of the time of the standard library's hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers.
pub type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// 2^64 over the golden ratio: Knuth, The Art of Computer Programming, volume 3, section 6.4.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// One number, mixed.
#[derive(Debug, Default, Clone, Copy)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        // The map takes its place from the low bits and its mark from the high ones.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(FACTOR);
    }
}
