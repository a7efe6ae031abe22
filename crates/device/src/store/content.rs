//! The present content of the drive, in memory that the system grants page by page.
//!
//! It is an anonymous mapping, so that a drive that nobody has written takes no memory, and what is
//! trimmed is given back.
#![allow(unsafe_code)]

use memmap2::{Advice, MmapMut, MmapOptions, UncheckedAdvice};

use crate::Error;

/// Ranges from here on are given back when they become zeroes; smaller ones are overwritten, which is faster than a
/// system call and its page faults.
const RELEASED_BYTES: usize = 256 * 1024;
const PAGE_BYTES: usize = 4096;

/// How much of a range is fetched ahead: the processor follows a stream by itself once it has begun.
const AHEAD_BYTES: usize = 256;
const LINE_BYTES: usize = 64;

/// Bytes that are zero at first.
pub struct Content(MmapMut);

impl Content {
    pub fn new(size_bytes: u64) -> Result<Self, Error> {
        let length =
            usize::try_from(size_bytes).map_err(|_| Error::option("size", size_bytes, "what a pointer can reach"))?;
        let mapped = MmapOptions::new().len(length).no_reserve_swap().map_anon();
        mapped.map(Self).map_err(|error| Error::system(format!("cannot map {size_bytes} bytes of memory"), error))
    }

    /// Its memory is granted in large pages where the system has them, as it is written: fewer of its addresses have
    /// to be looked up. The first write to each 2 MiB waits for that much to be zeroed.
    pub fn grant_large_pages(&mut self) {
        let _ = self.0.advise(Advice::HugePage); // without large pages small ones do
    }

    /// All its memory is granted now, in large pages where the system has them, so that no write waits for that.
    pub fn grant(&mut self) -> Result<(), Error> {
        self.grant_large_pages();
        match self.0.advise(Advice::PopulateWrite) {
            Ok(()) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {} // Linux knows it from 5.14 on
            Err(error) => return Err(Error::system("cannot have all memory at once", error)),
        }
        for page in self.bytes_mut().chunks_mut(PAGE_BYTES) {
            page[0] = std::hint::black_box(page[0]);
        }
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All of it, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// A range is about to be read, and something else happens first: its beginning, and its place in
    /// the tables of pages, come from memory meanwhile. Of a random page of 4 KiB this spares two fifths
    /// of the time that a copy takes.
    pub fn fetch(&self, from: usize, length: usize) {
        let ahead = self.bytes().get(from..from + length.min(AHEAD_BYTES));
        for line in ahead.unwrap_or_default().chunks(LINE_BYTES) {
            prefetch(line.as_ptr());
        }
    }

    pub fn zero(&mut self, from: usize, length: usize) {
        let first = from.next_multiple_of(PAGE_BYTES);
        let last = (from + length) / PAGE_BYTES * PAGE_BYTES;
        if length < RELEASED_BYTES || last <= first {
            self.bytes_mut()[from..from + length].fill(0);
            return;
        }
        self.bytes_mut()[from..first].fill(0);
        self.bytes_mut()[last..from + length].fill(0);
        // SAFETY: whole pages of the own mapping, borrowed mutably; they read as zeroes afterwards.
        let given_back = unsafe { self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, first, last - first) };
        if given_back.is_err() {
            self.bytes_mut()[first..last].fill(0);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: it reads nothing that a program sees, and any address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

/// Stable Rust has no such hint for other processors.
#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_line: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_are_just_those_of_the_range() {
        let mut content = Content::new(1 << 20).expect("memory");
        assert!(content.bytes().iter().all(|&byte| byte == 0));
        content.grant().expect("memory");
        assert!(content.bytes().iter().all(|&byte| byte == 0));
        for (from, length) in [(1000, 100), (4097, 300_000), (0, 1 << 20), (8192, 262_144)] {
            content.bytes_mut().fill(7);
            content.zero(from, length);
            let left: usize = content.bytes().iter().map(|&byte| usize::from(byte) / 7).sum();
            assert_eq!(left, (1 << 20) - length);
            assert!(content.bytes()[from..from + length].iter().all(|&byte| byte == 0));
        }
    }
}
