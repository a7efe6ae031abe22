//! What is replayed on: opened and looked at, never created, truncated or made longer.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, ioctl_blksszget, statx};
use rustix::io::Errno;

use crate::{Error, Setup};

/// The first kernel that discards by io_uring (`blkdev_uring_cmd`, block/ioctl.c): others do by a call that waits.
const DISCARDS: (u32, u32) = (6, 12);
/// What every file system can do where it does not say (`STATX_DIOALIGN`, Linux 6.1).
const USUAL_BLOCK: u64 = 512;

/// How a range is made empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trimming {
    /// A hole in a file (`FALLOC_FL_PUNCH_HOLE`).
    Punch,
    /// A command of io_uring.
    Discard,
    /// A call (`BLKDISCARD`), during which nothing else is issued.
    Ioctl,
    /// Nothing is done at all.
    Nothing,
}

/// What a target can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Bounds {
    pub size_bytes: u64,
    /// What offsets and lengths of reads and writes are multiples of.
    pub block_bytes: u64,
    /// The same of trims.
    pub trim_block_bytes: u64,
    pub trimming: Trimming,
    pub direct: bool,
}

/// An open target.
pub struct Target {
    /// None of the target that does nothing.
    pub file: Option<File>,
    pub bounds: Bounds,
}

impl Target {
    /// Opens what `setup` names: to write on it, or to read it and write its caches.
    ///
    /// A block device to write on must not be mounted or in use by another part of the system, unless `setup` says that the
    /// caller has seen to it.
    pub fn open(setup: &Setup, writes: bool) -> Result<Self, Error> {
        let Some(path) = setup.path.clone() else {
            let bounds = Bounds {
                size_bytes: setup.size_bytes.unwrap_or(u64::MAX),
                block_bytes: 1,
                trim_block_bytes: 1,
                trimming: Trimming::Nothing,
                direct: false,
            };
            return Ok(Self { file: None, bounds });
        };
        // Opening a FIFO or a tape would wait or act: looked at first.
        let found = std::fs::metadata(&path).map_err(|error| system(&path, "look at it", &error, ""))?;
        let is_device = found.file_type().is_block_device();
        if !is_device && !found.is_file() {
            return Err(Error::Target { path, why: "is neither a file nor a block device".into() });
        }
        let exclusive = if is_device && writes && setup.exclusive { libc::O_EXCL } else { 0 };
        let direct = if setup.direct { libc::O_DIRECT } else { 0 };
        let opened = OpenOptions::new().read(true).write(writes).custom_flags(exclusive | direct).open(&path);
        let file = opened.map_err(|error| {
            let advice = match Errno::from_io_error(&error) {
                Some(Errno::BUSY) => "; it is mounted, or part of something that is",
                Some(Errno::INVAL) if setup.direct => {
                    "; the file system has no O_DIRECT: replay through the page cache"
                }
                _ => "",
            };
            system(&path, "open it", &error, advice)
        })?;
        let same = file.metadata().map_err(|error| system(&path, "look at it", &error, ""))?;
        if (same.dev(), same.ino()) != (found.dev(), found.ino()) {
            return Err(Error::Target { path, why: "became another file while it was opened".into() });
        }
        let bounds = bounds(&file, is_device, setup).map_err(|errno| Error::System {
            path: path.clone(),
            step: "find its size and blocks",
            errno,
            advice: "",
        })?;
        if let Some(wanted) = setup.size_bytes.filter(|&wanted| wanted > bounds.size_bytes) {
            let why = format!("has {} bytes, expected at least the {wanted} of size_bytes", bounds.size_bytes);
            return Err(Error::Target { path, why });
        }
        if bounds.size_bytes == 0 {
            return Err(Error::Target { path, why: "has no bytes; replay on a file that is as long as wanted".into() });
        }
        let size_bytes = setup.size_bytes.unwrap_or(bounds.size_bytes);
        Ok(Self { file: Some(file), bounds: Bounds { size_bytes, ..bounds } })
    }
}

fn bounds(file: &File, is_device: bool, setup: &Setup) -> Result<Bounds, Errno> {
    let size_bytes = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?;
    let aligned = if is_device {
        ioctl_blksszget(file)?.into()
    } else {
        let known = statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        known.map_or(0, |known| known.stx_dio_offset_align).into()
    };
    let aligned = if aligned == 0 { USUAL_BLOCK } else { aligned };
    Ok(Bounds {
        size_bytes,
        block_bytes: if setup.direct { aligned } else { 1 },
        trim_block_bytes: if is_device { aligned } else { 1 },
        trimming: match is_device {
            false => Trimming::Punch,
            true if kernel() >= DISCARDS => Trimming::Discard,
            true => Trimming::Ioctl,
        },
        direct: setup.direct,
    })
}

fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn system(path: &Path, step: &'static str, error: &std::io::Error, advice: &'static str) -> Error {
    Error::System { path: path.to_owned(), step, errno: Errno::from_io_error(error).unwrap_or(Errno::IO), advice }
}
