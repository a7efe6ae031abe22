//! Requests of the kernel in memory that it shares with the drive, through `io_uring` (Linux 6.14,
//! Documentation/filesystems/fuse/fuse-io-uring.rst). What requests mean is the session's matter.
//!
//! Each processor has a queue of entries, all on one ring: the kernel lays a request into an entry of the processor
//! that its program runs on, and one system call takes the replies to many and brings further ones. A request that
//! finds no entry waits in the kernel, so there are as many of them as a drive's queue has, within a bound of memory.
//!
//! It saves processor time: at depth 32 one system call serves ten reads, and a read takes 11 to 21 µs of a processor.
//! With /dev/fuse each read takes two calls, and 25 to 31 µs (Linux 6.18, two busy processors). Rates at depth 1 and 32
//! are 0.91 and 1.05 times those of /dev/fuse (benches/README.md).
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;

use rustix::event::EventfdFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use io_uring::types::Fixed;
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::abi::{self, ring};
use super::metadata::RING_DATA_BYTES;

/// Entries of a queue: where there are fewer than the least, the queue would be what limits a program.
const MOST_ENTRIES: u32 = 256;
const LEAST_ENTRIES: u32 = 32;
/// Of all queues: with their payloads 128 MiB.
const MOST_ENTRIES_IN_ALL: u32 = 2048;

/// Headers lie apart from each other by whole lines of a cache.
const HEADER_STRIDE: usize = 512;
const PAYLOAD: usize = RING_DATA_BYTES as usize;

/// Buffers of an entry, as it is registered: its header and its payload.
const BUFFERS: u32 = 2;
/// Where `io_uring_sqe` has the number of these buffers, which the library does not set.
const LENGTH_AT: usize = 24;

/// How many queues of how many entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    queues: u32,
    entries: u32,
}

impl Layout {
    /// The layout for this machine, if the kernel has such rings, they are enabled, and its processors
    /// are few enough. `root` is `/`.
    pub fn of_machine(root: &Path) -> Option<Self> {
        let enabled = fs::read_to_string(root.join("sys/module/fuse/parameters/enable_uring"));
        let possible = fs::read_to_string(root.join("sys/devices/system/cpu/possible"));
        (enabled.ok()?.trim() == "Y").then_some(())?;
        Self::of_processors(count(possible.ok()?.trim())?)
    }

    fn of_processors(queues: u32) -> Option<Self> {
        let entries = MOST_ENTRIES.min(MOST_ENTRIES_IN_ALL.checked_div(queues)?);
        (entries >= LEAST_ENTRIES).then_some(Self { queues, entries })
    }

    fn all(self) -> u32 {
        self.queues * self.entries
    }

    /// Memory that the entries take at most.
    pub fn memory_bytes(self) -> usize {
        self.all() as usize * (HEADER_STRIDE + PAYLOAD)
    }
}

/// How many processors such a list has: `0-3,8`.
fn count(list: &str) -> Option<u32> {
    let counts = list.split(',').map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let to: u32 = to.parse().ok()?;
        to.checked_sub(from.parse().ok()?)?.checked_add(1)
    });
    counts.sum()
}

/// The memory of all entries: headers, then payloads.
struct Memory {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the mapping belongs to this value alone, and any thread may use it.
unsafe impl Send for Memory {}

impl Memory {
    fn new(layout: Layout) -> io::Result<Self> {
        let (bytes, flags) = (layout.memory_bytes(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: an anonymous mapping wherever the kernel wants touches nothing that exists.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, layout })
    }

    /// Where the header and the payload of an entry begin.
    fn places(&self, entry: u32) -> (*mut u8, *mut u8) {
        assert!(entry < self.layout.all(), "entry {entry}");
        let (at, all) = (entry as usize, self.layout.all() as usize);
        // SAFETY: both lie within the mapping, which has this many headers, then as many payloads.
        unsafe {
            let payloads = self.base.add(all * HEADER_STRIDE);
            let header = self.base.add(at * HEADER_STRIDE);
            (header.as_ptr(), payloads.add(at * PAYLOAD).as_ptr())
        }
    }

    /// An entry that the kernel does not have.
    fn entry(&self, entry: u32) -> (&[u8], &[u8]) {
        let (header, payload) = self.places(entry);
        // SAFETY: initialised bytes of the mapping, which the kernel changes in `Ring::enter` alone: its
        // work for this ring waits until then (IORING_SETUP_DEFER_TASKRUN), and that borrows mutably.
        unsafe { (std::slice::from_raw_parts(header, ring::HEADER), std::slice::from_raw_parts(payload, PAYLOAD)) }
    }

