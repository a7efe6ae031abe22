//! The drive as a file, through FUSE: any program can use it, without privileges.
//!
//! The file is the root of a file system of its own, so that the kernel asks for little but reads and writes. It is
//! opened with direct I/O whatever the program says: its reads and writes reach the drive as they are, several at once.
//! What the kernel caches in spite of that is dropped when the content changes, and soon in any case. There are no
//! other files, names or sizes: all that would change these is refused.

mod abi;
mod metadata;
mod mount;
mod page_cache;
mod session;

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;

pub use self::session::{FuseSession, Reply};

use self::metadata::MAX_DATA_BYTES;
use self::mount::Mount;
use self::page_cache::Invalidator;
use super::{Probe, Transport};
use crate::command::{Answer, Command, Drive};
use crate::namespace::NamespaceDrive;

/// Requests, and their bytes, taken in one turn, so that other transports have theirs.
const TURN: usize = 64;
const TURN_BYTES: usize = 4 << 20;

/// What the probe reads, at depth one, to find out how long the way through FUSE takes.
const PROBE_BYTES: usize = 4096;

/// A namespace of a drive that is mounted on a file.
pub struct Fuse {
    mount: Mount,
    session: FuseSession,
    request: Vec<u8>,
    out: Vec<u8>,
    /// False once the file was unmounted, from when on the kernel sends no requests.
    mounted: bool,
    invalidator: Option<Invalidator>,
    /// The request of the invalidator after which nothing cached is stale.
    stale_until: u64,
    /// The request after which all is dropped that was read long enough ago.
    expired_until: u64,
    /// The namespace that the file is, and where it lies on the drive once that is known.
    namespace: u32,
    place: Range<u64>,
}

impl Fuse {
    /// Mounts a namespace on `path`, a file that is empty or not there yet; `number` is the transport's.
    pub fn new(number: u32, path: &Path, namespace: u32) -> io::Result<Self> {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mount = Mount::new(path)?;
        let mut session = FuseSession::new(number, owner);
        let invalidator = if mount.aborts() { Invalidator::start(&mount.device) } else { None };
        if invalidator.is_none() {
            session.cached = None;
        }
        Ok(Self {
            mount,
            session,
            request: vec![0; MAX_DATA_BYTES as usize + 4096],
            out: Vec::new(),
            mounted: true,
            invalidator,
            stale_until: 0,
            expired_until: 0,
            namespace,
            place: 0..0,
        })
    }

    /// Drops from the page cache what was read long enough ago.
    fn drop_expired(&mut self) {
        let (Some(cached), Some(invalidator)) = (&mut self.session.cached, &mut self.invalidator) else {
            return;
        };
        if cached.is_empty() || !invalidator.is_done(self.expired_until) {
            return;
        }
        cached.dropped();
        for range in cached.expired(Instant::now()) {
            self.expired_until = invalidator.request(range.clone());
        }
    }

    /// Takes requests from /dev/fuse. Returns false if there were none.
    fn take_all(&mut self, drive: &mut dyn Drive) -> io::Result<bool> {
        let (mut requests, mut bytes) = (0, 0);
        while self.mounted && requests < TURN && bytes < TURN_BYTES {
            match rustix::io::read(&self.mount.device, &mut self.request[..]) {
                Ok(length) => {
                    self.out.clear();
                    let mut drive = NamespaceDrive::new(drive, self.namespace).ok_or(Errno::NXIO)?;
                    self.session.received(&self.request[..length], &mut drive, &mut self.out);
                    if !self.out.is_empty() {
                        send(&self.mount.device, &[IoSlice::new(&self.out)])?;
                    }
                    (requests, bytes) = (requests + 1, bytes + length);
                }
                // ENOENT: the program was interrupted before its request could be read.
                Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => break,
                Err(Errno::NODEV | Errno::CONNABORTED) => self.mounted = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(requests > 0)
    }
}

impl Transport for Fuse {
    fn name(&self) -> &'static str {
        "fuse"
    }

    fn address(&self) -> String {
        self.mount.path.display().to_string()
    }

    fn poll(&mut self, drive: &mut dyn Drive) -> io::Result<bool> {
        if let Some(namespace) = drive.namespace(self.namespace) {
            self.place = namespace.range();
        }
        let any = self.take_all(drive)?;
        self.drop_expired();
        Ok(any)
    }

    fn answer(&mut self, answer: Answer, drive: &dyn Drive) {
        let Some(reply) = self.session.answered(&answer.command, answer.status) else {
            return;
        };
        let (head, content) = match &reply {
            Reply::Short(bytes) => (&bytes[..], &[][..]),
            Reply::Content(header, range) => {
                let content = drive.content(self.place.start + range.start, range.end - range.start);
                (&header[..], content)
            }
        };
        let sent = send(&self.mount.device, &[IoSlice::new(head), IoSlice::new(content)]);
        self.mounted &= sent.is_ok();
    }

    fn changed(&mut self, range: &Range<u64>) {
        let (Some(cached), Some(invalidator)) = (&self.session.cached, &mut self.invalidator) else {
            return;
        };
        let (start, end) = (range.start.max(self.place.start), range.end.min(self.place.end));
        if start >= end {
            return; // another namespace's
        }
        let in_file = start - self.place.start..end - self.place.start;
        if cached.overlaps(&in_file) {
            self.stale_until = invalidator.request(in_file);
        }
    }

    fn is_stale(&self) -> bool {
        let invalidator = self.invalidator.as_ref().filter(|_| self.mounted);
        invalidator.is_some_and(|invalidator| !invalidator.is_done(self.stale_until))
    }

    fn caches(&self, command: &Command) -> bool {
        self.session.caches(command)
    }

    fn send(&mut self, _drive: &dyn Drive) -> io::Result<bool> {
        Ok(false) // each reply was a write of its own: the kernel takes no two at once
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        if self.mounted {
            into.push(self.mount.device.as_fd());
        }
    }

    fn connections(&self) -> usize {
        usize::from(self.mounted)
    }

    fn namespace(&self) -> u32 {
        self.namespace
    }

    fn probe(&self) -> Option<Probe> {
        let path = self.mount.path.clone();
        Some(Box::new(move |for_ms: u64, _slow: bool| {
            let (file, mut took_ns) = (File::open(&path)?, Vec::new());
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(for_ms) {
                let sent = Instant::now();
                file.read_at(&mut [0; PROBE_BYTES], 0)?;
                took_ns.push(sent.elapsed().as_nanos() as u64);
            }
            Ok(took_ns)
        }))
    }
}

/// Sends one reply. It is no error if no program waits for it any more.
fn send(device: &OwnedFd, parts: &[IoSlice<'_>]) -> io::Result<()> {
    match rustix::io::writev(device, parts) {
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
