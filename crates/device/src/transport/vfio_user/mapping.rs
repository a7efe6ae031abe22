//! Memory that another process shares and may change, or take away, at any time: the only place here that touches it.
//!
//! No reference to it ever exists. Bytes are copied through raw pointers, and words are atomic, so a peer
//! that writes at the same time changes data and nothing else. A peer that truncates its file makes every
//! access behind the new end a SIGBUS (mmap(2)). The handler puts zeroed memory of our own in the place of
//! that mapping and marks it as lost, as Wayland does for the buffers of its clients (`src/wayland-shm.c`
//! of libwayland); whoever owns the mapping then ends the connection. Seals that would exclude it
//! (`F_SEAL_SHRINK`) cannot be demanded, because SPDK and QEMU share files that have none.
#![allow(unsafe_code)]

use std::mem;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::io::Errno;

/// Mappings of this process at a time.
const MAPPINGS: usize = 2048;

/// A mapping, as the signal's handler finds it.
struct Guard {
    is_taken: AtomicBool,
    /// 0 while there is none.
    start: AtomicUsize,
    length_bytes: AtomicUsize,
    is_lost: AtomicBool,
}

static GUARDS: [Guard; MAPPINGS] = [const {
    Guard {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        length_bytes: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; MAPPINGS];

/// Counts mappings that were lost.
static LOSSES: AtomicU64 = AtomicU64::new(0);

/// The process's earlier handler of SIGBUS; none if ours could not be installed.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Mappings of this process that were lost so far: a number that changes tells to look at [`Mapping::is_lost`].
pub fn losses() -> u64 {
    LOSSES.load(Ordering::Relaxed)
}

/// A part of a file, shared with whoever else maps it.
#[derive(Debug)]
pub struct Mapping {
    memory: MmapRaw,
    is_writable: bool,
    guard: usize,
}

impl Mapping {
    /// Maps a part of a file: whole pages.
    pub fn new(file: impl AsFd, offset_bytes: u64, length_bytes: u64, is_writable: bool) -> Result<Self, Errno> {
        let file = file.as_fd();
        let end = offset_bytes.checked_add(length_bytes).ok_or(Errno::INVAL)?;
        let size_bytes = rustix::fs::fstat(file)?.st_size;
        // An offset that the kernel would refuse is one that the crate makes room for: the handler needs whole pages.
        let is_whole = length_bytes > 0 && offset_bytes % rustix::param::page_size() as u64 == 0;
        if !is_whole || i64::try_from(end).map_or(true, |end| end > size_bytes) {
            return Err(Errno::INVAL);
        }
        let length_bytes = usize::try_from(length_bytes).map_err(|_| Errno::INVAL)?;
        catch_bus_errors().ok_or(Errno::NOTSUP)?;
        let take =
            |guard: &Guard| guard.is_taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let guard = GUARDS.iter().position(take).ok_or(Errno::NOSPC)?;
        let of_handler = &GUARDS[guard];
        let mut options = MmapOptions::new();
        options.offset(offset_bytes).len(length_bytes);
        let mapped = if is_writable { options.map_raw(&file) } else { options.map_raw_read_only(&file) };
        let memory = mapped.map_err(|error| {
            of_handler.is_taken.store(false, Ordering::Release);
            Errno::from_io_error(&error).unwrap_or(Errno::NOMEM)
        })?;
        of_handler.is_lost.store(false, Ordering::Relaxed);
        of_handler.length_bytes.store(length_bytes, Ordering::Relaxed);
        of_handler.start.store(memory.as_ptr() as usize, Ordering::Release);
        Ok(Self { memory, is_writable, guard })
    }

    /// Whether its file ended before it did: zeroed memory of this process is in its place.
    pub fn is_lost(&self) -> bool {
        GUARDS[self.guard].is_lost.load(Ordering::Relaxed)
    }

    /// Copies from it; false for what is not all within it.
    pub fn read(&self, at: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.place(at, into.len()) else {
            return false;
        };
        // SAFETY: all of it lies within the mapping, which is there as long as `self` is. `into` is no part
        // of it, because no reference to a mapping exists.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies to it; false for what is not all within it, and for one that is only read.
    pub fn write(&self, at: usize, from: &[u8]) -> bool {
        let Some(to) = self.place(at, from.len()).filter(|_| self.is_writable) else {
            return false;
        };
        // SAFETY: as in `read`, and the mapping can be written.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    /// The word at a place; what its writer wrote before it is there, too.
    pub fn load(&self, at: usize) -> Option<u32> {
        let word = self.word(at)?;
        // SAFETY: aligned, and within the mapping, which is there as long as `self` is. Every other access
        // of this process to words that both sides write is atomic.
        Some(unsafe { AtomicU32::from_ptr(word) }.load(Ordering::Acquire))
    }

    /// Writes a word, after all that was written before; false as for [`Mapping::write`].
    pub fn store(&self, at: usize, value: u32) -> bool {
        let Some(word) = self.word(at).filter(|_| self.is_writable) else {
            return false;
        };
        // SAFETY: as in `load`, and the mapping can be written.
        unsafe { AtomicU32::from_ptr(word) }.store(value, Ordering::Release);
        true
    }

    fn word(&self, at: usize) -> Option<*mut u32> {
        let is_aligned = at % size_of::<u32>() == 0; // and mappings begin with a page
        Some(self.place(at, size_of::<u32>()).filter(|_| is_aligned)?.cast())
    }

    fn place(&self, at: usize, length_bytes: usize) -> Option<*mut u8> {
        let end = at.checked_add(length_bytes)?;
        (end <= self.memory.len()).then(|| self.memory.as_mut_ptr().wrapping_add(at))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // What is unmapped after this is the mapping, or what the handler put in its place.
        GUARDS[self.guard].start.store(0, Ordering::Release);
        GUARDS[self.guard].is_taken.store(false, Ordering::Release);
    }
}

/// Installs the handler, once; `None` if that cannot be.
fn catch_bus_errors() -> Option<()> {
    let before = BEFORE.get_or_init(|| {
        // SAFETY: all of it are integers and pointers, for which zeroes are a value.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { mem::zeroed() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: both structures are valid, and the handler does only what a handler may.
        let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
        (done == 0).then_some(before)
    });
    before.as_ref().map(|_| ())
}

/// Runs at any instruction: it calls the kernel and atomics alone (signal-safety(7); mmap is a system call
/// and takes no lock of the process).
extern "C" fn on_bus_error(_: libc::c_int, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives every handler with SA_SIGINFO a valid structure.
    let at = unsafe { (*information).si_addr() } as usize;
    for guard in &GUARDS {
        let (start, length_bytes) = (guard.start.load(Ordering::Acquire), guard.length_bytes.load(Ordering::Relaxed));
        if start == 0 || at.wrapping_sub(start) >= length_bytes {
            continue;
        }
        // SAFETY: the range is that of a mapping that exists, since its owner is accessing it right now, and
        // all accesses to it are such as bear any change.
        let replaced = unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                length_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if replaced != libc::MAP_FAILED {
            guard.is_lost.store(true, Ordering::Relaxed);
            LOSSES.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    // Not of a mapping: the access is repeated, and what the process did before happens.
    if let Some(Some(before)) = BEFORE.get() {
        // SAFETY: the structure came from the kernel.
        unsafe { libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    fn file(bytes: u64) -> OwnedFd {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, bytes).unwrap();
        file
    }

    #[test]
    fn two_mappings_of_a_file_are_the_same_memory() {
        let file = file(8192);
        let one = Mapping::new(&file, 4096, 4096, true).unwrap();
        let other = Mapping::new(&file, 0, 8192, false).unwrap();
        assert!(one.write(4, b"abcd") && one.store(8, 7));
        let mut read = [0; 4];
        assert!(other.read(4100, &mut read));
        assert_eq!((&read, other.load(4104), one.load(8)), (b"abcd", Some(7), Some(7)));
        assert!(!other.write(0, b"a") && !other.store(0, 1));
    }

    #[test]
    fn nothing_outside_is_touched() {
        let mapping = Mapping::new(file(4096), 0, 4096, true).unwrap();
        assert!(!mapping.read(4095, &mut [0; 2]) && !mapping.write(usize::MAX, b"ab"));
        assert_eq!((mapping.load(2), mapping.load(4096)), (None, None));
        for (offset_bytes, length_bytes) in [(0, 0), (0, 8192), (4096, 1), (u64::MAX, 2)] {
            let refused = Mapping::new(file(4096), offset_bytes, length_bytes, true);
            assert_eq!(refused.err(), Some(Errno::INVAL));
        }
    }

    #[test]
    fn a_truncated_file_gives_zeroes_and_a_mark_and_kills_no_process() {
        let file = file(1 << 20);
        let mapping = Mapping::new(&file, 0, 1 << 20, true).unwrap();
        let spared = Mapping::new(&file, 0, 4096, true).unwrap();
        assert!(mapping.write(8192, b"abcd"));
        let before = losses();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let mut read = [1; 4];
        assert!(mapping.read(8192, &mut read) && mapping.write(16_384, b"efgh"));
        assert_eq!((read, mapping.load(65_536)), ([0; 4], Some(0)));
        assert!(mapping.is_lost() && !spared.is_lost() && losses() > before);
    }
}