    fn entry_mut(&mut self, entry: u32) -> (&mut [u8], &mut [u8]) {
        let (header, payload) = self.places(entry);
        // SAFETY: as above, borrowed mutably; header and payload do not overlap.
        unsafe {
            (std::slice::from_raw_parts_mut(header, ring::HEADER), std::slice::from_raw_parts_mut(payload, PAYLOAD))
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which is not borrowed any more; the ring is closed before.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.layout.memory_bytes()) };
    }
}

/// A ring with the entries of all queues. It belongs to the thread that made it.
pub struct Ring {
    // Closed before the memory goes that it may write to.
    shared: IoUring<squeue::Entry128, cqueue::Entry>,
    memory: Memory,
    /// Readable when there is work: the kernel does not tell it of the ring itself, since it does that
    /// work in `Ring::enter` alone.
    wakeup: OwnedFd,
    /// Requests that came while entries were registered.
    early: VecDeque<(u32, i32)>,
}

impl Ring {
    /// A ring for the mount with this descriptor of /dev/fuse. Nothing comes through it before [`Ring::register`].
    pub fn new(device: &OwnedFd, layout: Layout) -> io::Result<Self> {
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(layout.all())?;
        ring.submitter().register_files(&[device.as_raw_fd()])?;
        let wakeup = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(wakeup.as_raw_fd())?;
        let memory = Memory::new(layout)?;
        Ok(Self { shared: ring, memory, wakeup, early: VecDeque::new() })
    }

    /// Gives all entries to the kernel, which uses them as soon as each queue has one. To be called
    /// once it was told of the ring by the answer to INIT.
    pub fn register(&mut self) -> io::Result<()> {
        let Layout { queues, entries } = self.memory.layout;
        for turn in 0..entries {
            for queue in 0..queues {
                match self.register_entry(queue * entries + turn) {
                    Ok(()) => {}
                    Err(error) if turn == 0 => return Err(error),
                    Err(_) => return Ok(()), // the ring is in use, with fewer entries
                }
            }
        }
        Ok(())
    }

    fn register_entry(&mut self, number: u32) -> io::Result<()> {
        let (header, payload) = self.memory.places(number);
        let buffers = [(header, ring::HEADER), (payload, PAYLOAD)];
        let buffers = buffers.map(|(base, length)| libc::iovec { iov_base: base.cast(), iov_len: length });
        let entries = self.memory.layout.entries;
        let mut entry = command(ring::REGISTER, number, entries, 0, Some(&buffers));
        // SAFETY: the entry is 128 bytes of integers, laid out as `io_uring_sqe`.
        unsafe {
            let length = std::ptr::from_mut(&mut entry).cast::<u8>().add(LENGTH_AT);
            length.cast::<u32>().write_unaligned(BUFFERS);
        }
        self.push(&entry)?;
        // The kernel reads the buffers' places, and says what it refuses, while it takes the command.
        self.enter()?;
        while let Some((other, result)) = self.completed() {
            if result < 0 {
                return Err(io::Error::from_raw_os_error(-result));
            }
            self.early.push_back((other, result));
        }
        Ok(())
    }

    /// Forgets that there was work. To be followed by [`Ring::exchange`].
    pub fn forget_wakeup(&self) {
        let _ = rustix::io::read(&self.wakeup, &mut [0_u8; 8]); // empty: there was none
    }

    /// Gives replies to the kernel and takes requests, if there is anything of either.
    pub fn exchange(&mut self) -> io::Result<()> {
        let queue = self.shared.submission();
        let idle = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
        drop(queue);
        if idle {
            return Ok(());
        }
        self.enter()
    }

