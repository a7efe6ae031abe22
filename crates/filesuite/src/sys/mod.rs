//! The system calls that have no safe wrapper elsewhere. All unsafe code of the crate is below here.
#![allow(
    unsafe_code,
    reason = "stdio, mappings, cachestat and a close that says its error are C interfaces; each call says why it is sound"
)]

mod mapping;
mod stdio;

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::io::Errno;

pub use mapping::Mapping;
pub use stdio::Stream;

/// What failed last in this thread.
fn last_errno() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Close a descriptor, and report an error, which dropping it would not.
pub fn close(descriptor: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor is ours, and nothing uses it after this. Linux frees it even on errors.
    unsafe { rustix::io::try_close(descriptor.into_raw_fd()) }
}

/// `cachestat(2)`, Linux 6.5: the same number on every architecture.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cached {
    pages: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Bytes of the first `bytes` of a file that the page cache holds: `cachestat`, or `mincore` of a mapping.
pub fn cached_bytes(file: BorrowedFd<'_>, bytes: u64) -> Result<u64, Errno> {
    let page = rustix::param::page_size() as u64;
    let range = Range { offset: 0, bytes };
    let mut found = Cached::default();
    let descriptor = file.as_raw_fd();
    // SAFETY: both structures have the kernel's layout and outlive the call.
    let done = unsafe { libc::syscall(CACHESTAT, descriptor, &raw const range, &raw mut found, 0) };
    match done {
        0 => Ok((found.pages * page).min(bytes)),
        _ if last_errno() == Errno::NOSYS => mapped_bytes(file, bytes, page),
        _ => Err(last_errno()),
    }
}

fn mapped_bytes(file: BorrowedFd<'_>, bytes: u64, page: u64) -> Result<u64, Errno> {
    let length = usize::try_from(bytes).map_err(|_| Errno::OVERFLOW)?;
    if length == 0 {
        return Ok(0);
    }
    let mut pages = vec![0_u8; length.div_ceil(page as usize)];
    let mapping = Mapping::of(file, bytes, false)?;
    mapping.residency(&mut pages)?;
    let resident = pages.iter().filter(|&&state| state & 1 == 1).count() as u64;
    Ok((resident * page).min(bytes))
}
