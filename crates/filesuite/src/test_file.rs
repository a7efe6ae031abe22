//! The file that is measured. It is made here, never another's, and deleted at the end unless it is to stay.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::suite::Opening;

/// Room that is left on a filesystem, whatever is asked for.
const SPARED_BYTES: u64 = 64 << 20;
/// On a small filesystem, one part in this number is left instead.
const SPARED_PART: u64 = 20;

/// A file of ours. It is deleted when this is dropped, if it is still the one that was made.
pub struct TestFile {
    path: PathBuf,
    /// Device and inode; `None` while it is not there.
    made: Option<(u64, u64)>,
    /// It stays when this is dropped.
    stays: bool,
}

impl TestFile {
    /// A file at `path`, which is not made yet. What is there is refused, or with `overwrite` deleted
    /// if it is a regular file; the filesystem must let a file be made.
    pub fn claim(path: &Path, overwrite: bool) -> Result<Self, Error> {
        let refused = |why: &str| Error::Refused { path: path.to_owned(), why: why.to_owned() };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(system(path, "look for the file", &error)),
            Ok(found) if found.is_symlink() => {
                return Err(refused("is a symbolic link, which is not followed; name the file itself (-f)"));
            }
            Ok(found) if !found.is_file() => {
                return Err(refused("is no regular file; name one that is not there yet (-f)"));
            }
            Ok(_) if !overwrite => {
                return Err(refused("exists, and is not ours; --overwrite deletes it, or name another (-f)"));
            }
            Ok(_) => {
                fs::remove_file(path).map_err(|error| system(path, "delete the file", &error))?;
            }
        }
        let mut own = Self { path: path.to_owned(), made: None, stays: false };
        own.prove()?;
        Ok(own)
    }

    /// A regular file of at least `bytes` that is there and stays there: only for tests that do not write.
    pub fn adopt(path: &Path, bytes: u64) -> Result<Self, Error> {
        let refused = |why: String| Error::Refused { path: path.to_owned(), why };
        let found = fs::symlink_metadata(path).map_err(|error| system(path, "look for the file", &error))?;
        if !found.is_file() {
            return Err(refused("is no regular file; name the file itself (-f)".to_owned()));
        }
        if found.len() < bytes {
            let size = found.len();
            return Err(refused(format!(
                "has {size} bytes, and {bytes} are to be read; take a smaller size (-s), or write it first (-i 0 -w)"
            )));
        }
        Ok(Self { path: path.to_owned(), made: Some((found.dev(), found.ino())), stays: true })
    }

    /// It is not deleted at the end.
    pub fn keep(&mut self) {
        self.stays = true;
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_made(&self) -> bool {
        self.made.is_some()
    }

    /// Make it, set its length and delete it again, untimed: what cannot be is said before the first test.
    pub fn prove(&mut self) -> Result<(), Error> {
        let proven = self.open(Opening::Fresh, OFlags::RDWR).and_then(|file| rustix::fs::ftruncate(&file, 0));
        self.remove();
        let failed = |errno| Error::System { path: self.path.clone(), step: "make the file", errno };
        proven.map_err(failed)
    }

    /// Open it as a pass wants it. Links are not followed, and a file that is there is not taken over.
    pub fn open(&mut self, opening: Opening, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match opening {
            Opening::Fresh => {
                // IOzone: creat, close, and open again with the flags that are asked for.
                self.remove();
                drop(self.create(OFlags::WRONLY | OFlags::TRUNC)?);
                self.open_made(flags)?
            }
            Opening::Truncated | Opening::MadeIfAbsent if !self.is_made() => self.create(flags)?,
            Opening::Truncated => self.open_made(flags | OFlags::TRUNC)?,
            Opening::MadeIfAbsent | Opening::Existing => self.open_made(flags)?,
        };
        Ok(file)
    }

    fn create(&mut self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.path, flags, Mode::from_raw_mode(0o640))?;
        self.made = Some(identity(&file)?);
        Ok(file)
    }

    fn open_made(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        // Truncating waits until the file is known to be ours.
        let file = rustix::fs::open(&self.path, flags - OFlags::TRUNC, Mode::empty())?;
        if Some(identity(&file)?) != self.made {
            return Err(Errno::STALE);
        }
        if flags.contains(OFlags::TRUNC) {
            rustix::fs::ftruncate(&file, 0)?;
        }
        Ok(file)
    }

    /// Delete it, if it is there and still the one that was made.
    pub fn remove(&mut self) {
        let Some(made) = self.made.take() else { return };
        if let Ok(found) = fs::symlink_metadata(&self.path) {
            if (found.dev(), found.ino()) == made {
                // Nothing can be done about a file that cannot be deleted; the next run refuses it by name.
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    /// After its filesystem was mounted again, it may have another device number.
    pub fn find_again(&mut self) -> Result<(), Errno> {
        if self.made.is_some() {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = identity(&rustix::fs::open(&self.path, flags, Mode::empty())?)?;
            self.made = Some(found);
        }
        Ok(())
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        if !self.stays {
            self.remove();
        }
    }
}

fn identity(file: &OwnedFd) -> Result<(u64, u64), Errno> {
    let found = rustix::fs::fstat(file)?;
    Ok((found.st_dev, found.st_ino))
}

fn system(path: &Path, step: &'static str, error: &std::io::Error) -> Error {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    Error::System { path: path.to_owned(), step, errno }
}

/// Bytes that files in the folder of `path` may take: what is free for us, less a margin.
pub fn room_bytes(path: &Path) -> Result<u64, Errno> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let found = rustix::fs::statvfs(folder)?;
    let margin = SPARED_BYTES.min(found.f_blocks.saturating_mul(found.f_frsize) / SPARED_PART);
    Ok(found.f_bavail.saturating_mul(found.f_frsize).saturating_sub(margin))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::OFlags;

    use super::{TestFile, room_bytes};
    use crate::suite::Opening;

    #[test]
    fn what_is_there_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs");
        std::fs::write(&path, "precious").unwrap();
        let said = TestFile::claim(&path, false).err().unwrap().to_string();
        assert!(said.contains("--overwrite"), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        for (path, overwrite) in [(&link, true), (&folder.path().to_owned(), true)] {
            assert!(TestFile::claim(path, overwrite).is_err());
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn it_is_gone_at_the_end_unless_it_is_anothers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ours");
        let mut own = TestFile::claim(&path, false).unwrap();
        assert!(!path.exists());
        drop(own.open(Opening::Fresh, OFlags::RDWR).unwrap());
        assert!(path.exists());
        drop(own);
        assert!(!path.exists());

        let mut own = TestFile::claim(&path, false).unwrap();
        drop(own.open(Opening::Fresh, OFlags::RDWR).unwrap());
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        std::fs::write(&path, "another").unwrap();
        assert!(own.open(Opening::Existing, OFlags::RDWR).is_err());
        drop(own);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "another");
    }

    #[test]
    fn a_file_that_is_adopted_or_kept_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ours");
        let mut own = TestFile::claim(&path, false).unwrap();
        drop(own.open(Opening::Fresh, OFlags::RDWR).unwrap());
        own.keep();
        drop(own);
        assert!(path.exists());
        std::fs::write(&path, "12345678").unwrap();
        let mut own = TestFile::adopt(&path, 8).unwrap();
        drop(own.open(Opening::Existing, OFlags::RDONLY).unwrap());
        drop(own);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "12345678");
        let said = TestFile::adopt(&path, 9).err().unwrap().to_string();
        assert!(said.contains("has 8 bytes"), "{said}");
        assert!(TestFile::adopt(folder.path(), 0).is_err());
    }

    #[test]
    fn there_is_less_room_than_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let free = rustix::fs::statvfs(folder.path()).unwrap();
        let room = room_bytes(&folder.path().join("file")).unwrap();
        assert!(room < free.f_bavail * free.f_frsize);
    }
}
