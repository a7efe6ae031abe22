//! What the kernel works on: memory, the ring, a call. All unsafe code of the crate is below here.
#![allow(
    unsafe_code,
    reason = "the kernel reads and writes memory while requests are outstanding; each block says why it is sound"
)]

mod memory;
mod ring;

use std::fs::File;
use std::os::fd::AsRawFd;

pub use memory::{Memory, PAGE, Place};
pub use ring::{COMPLETIONS, Op, Ring, RingFacts};

/// `BLKDISCARD`: `_IO(0x12, 119)` of include/uapi/linux/fs.h.
const BLKDISCARD: libc::Ioctl = 0x1277;

/// Discards a range of a block device and waits for it; 0, or a negative error number as of a completion.
pub fn discard(file: &File, offset_bytes: u64, length_bytes: u64) -> i32 {
    let range = [offset_bytes, length_bytes];
    // SAFETY: the call reads two numbers, which outlive it.
    match unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
        0 => 0,
        _ => -std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
    }
}
