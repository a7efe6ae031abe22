//! The page cache before a pass that reads: left, emptied or filled on purpose, and what it really held.

use std::os::fd::BorrowedFd;

use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;

use crate::error::Fault;
use crate::setup::Cache;
use crate::sys;
use crate::test_file::TestFile;

const CHUNK_BYTES: usize = 1 << 20;

/// Bring the cache into the state that is asked for. `file` is open and has been synced.
pub fn ready(cache: Cache, file: BorrowedFd<'_>, own: &mut TestFile, bytes: u64) -> Result<(), Fault> {
    match cache {
        Cache::Leave => Ok(()),
        Cache::Drop => drop_pages(file).map_err(|errno| Fault::step("drop the cache", errno, false)),
        Cache::DropAll => {
            let dropped = std::fs::write("/proc/sys/vm/drop_caches", "1\n");
            dropped.map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                Fault::step("write /proc/sys/vm/drop_caches", errno, false)
            })
        }
        Cache::Warm => warm(own, bytes).map_err(|errno| Fault::step("warm the cache", errno, false)),
    }
}

fn drop_pages(file: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fsync(file)?;
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
}

/// Read the file once, through a descriptor of its own, which is not direct.
fn warm(own: &mut TestFile, bytes: u64) -> Result<(), Errno> {
    let file = own.open(crate::suite::Opening::Existing, OFlags::RDONLY)?;
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    let mut place = 0;
    while place < bytes {
        match rustix::io::pread(&file, &mut chunk[..], place)? {
            0 => break,
            moved => place += moved as u64,
        }
    }
    Ok(())
}

/// The share of the file, 0 to 1, that is in the page cache; `None` where the kernel does not say.
pub fn resident_share(file: BorrowedFd<'_>, bytes: u64) -> Option<f64> {
    let cached = sys::cached_bytes(file, bytes).ok()?;
    Some(cached as f64 / bytes as f64)
}
