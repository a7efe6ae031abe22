//! The content of the file, record by record, and the check that the same comes back.
//!
//! The content is a function of the place in the file alone, whichever pass writes it, so that a record
//! read from a wrong place is noticed (with random content).

use crate::setup::{Check, Content};

/// Granularity of heads, and alignment of all buffers, as `O_DIRECT` wants it.
pub const PAGE: usize = 4096;
/// Random content repeats after about this number of bytes, but for the heads of its pages. More would no
/// longer fit the processor's cache, and measure memory; less would be found by compression.
const POOL_BYTES: usize = 256 * 1024;
const WORD: usize = 8;

/// Bytes that begin at a multiple of the page size.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn zeros(length: usize) -> Self {
        let bytes = vec![0_u8; length + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Self { bytes, start, length }
    }

    fn all(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    fn all_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// The user's buffers of one worker for one size of records.
pub struct Buffers {
    content: Content,
    check: Check,
    seed: u64,
    record_bytes: usize,
    /// Records side by side; record `i` of the file is `i` modulo their number.
    pool: Aligned,
    pooled: u64,
    incoming: Aligned,
    differing: Option<u64>,
}

impl Buffers {
    /// Buffers for records of `record_bytes`.
    pub fn new(content: Content, check: Check, seed: u64, record_bytes: usize) -> Self {
        let pooled = match content {
            Content::Random => POOL_BYTES.div_ceil(record_bytes),
            _ => 1,
        };
        let mut pool = Aligned::zeros(pooled * record_bytes);
        fill(pool.all_mut(), content, seed);
        Self {
            content,
            check,
            seed,
            record_bytes,
            pool,
            pooled: pooled as u64,
            incoming: Aligned::zeros(record_bytes),
            differing: None,
        }
    }

    /// What record `record` of the file is to hold.
    #[inline]
    pub fn outgoing(&mut self, record: u64) -> &[u8] {
        let start = (record % self.pooled) as usize * self.record_bytes;
        let (length, seed) = (self.record_bytes, self.seed);
        let slice = &mut self.pool.all_mut()[start..start + length];
        if self.content == Content::Random {
            for (at, word) in stamps(seed, record, length) {
                slice[at..at + WORD].copy_from_slice(&word);
            }
        }
        slice
    }

    #[inline]
    pub fn incoming(&mut self) -> &mut [u8] {
        self.incoming.all_mut()
    }

    /// Check what came in as record `record`, if that is asked for. The first that differs is remembered.
    #[inline]
    pub fn accept(&mut self, record: u64) {
        let right = match self.check {
            Check::Inside => self.is_right(record),
            Check::Whole => self.is_whole(record),
            Check::After | Check::Off => return,
        };
        if !right {
            self.differing.get_or_insert(record);
        }
    }

    /// The first record that differed since this was asked last.
    pub fn differing(&mut self) -> Option<u64> {
        self.differing.take()
    }

    fn is_right(&self, record: u64) -> bool {
        let read = self.incoming.all();
        let heads = || read.chunks(PAGE).filter(|page| page.len() >= WORD);
        match self.content {
            Content::Random => {
                let mut stamps = stamps(self.seed, record, self.record_bytes);
                stamps.all(|(at, word)| read[at..at + WORD] == word)
            }
            Content::Iozone | Content::Zeros => {
                let wanted = &self.pool.all()[..WORD.min(self.record_bytes)];
                heads().all(|page| &page[..WORD] == wanted)
            }
            Content::Fill(byte) => read.iter().all(|&seen| seen == byte),
        }
    }

    /// Whether all bytes that came in as record `record` are right; slower than `accept`.
    pub fn is_whole(&mut self, record: u64) -> bool {
        self.outgoing(record);
        let start = (record % self.pooled) as usize * self.record_bytes;
        self.pool.all()[start..start + self.record_bytes] == *self.incoming.all()
    }

    /// Read and write each page of the buffers once, so that no call meets one that is not there yet.
    pub fn touch(&mut self) {
        for buffer in [&mut self.pool, &mut self.incoming] {
            for byte in buffer.all_mut().iter_mut().step_by(PAGE) {
                *byte = std::hint::black_box(*byte);
            }
        }
    }
}

fn fill(bytes: &mut [u8], content: Content, seed: u64) {
    match content {
        Content::Zeros => {}
        Content::Fill(byte) => bytes.fill(byte),
        Content::Iozone => {
            // Any byte but 0, so that a hole is noticed.
            let byte = (stamp(seed, 0) as u8).max(1);
            for page in bytes.chunks_mut(PAGE) {
                let head = WORD.min(page.len());
                page[..head].fill(byte);
            }
        }
        Content::Random => {
            for (place, word) in bytes.chunks_mut(WORD).enumerate() {
                let drawn = stamp(!seed, place as u64).to_ne_bytes();
                word.copy_from_slice(&drawn[..word.len()]);
            }
        }
    }
}

/// The words at the heads of those pages of the file that begin in a record, and where each lies in the record.
#[inline]
fn stamps(seed: u64, record: u64, record_bytes: usize) -> impl Iterator<Item = (usize, [u8; WORD])> {
    let (start, end) = (record * record_bytes as u64, (record + 1) * record_bytes as u64);
    let heads = (start.next_multiple_of(PAGE as u64)..end.saturating_sub(WORD as u64 - 1)).step_by(PAGE);
    heads.map(move |head| ((head - start) as usize, stamp(seed, head).to_ne_bytes()))
}

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014) of a place: as good as random, and without a state.
fn stamp(seed: u64, place: u64) -> u64 {
    let mut z = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Buffers, PAGE};
    use crate::setup::{Check, Content};

    const ALL: [Content; 4] = [Content::Iozone, Content::Random, Content::Zeros, Content::Fill(7)];

    #[test]
    fn what_was_written_is_accepted_and_found_whole() {
        for content in ALL {
            for length in [1, 512, 4096, 5000, 8192, 1 << 20] {
                let mut buffers = Buffers::new(content, Check::Inside, 3, length);
                for record in [0, 1, 7, 1000] {
                    let written = buffers.outgoing(record).to_vec();
                    buffers.incoming().copy_from_slice(&written);
                    buffers.accept(record);
                    assert_eq!(buffers.differing(), None, "{content:?} {length} {record}");
                    assert!(buffers.is_whole(record));
                }
            }
        }
    }

    #[test]
    fn a_record_from_a_wrong_place_is_noticed() {
        let mut buffers = Buffers::new(Content::Random, Check::Inside, 3, 4096);
        let written = buffers.outgoing(5).to_vec();
        buffers.incoming().copy_from_slice(&written);
        buffers.accept(6);
        assert_eq!(buffers.differing(), Some(6));
        assert!(!buffers.is_whole(6));
    }

    #[test]
    fn iozone_writes_the_head_of_each_page_alone() {
        let mut buffers = Buffers::new(Content::Iozone, Check::Inside, 3, 2 * PAGE);
        let record = buffers.outgoing(9).to_vec();
        assert!(record[0] != 0 && record[..8].iter().all(|&byte| byte == record[0]));
        assert_eq!(record[..PAGE], record[PAGE..]);
        assert!(record[8..PAGE].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn only_a_filled_file_is_checked_to_the_last_byte_unless_all_are() {
        for (content, check, noticed) in [
            (Content::Fill(7), Check::Inside, true),
            (Content::Zeros, Check::Inside, false),
            (Content::Random, Check::Inside, false),
            (Content::Zeros, Check::Whole, true),
            (Content::Random, Check::Whole, true),
        ] {
            let mut buffers = Buffers::new(content, check, 3, PAGE);
            let mut written = buffers.outgoing(0).to_vec();
            written[PAGE - 1] ^= 1;
            buffers.incoming().copy_from_slice(&written);
            buffers.accept(0);
            assert_eq!(buffers.differing().is_some(), noticed);
        }
    }

    #[test]
    fn buffers_are_aligned_for_direct_transfers() {
        let mut buffers = Buffers::new(Content::Random, Check::Off, 3, 512);
        assert_eq!(buffers.incoming().as_ptr() as usize % PAGE, 0);
        assert_eq!(buffers.outgoing(3).as_ptr() as usize % 512, 0);
    }

    #[test]
    fn random_pages_do_not_repeat_within_a_file() {
        let mut buffers = Buffers::new(Content::Random, Check::Off, 3, PAGE);
        let mut pages: Vec<Vec<u8>> = (0..200).map(|record| buffers.outgoing(record).to_vec()).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 200);
    }
}
