//! The numbers and layouts of the FUSE protocol (Linux UAPI, fuse.h, version 7): what is read from
//! and written to /dev/fuse, in the machine's own byte order.

use std::ops::Range;

/// Protocol version that is spoken. The kernel's may be newer, and then it adapts.
pub const MAJOR: u32 = 7;
/// Minor version: 31 is Linux 5.4.
pub const MINOR: u32 = 38;
/// Node of the only file, which is the root.
pub const ROOT: u64 = 1;

pub const IN_HEADER: usize = 40;
pub const OUT_HEADER: usize = 16;
/// Bytes between a write's header and its data.
pub const WRITE_IN: usize = 40;

/// In the flags of a read: it is a program's own. Reads into the page cache have no owner.
pub const READ_HAS_OWNER: u32 = 1 << 1;
/// Code of the notification that drops a range of a file from the page cache.
const INVALIDATE_INODE: i32 = 2;

pub mod opcode {
    //! Requests of the kernel.
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
}

pub mod init {
    //! Flags of INIT that are asked for.
    pub const ASYNC_READ: u32 = 1 << 0;
    pub const BIG_WRITES: u32 = 1 << 5;
    pub const ASYNC_DIO: u32 = 1 << 15;
    pub const MAX_PAGES: u32 = 1 << 22;
}

/// Flags of an OPEN's reply: no page cache, and parallel writes.
pub const OPEN_DIRECT: u32 = (1 << 0) | (1 << 6);

pub mod attribute {
    //! Which of SETATTR's fields count.
    pub const SIZE: u32 = 1 << 3;
    pub const HANDLE: u32 = 1 << 6;
}

/// A request: checked to be as long as it says.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub opcode: u32,
    /// The number of the request, which the reply repeats.
    pub unique: u64,
    /// The fields behind the header, without a write's data.
    pub fields: Fields<'a>,
    /// The data of a write.
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a request from /dev/fuse. Returns `None` when it is not whole.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let whole = Fields(bytes);
        let (length, opcode, unique) = (whole.u32(0).ok()?, whole.u32(4).ok()?, whole.u64(8).ok()?);
        if length as usize != bytes.len() {
            return None;
        }
        let (body, data) = match bytes.get(IN_HEADER..)? {
            all if opcode == opcode::WRITE => all.split_at_checked(WRITE_IN).unwrap_or((all, &[])),
            all => (all, &[][..]),
        };
        Some(Self { opcode, unique, fields: Fields(body), data })
    }
}

/// Numbers at their places; what lies beyond the end makes a request invalid.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    pub fn u32(&self, at: usize) -> Result<u32, i32> {
        self.bytes(at).map(u32::from_ne_bytes)
    }

    pub fn u64(&self, at: usize) -> Result<u64, i32> {
        self.bytes(at).map(u64::from_ne_bytes)
    }

    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], i32> {
        self.0.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(libc::EINVAL)
    }
}

/// The header of a reply with this number of bytes after it. `error` is an errno or 0.
pub fn out_header(unique: u64, error: i32, following: usize) -> [u8; OUT_HEADER] {
    let mut header = [0; OUT_HEADER];
    let length = (OUT_HEADER + following) as u32;
    header[..4].copy_from_slice(&length.to_ne_bytes());
    header[4..8].copy_from_slice(&(-error).to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// A notification that drops a range of the file from the page cache.
pub fn invalidation(range: &Range<u64>) -> [u8; OUT_HEADER + 24] {
    let length = OUT_HEADER as u32 + 24;
    let mut message = [0; OUT_HEADER + 24];
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..8].copy_from_slice(&INVALIDATE_INODE.to_ne_bytes());
    let fields = [ROOT, range.start, range.end - range.start].map(u64::to_ne_bytes);
    message[OUT_HEADER..].copy_from_slice(fields.as_flattened());
    message
}
