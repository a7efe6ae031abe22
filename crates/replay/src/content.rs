//! What is written: random bytes, in which the beginning of each sector belongs to one write at one place, so that
//! neither compression nor deduplication finds anything.

use ioassay_block::SplitMix64;

/// Granularity of the marks: the smallest block that deduplication looks at.
pub const SECTOR: usize = 512;

/// The first bytes of sector number `sector` of the target, as request `number` writes them. Of a write that begins
/// within a sector, the bytes from there on are taken for its sectors.
#[inline]
pub fn stamp(seed: u64, number: u64, sector: u64) -> [u8; 16] {
    let words = SplitMix64::at(seed, number);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&SplitMix64::at(words, sector).to_le_bytes());
    bytes[8..].copy_from_slice(&SplitMix64::at(!words, sector).to_le_bytes());
    bytes
}
