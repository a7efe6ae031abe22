//! The backing file: what survives the process.
//!
//! It holds what is durable and nothing else. Nothing of it is mapped: a disk that is full or fails, or somebody who
//! truncates the file, gives an error here and not a signal. Its errors become the status with which a drive answers.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::Errno;

use crate::{Error, Status};

pub struct Backing {
    file: Arc<File>,
    path: PathBuf,
    size_bytes: u64,
    table_bytes: u64,
    is_new: bool,
    read_only: bool,
    /// Whether the file system makes holes.
    makes_holes: bool,
}

impl Backing {
    /// Opens a file and locks it: one server at a time writes it, or any number read it. A file that
    /// is not there or empty is made, sparse, of `size_bytes`; else they must agree. A table of `table_bytes`, or
    /// none, is behind the content.
    pub fn open(path: &Path, size_bytes: Option<u64>, table_bytes: u64, read_only: bool) -> Result<Self, Error> {
        let wrong = |what: String| Error::Backing { path: path.to_owned(), what };
        let file = OpenOptions::new()
            .read(true)
            .write(!read_only)
            .create(!read_only)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| match status(&error) {
                Status::ReadOnly => wrong(format!(
                    "cannot be opened: {error}; expected a file that can be written, or a drive that is read only"
                )),
                _ => wrong(format!("cannot be opened: {error}")),
            })?;
        let about = file.metadata().map_err(|error| wrong(error.to_string()))?;
        if !about.is_file() {
            return Err(wrong("is no regular file, expected one".into()));
        }
        let lock =
            if read_only { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
        rustix::fs::flock(&file, lock).map_err(|error| match error {
            Errno::WOULDBLOCK => wrong("is served by another process; expected a file of its own".into()),
            error => wrong(format!("cannot be locked: {error}")),
        })?;
        let whole_bytes = size_bytes.map(|size_bytes| size_bytes + table_bytes);
        let whole_bytes = sized(&file, about.len(), whole_bytes, read_only).map_err(wrong)?;
        let size_bytes = whole_bytes.saturating_sub(table_bytes);
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::WillNeed); // only makes reads faster
        Ok(Self {
            file: Arc::new(file),
            path: path.to_owned(),
            size_bytes,
            table_bytes,
            is_new: about.len() == 0,
            read_only,
            makes_holes: true,
        })
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The table behind the content; `None` of a file that was just made.
    pub fn table(&self) -> Result<Option<Vec<u8>>, Status> {
        if self.is_new {
            return Ok(None);
        }
        let mut table = vec![0; self.table_bytes as usize];
        self.read(self.size_bytes, &mut table)?;
        Ok(Some(table))
    }

    /// Writes a part of the table.
    pub fn write_table(&self, at: u64, bytes: &[u8]) -> Result<(), Status> {
        self.write(self.size_bytes + at, bytes)
    }

    /// Whether it cannot be written.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// The file, for the thread that syncs it.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Calls back for each range that holds data, bytes; all of the file where its holes cannot be found. Nobody
    /// else uses the position of the file.
    pub fn each_data_range(&self, mut tell: impl FnMut(Range<u64>)) {
        let mut from = 0;
        while from < self.size_bytes {
            let data = match rustix::fs::seek(&*self.file, SeekFrom::Data(from)) {
                Ok(data) => data,
                Err(Errno::NXIO) => return, // only holes are left
                Err(_) => from,
            };
            let hole = rustix::fs::seek(&*self.file, SeekFrom::Hole(data));
            let end = hole.unwrap_or(self.size_bytes).min(self.size_bytes);
            tell(data..end);
            from = end.max(data + 1);
        }
    }

    /// Reads a range; what lies behind the end of a truncated file is an error.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), Status> {
        self.file.read_exact_at(into, offset_bytes).map_err(|error| status(&error))
    }

    /// Writes a range: the page cache has it then, and so has whoever opens the file.
    pub fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), Status> {
        self.file.write_all_at(bytes, offset_bytes).map_err(|error| status(&error))
    }

    /// A range becomes a hole, or zeroes where there are none.
    pub fn zero(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Status> {
        if self.makes_holes {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(&*self.file, hole, offset_bytes, length_bytes) {
                Ok(()) => return Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.makes_holes = false,
                Err(error) => return Err(status(&error.into())),
            }
        }
        let zeroes = [0; 8192];
        let mut done = 0;
        while done < length_bytes {
            let part = (length_bytes - done).min(zeroes.len() as u64);
            self.write(offset_bytes + done, &zeroes[..part as usize])?;
            done += part;
        }
        Ok(())
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // The file itself is closed later where it is being synced, or where a child has just begun.
        let _ = rustix::fs::flock(&*self.file, FlockOperation::Unlock); // closing it does so, too
    }
}

/// A backing file that was made for a drive that is not served yet; dropped, it is removed again.
pub struct NewFile {
    path: PathBuf,
    file: Arc<File>,
    is_kept: bool,
}

impl NewFile {
    /// The file of `backing`, which was not there before.
    pub fn of(backing: &Backing) -> Self {
        Self { path: backing.path.clone(), file: Arc::clone(&backing.file), is_kept: false }
    }

    /// The drive is served: the file stays.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let id = |of: fs::Metadata| (of.dev(), of.ino());
        let here = fs::symlink_metadata(&self.path).map(id).ok();
        if !self.is_kept && here.is_some() && here == self.file.metadata().map(id).ok() {
            let _ = fs::remove_file(&self.path); // it was refused already, with a reason
        }
    }
}

/// The status of a command whose access to the backing file failed.
pub fn status(error: &io::Error) -> Status {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Status::NoSpace,
        Some(Errno::ROFS | Errno::PERM | Errno::ACCESS) => Status::ReadOnly,
        _ => Status::Failed,
    }
}

fn sized(file: &File, is_bytes: u64, wanted_bytes: Option<u64>, read_only: bool) -> Result<u64, String> {
    match (is_bytes, wanted_bytes) {
        (0, Some(wanted_bytes)) if !read_only => {
            file.set_len(wanted_bytes).map_err(|error| format!("cannot be made {wanted_bytes} bytes long: {error}"))?;
            Ok(wanted_bytes)
        }
        (0, _) => Err("is empty, expected one that holds a drive, or a size to make it".into()),
        (is_bytes, Some(wanted_bytes)) if is_bytes != wanted_bytes => {
            Err(format!("has {is_bytes} bytes, expected {wanted_bytes}: leave the size out to take that of the file"))
        }
        (is_bytes, _) => Ok(is_bytes),
    }
}