    fn enter(&mut self) -> io::Result<()> {
        match self.shared.submit() {
            Ok(_) => Ok(()),
            // EAGAIN, EBUSY: no memory, or too many completions to be taken first. Later, then.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next entry with a request: its number, and 0 or the negative error with which the kernel gives it back.
    pub fn next(&mut self) -> Option<(u32, i32)> {
        self.early.pop_front().or_else(|| self.completed())
    }

    fn completed(&mut self) -> Option<(u32, i32)> {
        let completion = self.shared.completion().next()?;
        Some((completion.user_data() as u32, completion.result()))
    }

    /// Whether there is an entry with a request.
    pub fn is_ready(&mut self) -> bool {
        !self.early.is_empty() || !self.shared.completion().is_empty()
    }

    /// Header and payload of an entry with a request.
    pub fn entry(&self, number: u32) -> (&[u8], &[u8]) {
        self.memory.entry(number)
    }

    /// Replies to the request of an entry: a header, and parts of what follows it. They leave with the
    /// next [`Ring::exchange`].
    pub fn reply(&mut self, number: u32, header: &[u8; abi::OUT_HEADER], parts: [&[u8]; 2]) -> io::Result<()> {
        let entries = self.memory.layout.entries;
        let (into, payload) = self.memory.entry_mut(number);
        let mut length = 0;
        for part in parts {
            // The kernel asks for no more than it has room for (`max_write`, `max_pages`).
            let end = (length + part.len()).min(payload.len());
            payload[length..end].copy_from_slice(&part[..end - length]);
            length = end;
        }
        into[..abi::OUT_HEADER].copy_from_slice(header);
        into[ring::PAYLOAD..ring::PAYLOAD + 4].copy_from_slice(&(length as u32).to_ne_bytes());
        let commit = abi::Fields(into).u64(ring::COMMIT).unwrap_or(0);
        self.push(&command(ring::COMMIT_AND_FETCH, number, entries, commit, None))
    }

    fn push(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        loop {
            // SAFETY: what the command names is the memory of this ring, which outlives it.
            if unsafe { self.shared.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.enter()?;
        }
    }
}

impl AsRawFd for Ring {
    /// What is readable when there is something to do.
    fn as_raw_fd(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }
}

/// A command to the kernel (`fuse_uring_cmd_req`) for the entry of this number.
fn command(
    kind: u32,
    number: u32,
    entries: u32,
    commit: u64,
    buffers: Option<&[libc::iovec; BUFFERS as usize]>,
) -> squeue::Entry128 {
    let mut fields = [0; 80];
    fields[8..16].copy_from_slice(&commit.to_ne_bytes());
    fields[16..18].copy_from_slice(&((number / entries) as u16).to_ne_bytes());
    let address = buffers.map(|buffers| std::ptr::from_ref(buffers) as u64);
    opcode::UringCmd80::new(Fixed(0), kind).cmd(fields).addr(address).build().user_data(number.into())
}

const _: () = assert!(size_of::<squeue::Entry128>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_from_a_list() {
        for (list, processors) in [("0", 1), ("0-1", 2), ("0-3,8-11", 8), ("0,2", 2)] {
            assert_eq!(count(list), Some(processors), "{list}");
        }
        for list in ["", "x", "3-1", "0-"] {
            assert_eq!(count(list), None, "{list}");
        }
    }

    #[test]
    fn entries_are_enough_for_a_queue_or_there_are_none() {
        let entries = |processors| Layout::of_processors(processors).map(|layout| layout.entries);
        assert_eq!(entries(0), None);
        assert_eq!(entries(2), Some(256));
        assert_eq!(entries(8), Some(256));
        assert_eq!(entries(16), Some(128));
        assert_eq!(entries(64), Some(32));
        assert_eq!(entries(65), None);
        let most = Layout::of_processors(8).expect("entries").memory_bytes();
        assert!(most <= 130 << 20, "{most}");
    }

    #[test]
    fn rings_are_used_where_they_are_enabled() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        assert_eq!(Layout::of_machine(root.path()), None);
        write("sys/devices/system/cpu/possible", "0-3\n");
        write("sys/module/fuse/parameters/enable_uring", "N\n");
        assert_eq!(Layout::of_machine(root.path()), None);
        write("sys/module/fuse/parameters/enable_uring", "Y\n");
        let wanted = Layout { queues: 4, entries: 256 };
        assert_eq!(Layout::of_machine(root.path()), Some(wanted));
    }

    #[test]
    fn the_memory_of_entries_is_apart() {
        let layout = Layout { queues: 2, entries: 32 };
        let mut memory = Memory::new(layout).expect("memory");
        for number in 0..layout.all() {
            let (header, payload) = memory.entry_mut(number);
            header.fill(number as u8);
            payload.fill(number as u8);
        }
        for number in 0..layout.all() {
            let (header, payload) = memory.entry(number);
            let mut bytes = header.iter().chain(payload);
            assert!(bytes.all(|&byte| byte == number as u8), "{number}");
        }
    }
}
