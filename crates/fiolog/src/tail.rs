//! A memory of the ends of lines that were read.
//!
//! After time and value, the lines of a log repeat each other: `, 0, 4096, 0` again and again, or one of a few.
//! Comparing a word or two with what was seen before takes a fraction of the instructions of reading the numbers again.

use crate::Direction;
use crate::digits::{Reach, word_at};

/// Longest text of direction and block size that is remembered.
const LONGEST_HEAD: usize = 16;
const PLACES: usize = 32;

/// Direction and block size, and how many bytes they take: from the end of the value up to and
/// including the comma or line feed after the block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub block_size_bytes: u64,
    pub length: usize,
    pub direction: Direction,
}

/// A head that was seen. 64 bytes, so that a place is found without a multiplication.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Place {
    words: [u64; 2],
    masks: [u64; 2],
    head: Head,
}

/// Heads and rests that were seen in one log.
pub(crate) struct TailMemory {
    places: Box<[Place; PLACES]>,
    rest: (u64, u64),
    rest_length: usize,
}

impl TailMemory {
    pub(crate) fn new() -> Self {
        let head = Head { block_size_bytes: 0, length: 0, direction: Direction::Read };
        // A word that no masked text is: a place without a head is never found.
        let empty = Place { words: [1; 2], masks: [0; 2], head };
        Self { places: Box::new([empty; PLACES]), rest: (1, 0), rest_length: 0 }
    }

    /// The head at `at`, from memory or as `read` reads it.
    #[inline(always)]
    pub(crate) fn head_or(&mut self, text: &Reach, at: usize, read: impl FnOnce() -> Option<Head>) -> Option<Head> {
        let words = [word_at::<0>(text, at), word_at::<8>(text, at)];
        // Fibonacci hashing (Knuth, volume 3, section 6.4) of the direction and the first digits.
        let place = &mut self.places[(words[0].wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize];
        let differing = ((words[0] & place.masks[0]) ^ place.words[0]) | ((words[1] & place.masks[1]) ^ place.words[1]);
        if differing == 0 {
            return Some(place.head);
        }
        let head = read()?;
        if head.length <= LONGEST_HEAD {
            let masks = [mask(head.length.min(8)), mask(head.length.saturating_sub(8))];
            *place = Place { words: [words[0] & masks[0], words[1] & masks[1]], masks, head };
        }
        Some(head)
    }

    /// The length of what follows the head, line feed included, from memory or as `read` finds it.
    #[inline(always)]
    pub(crate) fn rest_or(&mut self, text: &Reach, at: usize, read: impl FnOnce() -> Option<usize>) -> Option<usize> {
        let word = word_at::<0>(text, at);
        if word & self.rest.1 == self.rest.0 {
            return Some(self.rest_length);
        }
        let length = read()?;
        if length <= 8 {
            self.rest = (word & mask(length), mask(length));
            self.rest_length = length;
        }
        Some(length)
    }
}

/// The first `bytes` (0 to 8) of a little-endian word.
fn mask(bytes: usize) -> u64 {
    if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
}
