//! What a program asks of the file's content, cut to the file's size.

use std::ops::Range;

use super::abi::{self, Fields, Request, opcode};
use super::metadata::MAX_DATA_BYTES;
use crate::command::Op;

const O_DSYNC: u32 = libc::O_DSYNC as u32;

/// Modes of fallocate(2).
const KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
const PUNCH_HOLE: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32;
const ZERO_RANGE: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;

/// What a program asks of the file.
pub struct FileRequest {
    pub op: Op,
    pub range: Range<u64>,
    pub durable: bool,
    /// Whether it is read into the page cache.
    pub caches: bool,
}

impl FileRequest {
    /// Reads a request to a file of this size.
    pub fn read(request: Request<'_>, size: u64) -> Result<Self, i32> {
        match request.opcode {
            opcode::READ | opcode::WRITE => Self::transfer(request, size).ok_or(libc::EINVAL),
            opcode::FALLOCATE => Self::allocation(request.fields(), size),
            _ => Ok(Self { op: Op::Flush, range: 0..0, durable: false, caches: false }),
        }
    }

    fn transfer(request: Request<'_>, size: u64) -> Option<Self> {
        let fields = request.fields();
        let (offset, length) = (fields.u64(8)?, fields.u32(16)?);
        let range = within(offset, length.into(), size);
        if request.opcode == opcode::READ {
            let caches = fields.u32(20)? & abi::READ_HAS_OWNER == 0;
            return (range.end - range.start <= u64::from(MAX_DATA_BYTES)).then_some(Self {
                op: Op::Read,
                range,
                durable: false,
                caches,
            });
        }
        let durable = fields.u32(32)? & O_DSYNC != 0;
        (request.data().len() == length as usize).then_some(Self { op: Op::Write, range, durable, caches: false })
    }

    /// `fuse_fallocate_in`. The size is fixed: what the kernel would take for growth is refused.
    fn allocation(fields: Fields<'_>, size: u64) -> Result<Self, i32> {
        let read = || Some((fields.u64(8)?, fields.u64(16)?, fields.u32(24)?));
        let (offset, length, mode) = read().ok_or(libc::EINVAL)?;
        let op = match mode & !KEEP_SIZE {
            PUNCH_HOLE => Op::Trim,
            ZERO_RANGE => Op::WriteZeroes,
            _ => return Err(libc::EOPNOTSUPP),
        };
        let grows = offset.checked_add(length).is_none_or(|end| end > size);
        if grows && mode & KEEP_SIZE == 0 {
            return Err(libc::EFBIG);
        }
        Ok(Self { op, range: within(offset, length, size), durable: false, caches: false })
    }
}

fn within(offset: u64, length: u64, size: u64) -> Range<u64> {
    offset.min(size)..offset.checked_add(length).map_or(size, |end| end.min(size))
}
