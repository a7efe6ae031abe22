//! A file mapped into memory: what is read and written there goes through the page cache without a call.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// The first bytes of a file, mapped. The file must keep its size: a copy beyond its end is a SIGBUS, as is one that
/// the device fails.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Map `length` bytes of `file`: shared and writable, or private and read-only.
    pub fn of(file: BorrowedFd<'_>, length: u64, writable: bool) -> Result<Self, Errno> {
        let length = usize::try_from(length).map_err(|_| Errno::OVERFLOW)?;
        let (protection, flags) = if writable {
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
        } else {
            (ProtFlags::READ, MapFlags::PRIVATE)
        };
        // SAFETY: a new mapping of an open file, at an address that the kernel chooses.
        let start = unsafe { mmap(std::ptr::null_mut(), length, protection, flags, file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        Ok(Self { start, length })
    }

    /// Copy a record out of it.
    #[inline]
    pub fn read(&self, place: u64, record: &mut [u8]) {
        let from = self.within(place, record.len());
        // SAFETY: `within` has both ends inside the mapping, which no Rust reference covers.
        unsafe { std::ptr::copy_nonoverlapping(from, record.as_mut_ptr(), record.len()) };
        // A copy that nothing reads must be made all the same.
        std::hint::black_box(record);
    }

    /// Copy a record into it; only where it is writable.
    #[inline]
    pub fn write(&mut self, place: u64, record: &[u8]) {
        let to = self.within(place, record.len());
        // SAFETY: as for `read`; the caller mapped it writable.
        unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), to, record.len()) };
    }

    /// `msync` of a part that begins at a page; with `wait` it returns when the disk has it.
    pub fn sync(&self, place: u64, length: u64, wait: bool) -> Result<(), Errno> {
        let flags = if wait { MsyncFlags::SYNC } else { MsyncFlags::ASYNC };
        let start = self.within(place, length as usize);
        // SAFETY: the part lies inside the mapping.
        unsafe { msync(start.cast(), length as usize, flags) }
    }

    /// `msync` of all of it, to the disk.
    pub fn sync_all(&self) -> Result<(), Errno> {
        self.sync(0, self.length as u64, true)
    }

    /// `mincore`: a byte for each page, whose lowest bit says that it is in the page cache.
    pub fn residency(&self, pages: &mut [u8]) -> Result<(), Errno> {
        let page_bytes = rustix::param::page_size();
        assert!(pages.len() >= self.length.div_ceil(page_bytes));
        // SAFETY: the mapping is ours, and there is a byte for each of its pages.
        match unsafe { libc::mincore(self.start.as_ptr().cast(), self.length, pages.as_mut_ptr()) } {
            0 => Ok(()),
            _ => Err(super::last_errno()),
        }
    }

    /// `munmap`, whose error is said.
    pub fn unmap(self) -> Result<(), Errno> {
        std::mem::ManuallyDrop::new(self).release()
    }

    fn release(&mut self) -> Result<(), Errno> {
        // SAFETY: the mapping is ours, and nothing uses it after this.
        unsafe { munmap(self.start.as_ptr().cast(), self.length) }
    }

    #[inline]
    fn within(&self, place: u64, length: usize) -> *mut u8 {
        let place = place as usize;
        assert!(place <= self.length && length <= self.length - place);
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.start.as_ptr().add(place) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Only after an error, which is said already.
        let _ = self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::fd::AsFd;

    use super::Mapping;

    #[test]
    fn what_is_written_to_a_mapping_is_in_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mut mapping = Mapping::of(file.as_fd(), 8192, true).unwrap();
        mapping.write(4096, &[7; 100]);
        mapping.sync(4096, 4096, false).unwrap();
        mapping.sync_all().unwrap();
        let mut record = [0; 100];
        mapping.read(4096, &mut record);
        assert_eq!(record, [7; 100]);
        mapping.unmap().unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes[4095], bytes[4096], bytes[4195], bytes[4196]), (0, 7, 7, 0));
    }

    #[test]
    #[should_panic(expected = "assertion failed")]
    fn nothing_beyond_its_end_is_touched() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let mapping = Mapping::of(file.as_fd(), 4096, false).unwrap();
        mapping.read(4000, &mut [0; 97]);
    }
}
