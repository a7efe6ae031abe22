//! A filesystem that is unmounted and mounted again, so that nothing of it stays in memory. Only one whose
//! source is a block device, and nothing but this one mount.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::Error;

/// What has to be known to mount a filesystem again.
pub struct Remount {
    at: PathBuf,
    source: PathBuf,
    kind: String,
    flags: MountFlags,
    data: String,
    /// Held open, so that a loop device is not given back while nothing is mounted.
    _device: File,
}

/// One line of /proc/self/mountinfo (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    root: &'a str,
    at: String,
    options: &'a str,
    kind: &'a str,
    source: String,
    data: &'a str,
}

impl Remount {
    /// What is mounted at `at`, which has to be what the file at `path` lies on.
    pub fn of(at: &Path, path: &Path) -> Result<Self, Error> {
        let refused = |why: String| Error::Refused { path: at.to_owned(), why };
        if !rustix::process::geteuid().is_root() {
            return Err(refused("only root may unmount it (-U)".to_owned()));
        }
        let at = std::fs::canonicalize(at).map_err(|error| refused(error.to_string()))?;
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
        if device(folder).is_none() || device(folder) != device(&at) {
            let why = "the file (-f) does not lie on it; only its own filesystem is unmounted (-U)";
            return Err(refused(why.to_owned()));
        }
        let all = std::fs::read_to_string("/proc/self/mountinfo")
            .map_err(|error| refused(format!("/proc/self/mountinfo: {error}")))?;
        Self::chosen(&at, &all).map_err(refused)
    }

    fn chosen(at: &Path, all: &str) -> Result<Self, String> {
        let lines: Vec<_> = all.lines().filter_map(parsed).collect();
        let Some(line) = lines.iter().rfind(|line| Path::new(&line.at) == at) else {
            return Err("nothing is mounted there; expected a mount point (-U)".to_owned());
        };
        if line.root != "/" || at == Path::new("/") {
            return Err("is the root, or part of another mount; expected a whole filesystem (-U)".to_owned());
        }
        if let Some(below) = lines.iter().find(|line| Path::new(&line.at) != at && Path::new(&line.at).starts_with(at))
        {
            return Err(format!("{} is mounted below it; only one filesystem is unmounted (-U)", below.at));
        }
        let source = PathBuf::from(&line.source);
        let is_device = std::fs::metadata(&source).is_ok_and(|found| found.file_type().is_block_device());
        if !is_device {
            let wanted = "expected one on a block device, which keeps its files while it is not mounted (-U)";
            return Err(format!("is {} from '{}', {wanted}", line.kind, line.source));
        }
        let device = File::open(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        let (flags, data) = (flags_of(line.options), data_of(line.data));
        Ok(Self { at: at.to_owned(), source, kind: line.kind.to_owned(), flags, data, _device: device })
    }

    /// Unmount and mount. Nothing else runs between the two, so that no exit leaves it unmounted.
    pub fn again(&self) -> Result<(), Error> {
        let failed = |step, errno| Error::System { path: self.at.clone(), step, errno };
        rustix::mount::unmount(&self.at, UnmountFlags::NOFOLLOW)
            .map_err(|errno| failed("unmount it (is something there still open, or a shell's folder?)", errno))?;
        self.mount()
            .or_else(|_| self.mount())
            .map_err(|errno| failed("mount it again, which IS STILL TO DO by hand: see mount(8)", errno))
    }

    fn mount(&self) -> rustix::io::Result<()> {
        let data = std::ffi::CString::new(self.data.as_str()).map_err(|_| rustix::io::Errno::INVAL)?;
        rustix::mount::mount(&self.source, &self.at, self.kind.as_str(), self.flags, Some(data.as_c_str()))
    }
}

fn parsed(line: &str) -> Option<Line<'_>> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let mut right = right.split(' ');
    Some(Line {
        root: left.next()?,
        at: unescaped(left.next()?),
        options: left.next()?,
        kind: right.next()?,
        source: unescaped(right.next()?),
        data: right.next()?,
    })
}

/// Blanks and backslashes of paths are written as octal numbers.
fn unescaped(text: &str) -> String {
    let parts = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    parts.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn flags_of(options: &str) -> MountFlags {
    options.split(',').fold(MountFlags::empty(), |flags, option| {
        flags
            | match option {
                "ro" => MountFlags::RDONLY,
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                _ => MountFlags::empty(),
            }
    })
}

/// The filesystem's own options, without those that are flags.
fn data_of(options: &str) -> String {
    let own = options.split(',').filter(|option| !matches!(*option, "rw" | "ro"));
    own.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{MountFlags, Remount, data_of, flags_of, parsed};

    const LINE: &str = "36 35 7:0 / /mnt/a\\040b rw,noatime shared:1 - ext4 /dev/loop0 rw,errors=continue";

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line = parsed(LINE).unwrap();
        assert_eq!((line.root, line.at.as_str(), line.kind), ("/", "/mnt/a b", "ext4"));
        assert_eq!(flags_of(line.options), MountFlags::NOATIME);
        assert_eq!(data_of(line.data), "errors=continue");
        assert_eq!(parsed("nonsense"), None);
    }

    #[test]
    fn what_would_not_come_back_is_refused() {
        let said = |at: &str, all: &str| Remount::chosen(Path::new(at), all).err().unwrap();
        let memory = "36 35 0:9 / /mnt rw - tmpfs tmpfs rw";
        assert!(said("/mnt", memory).contains("block device"));
        assert!(said("/other", memory).contains("nothing is mounted"));
        assert!(said("/", "1 0 8:1 / / rw - ext4 /dev/sda1 rw").contains("root"));
        assert!(said("/mnt", "36 35 8:1 /part /mnt rw - ext4 /dev/sda1 rw").contains("part"));
        let below = format!("{memory}\n37 36 0:10 / /mnt/below rw - tmpfs tmpfs rw");
        assert!(said("/mnt", &below).contains("/mnt/below"));
    }
}
