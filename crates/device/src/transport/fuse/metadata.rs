//! Answers about the file: the protocol's version, and what stat(2) and statfs(2) say. None of them needs the drive.

use super::abi::{self, Fields, MAJOR, MINOR, ROOT, Request, attribute, init, opcode};
use crate::command::DriveInfo;

/// Bytes of data in one request at most.
pub const MAX_DATA_BYTES: u32 = 1 << 20;
const PAGE_BYTES: u32 = 4096;
/// Requests that the kernel has under way for programs that do not wait: more than any queue.
const BACKGROUND: u16 = 4096;
/// Short, so that a drive that was killed is seen to be gone.
const ATTRIBUTES_HOLD_S: u64 = 1;
const MODE: u32 = 0o100_600;

/// The body of the answer to a request that is no command of the drive.
pub fn reply_body(request: Request<'_>, owner: (u32, u32), facts: &DriveInfo) -> Result<Vec<u8>, i32> {
    let fields = request.fields;
    match request.opcode {
        opcode::INIT => greet(fields),
        opcode::GETATTR => Ok(attributes(owner, facts)),
        opcode::SETATTR => {
            check_size(fields, facts)?;
            Ok(attributes(owner, facts))
        }
        opcode::OPEN => open(fields, facts),
        opcode::STATFS => Ok(statistics(facts)),
        opcode::RELEASE | opcode::FLUSH | opcode::DESTROY => Ok(Vec::new()),
        _ => Err(libc::ENOSYS),
    }
}

/// A body of longs, and then of shorter words.
fn words(longs: &[u64], shorts: &[u32]) -> Vec<u8> {
    let longs = longs.iter().flat_map(|long| long.to_ne_bytes());
    longs.chain(shorts.iter().flat_map(|short| short.to_ne_bytes())).collect()
}

/// `fuse_attr_out`: how long it holds, then what stat(2) tells.
fn attributes((user, group): (u32, u32), facts: &DriveInfo) -> Vec<u8> {
    let size = facts.size_bytes;
    words(
        &[ATTRIBUTES_HOLD_S, 0, ROOT, size, size / 512, 0, 0, 0],
        &[0, 0, 0, MODE, 1, user, group, 0, facts.preferred_bytes, 0],
    )
}

/// `fuse_init_out`; the kernel and we speak the older of the two minor versions.
fn greet(fields: Fields<'_>) -> Result<Vec<u8>, i32> {
    let (major, minor, offered) = (fields.u32(0)?, fields.u32(4)?, fields.u32(12)?);
    if major != MAJOR || minor < 31 {
        return Err(libc::EOPNOTSUPP);
    }
    let wanted = init::ASYNC_READ | init::BIG_WRITES | init::ASYNC_DIO | init::MAX_PAGES;
    let mut body = words(&[], &[MAJOR, MINOR.min(minor), MAX_DATA_BYTES, wanted & offered]);
    body.extend([BACKGROUND, BACKGROUND / 4 * 3].map(u16::to_ne_bytes).concat());
    body.extend(words(&[], &[MAX_DATA_BYTES, 1]));
    body.extend(((MAX_DATA_BYTES / PAGE_BYTES) as u16).to_ne_bytes());
    body.resize(64, 0);
    Ok(body)
}

/// Refuses a change of attributes that would change the size. As with a block device, opening it with
/// `O_TRUNC` changes nothing, and making it another size is an error.
fn check_size(fields: Fields<'_>, facts: &DriveInfo) -> Result<(), i32> {
    let (valid, size) = (fields.u32(0)?, fields.u64(16)?);
    let by_path_to_nothing = valid & attribute::HANDLE == 0 && size == 0;
    let kept = valid & attribute::SIZE == 0 || size == facts.size_bytes || by_path_to_nothing;
    if kept { Ok(()) } else { Err(libc::EINVAL) }
}

fn open(fields: Fields<'_>, facts: &DriveInfo) -> Result<Vec<u8>, i32> {
    let writes = fields.u32(0)? & 0b11 != 0;
    if writes && facts.read_only {
        return Err(libc::EROFS);
    }
    Ok(words(&[0], &[abi::OPEN_DIRECT, 0]))
}

/// `fuse_statfs_out`: a full file system with one file.
fn statistics(facts: &DriveInfo) -> Vec<u8> {
    let blocks = facts.size_bytes / u64::from(PAGE_BYTES);
    let mut body = words(&[blocks, 0, 0, 1, 0], &[PAGE_BYTES, 255, PAGE_BYTES]);
    body.resize(80, 0);
    body
}
