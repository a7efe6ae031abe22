//! Mounts on a file: by mount(2) as root, else by fusermount3.

use std::fs::OpenOptions;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType};

/// Kind of mount, as /proc/mounts tells it.
const KIND: &str = "fuse.ioassay";
const HELPER: &str = "fusermount3";

/// A mounted file. When it is dropped, the file is unmounted, and removed if it was made here. A watcher process unmounts
/// it if this process is killed: else every access to the file would fail with a lost connection forever.
pub struct Mount {
    pub path: PathBuf,
    pub device: OwnedFd,
    root: bool,
    made: bool,
    /// The file that ends the mount at once, where the system has one.
    abort: Option<PathBuf>,
    watcher: Option<Child>,
}

impl Mount {
    /// Mounts on a file that is empty or not there yet.
    pub fn new(path: &Path) -> io::Result<Self> {
        let made = prepare(path)?;
        let undo = |error| {
            if made {
                let _ = std::fs::remove_file(path);
            }
            error
        };
        let path = path.canonicalize().map_err(undo)?;
        let root = rustix::process::geteuid().is_root();
        let mounted = if root { by_kernel(&path) } else { by_helper(&path) };
        let device = mounted.map_err(undo)?;
        let abort = abort_file(&path);
        Ok(Self { watcher: watch(&path, root, abort.as_deref()), abort, path, device, root, made })
    }

    /// Whether it can be ended while the kernel waits for an answer.
    pub fn aborts(&self) -> bool {
        self.root || self.abort.is_some()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.root {
            let flags = UnmountFlags::DETACH | UnmountFlags::FORCE;
            let _ = rustix::mount::unmount(&self.path, flags);
        }
        if let Some(abort) = &self.abort {
            let _ = std::fs::write(abort, "1"); // gone with the mount
        }
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
        if self.made {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A process that unmounts when nobody holds the other end of its standard input any more. It needs
/// nothing but a shell; where there is none, a killed drive's mount stays until the next one is
/// served there. It is aborted first: a thread of the killed process may wait for an answer of its.
fn watch(path: &Path, root: bool, abort: Option<&Path>) -> Option<Child> {
    let unmount = if root { "umount -l -f" } else { "fusermount3 -u -q -z" };
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(format!("trap '' INT TERM HUP; read -r _; [ -z \"$1\" ] || echo 1 >\"$1\"; exec {unmount} -- \"$0\""))
        .arg(path)
        .arg(abort.unwrap_or(Path::new("")))
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    shell.spawn().ok()
}

/// The file that aborts the mount when it is written, if it may be; nothing is asked of the mount.
fn abort_file(path: &Path) -> Option<PathBuf> {
    let (flags, mask) = (AtFlags::STATX_DONT_SYNC, StatxFlags::empty());
    let found = rustix::fs::statx(CWD, path, flags, mask).ok()?;
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    let abort = PathBuf::from(format!("/sys/fs/fuse/connections/{device}/abort"));
    rustix::fs::access(&abort, Access::WRITE_OK).ok()?;
    Some(abort)
}

/// Prepares a file to mount on. Returns true if it had to be made.
fn prepare(path: &Path) -> io::Result<bool> {
    let opened = OpenOptions::new().read(true).open(path);
    match opened.and_then(|file| file.metadata()) {
        Ok(found) if found.is_file() && found.len() == 0 => Ok(false),
        Ok(_) => Err(failed(path, "exists; expected an empty file or a new path")),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            // What a drive left that was killed: a mount that nobody serves.
            rustix::mount::unmount(path, UnmountFlags::DETACH)
                .map_err(|_| failed(path, "is still mounted by a drive that ended; fusermount3 -u it"))?;
            prepare(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            Ok(true)
        }
        Err(error) => Err(failed(path, &error.to_string())),
    }
}

fn failed(path: &Path, what: &str) -> io::Error {
    io::Error::other(format!("{}: {what}", path.display()))
}

fn by_kernel(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let options = format!(
        "fd={},rootmode=100000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        user.as_raw(),
        group.as_raw()
    );
    let options = std::ffi::CString::new(options).map_err(io::Error::other)?;
    let limits = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("ioassay", path, KIND, limits, Some(options.as_c_str()))
        .map_err(|error| failed(path, &format!("cannot be mounted: {error}")))?;
    Ok(device)
}

/// The helper mounts, and hands over the descriptor on the socket that its environment names.
fn by_helper(path: &Path) -> io::Result<OwnedFd> {
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let mut helper = Command::new(HELPER);
    helper
        .args(["-o", "fsname=ioassay,subtype=ioassay,nosuid,nodev", "--"])
        .arg(path)
        .env("_FUSE_COMMFD", "0")
        .process_group(0)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null());
    let status = helper.status().map_err(|error| {
        failed(path, &format!("cannot be mounted without root: {HELPER}: {error}; Debian has it in the package fuse3"))
    })?;
    drop(helper);
    if !status.success() {
        return Err(failed(path, &format!("{HELPER} could not mount it")));
    }
    let device = received(&ours)?;
    let flags = rustix::fs::fcntl_getfl(&device)?;
    rustix::fs::fcntl_setfl(&device, flags | OFlags::NONBLOCK)?;
    Ok(device)
}

fn received(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket.as_fd(), &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    ancillary
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        })
        .ok_or_else(|| io::Error::other(format!("{HELPER} handed over no descriptor")))
}
