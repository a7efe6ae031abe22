//! Memory for the data of requests: touched before the replay, so that nothing faults while it lasts.

use std::ptr::NonNull;

use ioassay_block::SplitMix64;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};

use crate::content::{SECTOR, stamp};

/// Data begin and memory ends at a page: what `O_DIRECT` may want of addresses, and what a write of pages is fastest from.
pub const PAGE: usize = 4096;

/// Bytes within a [`Memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub start: usize,
    pub length: usize,
}

/// An anonymous mapping. No Rust reference ever covers it: the kernel uses it at any time.
pub struct Memory {
    start: NonNull<u8>,
    length: usize,
    /// Whether the kernel keeps it in memory: it does not beyond the limit of locked memory.
    pub locked: bool,
    leaked: bool,
}

impl Memory {
    /// Maps `length` bytes, a multiple of the page, and fills them: by what follows from `seed`, or zeros.
    pub fn filled(length: usize, seed: Option<u64>) -> Result<Self, Errno> {
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        // SAFETY: the mapping is ours. Advice that is not taken changes nothing but speed.
        let _ = unsafe { madvise(start, length, Advice::LinuxHugepage) };
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        let mut memory = Self { start, length, locked: false, leaked: false };
        match seed.map(SplitMix64) {
            Some(mut numbers) => (0..length).step_by(8).for_each(|at| memory.write(at, &numbers.next().to_le_bytes())),
            None => (0..length).step_by(PAGE).for_each(|at| memory.write(at, &[0])),
        }
        // SAFETY: the mapping is ours.
        memory.locked = unsafe { mlock(start.as_ptr().cast(), length) }.is_ok();
        Ok(memory)
    }

    /// Marks each sector as that of a request and of a place on the target, so that no two are equal.
    pub fn mark(&mut self, place: Place, seed: u64, number: u64, offset_bytes: u64) {
        let first = offset_bytes / SECTOR as u64;
        for at in (0..place.length).step_by(SECTOR) {
            let stamp = stamp(seed, number, first + (at / SECTOR) as u64);
            let shown = stamp.len().min(place.length - at);
            self.write(place.start + at, &stamp[..shown]);
        }
    }

    /// The mapping stays for as long as the process.
    pub(super) fn leak(&mut self) {
        self.leaked = true;
    }

    /// The address of a place, for the kernel.
    pub(super) fn address(&self, place: Place) -> *mut u8 {
        assert!(place.start.checked_add(place.length).is_some_and(|end| end <= self.length), "outside of the memory");
        // SAFETY: within the mapping.
        unsafe { self.start.as_ptr().add(place.start) }
    }

    pub(super) fn all(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.as_ptr().cast(), iov_len: self.length }
    }

    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = self.address(Place { start: at, length: bytes.len() });
        // SAFETY: `address` has both ends within the mapping, which no Rust reference covers.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.leaked {
            // SAFETY: the mapping is ours, and its owner, the ring, has no request outstanding.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}
