//! What the kernel's page cache may hold of the file, and how it is dropped.
//!
//! The file is opened with direct I/O, but splice(2), sendfile(2) and private mappings go through the page cache all
//! the same. What they read is dropped when the drive's content changes there, before any client is answered, and a
//! moment later in any case, so that repeated reads reach the drive.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::thread::UnshareFlags;

use super::abi;

/// What was read stays for one to two periods: longer than a busy machine keeps a program from
/// looking at what it has just read, else it would have to read it again and again.
const PERIOD: Duration = Duration::from_millis(50);

/// Ranges that the page cache may hold.
#[derive(Debug, Default)]
pub struct CachedRanges {
    young: Vec<Range<u64>>,
    /// Read in the one before.
    old: Vec<Range<u64>>,
    /// Their time is up, and the kernel may not have dropped them yet.
    leaving: Vec<Range<u64>>,
    period_began: Option<Instant>,
}

impl CachedRanges {
    /// The kernel reads a range into the page cache.
    pub fn insert(&mut self, range: Range<u64>) {
        match self.young.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.young.push(range),
        }
    }

    /// Whether any of a range may be held.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        let mut ranges = self.young.iter().chain(&self.old).chain(&self.leaving);
        ranges.any(|held| held.start < range.end && range.start < held.end)
    }

    /// Ranges whose time is up, at most once a period. They count as held until they are [`dropped`](Self::dropped).
    pub fn expired(&mut self, now: Instant) -> &[Range<u64>] {
        if self.young.is_empty() && self.old.is_empty() {
            self.period_began = None;
            return &[];
        }
        if now.duration_since(*self.period_began.get_or_insert(now)) < PERIOD {
            return &[];
        }
        self.period_began = Some(now);
        self.leaving = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        &self.leaving
    }

    /// The kernel has dropped all ranges that [`expired`](Self::expired).
    pub fn dropped(&mut self) {
        self.leaving.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty() && self.leaving.is_empty()
    }
}

/// A thread that tells the kernel to drop ranges. The kernel waits for pages that are being read,
/// for which the thread that serves has to answer: so that one cannot do it.
#[derive(Debug)]
pub struct Invalidator {
    ranges: Sender<Range<u64>>,
    requested: u64,
    done: Arc<AtomicU64>,
}

impl Invalidator {
    /// Starts the thread for a mount; `None` where the system does not let it have descriptors of its own.
    ///
    /// While it waits for a page it cannot be killed. Of a process that is killed then only the descriptors of this
    /// thread stay open, so that whoever waits for the others to be closed learns of it, and may abort the mount.
    pub fn start(device: &OwnedFd) -> Option<Self> {
        let device = File::from(device.try_clone().ok()?);
        let (ranges, receiver) = channel::<Range<u64>>();
        let (started, starts) = channel();
        let done = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&done);
        std::thread::Builder::new()
            .name("ioassay-page-cache".into())
            .spawn(move || {
                let alone = keep_only(device.as_raw_fd());
                let _ = started.send(alone); // whoever starts it waits for this
                if alone {
                    for range in receiver {
                        // A file that nobody has open any more has nothing cached; a mount that is gone, neither.
                        let _ = (&device).write(&abi::invalidation(&range));
                        counter.fetch_add(1, Ordering::Release);
                    }
                }
                std::mem::forget(device); // the descriptor is closed with the thread's others
            })
            .ok()?;
        starts.recv().ok()?.then_some(Self { ranges, requested: 0, done })
    }

    /// Asks for a range to be dropped; returns the number of the request.
    pub fn request(&mut self, range: Range<u64>) -> u64 {
        if self.ranges.send(range).is_ok() {
            self.requested += 1;
        }
        self.requested
    }

    /// Whether the request of this number, and all before it, are done.
    pub fn is_done(&self, request: u64) -> bool {
        self.done.load(Ordering::Acquire) >= request
    }
}

/// Gives this thread a table of descriptors of its own, with one alone in it.
#[allow(unsafe_code)]
fn keep_only(kept: RawFd) -> bool {
    let Ok(kept) = u32::try_from(kept) else {
        return false;
    };
    // SAFETY: the thread uses no descriptor but `kept` from here on.
    if unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }.is_err() {
        return false;
    }
    let close = |first: u32, last: u32| {
        // SAFETY: as above; the table is this thread's own, so nobody else's descriptors are closed.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
    };
    (kept == 0 || close(0, kept - 1)) && close(kept + 1, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_held_for_one_to_two_periods() {
        let mut cached = CachedRanges::default();
        let start = Instant::now();
        assert!(cached.expired(start).is_empty());
        cached.insert(0..4096);
        cached.insert(4096..8192);
        cached.insert(40_960..45_056);
        assert!(cached.expired(start).is_empty());
        assert!(cached.expired(start + PERIOD).is_empty());
        cached.insert(0..4096);
        assert!(cached.overlaps(&(8191..8192)) && !cached.overlaps(&(8192..40_960)));
        let first = cached.expired(start + PERIOD * 2);
        assert_eq!(first, [0..8192, 40_960..45_056]);
        assert!(cached.overlaps(&(4096..8192)), "the kernel may still hold it");
        cached.dropped();
        assert!(cached.overlaps(&(0..1)) && !cached.overlaps(&(4096..8192)));
        assert_eq!(cached.expired(start + PERIOD * 3), vec![0..4096]);
        cached.dropped();
        assert!(cached.is_empty());
    }
}
