//! Sockets that listen, Unix or TCP, and streams that come from them. Neither ever waits.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt,
};

use super::{Endpoint, Stream};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Why a transport cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{endpoint} is taken by a program that listens there: end it, or choose another place")]
    Taken { endpoint: Endpoint },
    /// A file that is no socket.
    #[error("{} exists and is no socket: remove it, or choose another path", path.display())]
    NotASocket { path: PathBuf },
    /// A port that is not everybody's.
    #[error("{endpoint} is a port at which only root may listen: choose one from 1024 on")]
    Privileged { endpoint: Endpoint },
    #[error("cannot listen at {endpoint}: {source}")]
    Failed { endpoint: Endpoint, source: io::Error },
}

/// Answers that a Unix socket takes before the client reads any, as far as the system allows. With Linux's usual 208
/// KiB one of four loads of 32 reads of 4 KiB stayed at a fifth of its rate: most likely since a full socket has room
/// again only when three quarters are read (`unix_writable`, `net/unix/af_unix.c`).
const UNIX_SEND_BYTES: usize = 1 << 20;

/// A socket that listens. Its file, if it has one, goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    endpoint: Endpoint,
    /// Device and inode of the socket's file, to remove no other.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Listens. A Unix socket is its owner's alone (mode 0600) from its first moment on; one that
    /// nobody listens at any more is replaced.
    pub fn bind(endpoint: &Endpoint) -> Result<Self, ListenError> {
        let bound = match endpoint {
            Endpoint::Unix(path) => Self::bind_unix(path),
            Endpoint::Tcp(address) => Self::bind_tcp(*address),
        };
        bound.map_err(|source| match (source.kind(), endpoint.clone()) {
            (ErrorKind::AddrInUse, endpoint) => ListenError::Taken { endpoint },
            // What `remove_stale` says.
            (ErrorKind::AlreadyExists, Endpoint::Unix(path)) => ListenError::NotASocket { path },
            (ErrorKind::PermissionDenied, endpoint @ Endpoint::Tcp(_)) => ListenError::Privileged { endpoint },
            (_, endpoint) => ListenError::Failed { endpoint, source },
        })
    }

    fn bind_unix(path: &Path) -> io::Result<Self> {
        remove_stale(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Linux gives the file the mode of the unbound socket (unix_bind_bsd in net/unix/af_unix.c),
        // so there is no moment in which others may connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        let file = fs::symlink_metadata(path)?;
        Ok(Self { socket, endpoint: Endpoint::Unix(path.to_owned()), file: Some((file.dev(), file.ino())) })
    }

    fn bind_tcp(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let endpoint = Endpoint::Tcp(listener.local_addr()?);
        Ok(Self { socket: listener.into(), endpoint, file: None })
    }

    /// Where it listens, the port that the kernel chose included.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether a client waits to be accepted. Who hung up before it connected can be seen from then on.
    pub fn has_client(&self) -> io::Result<bool> {
        is_ready(self, PollFlags::IN)
    }

    /// The next client, if one waits.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => {
                let prepared = match self.endpoint {
                    Endpoint::Unix(_) => sockopt::set_socket_send_buffer_size(&socket, UNIX_SEND_BYTES),
                    Endpoint::Tcp(_) => sockopt::set_tcp_nodelay(&socket, true),
                };
                Ok(prepared.is_ok().then(|| Stream::new(socket)))
            }
            Err(error) if passes(error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let (Endpoint::Unix(path), Some(file)) = (&self.endpoint, self.file) else {
            return;
        };
        if fs::symlink_metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == file) {
            // Nobody is left to tell; the next drive removes it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Connects as a client. The stream waits until [`Stream::set_nonblocking`] says otherwise.
pub fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
    match endpoint {
        Endpoint::Unix(path) => UnixStream::connect(path).map(Stream::new),
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(Stream::new(stream))
        }
    }
}

/// Removes a socket that a killed drive left: one at which nobody listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(file) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !file.file_type().is_socket() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
        Err(error) => Err(error),
    }
}

/// Whether a socket is ready now. Signals do not disturb the question.
pub(super) fn is_ready(socket: &impl AsFd, wanted: PollFlags) -> io::Result<bool> {
    let mut polled = [PollFd::new(socket, wanted)];
    Ok(retry_on_intr(|| poll(&mut polled, Some(&Timespec::default())))? > 0)
}

/// Whether accepting may work again without anybody's help (accept(2), "Error handling").
fn passes(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR | Errno::CONNABORTED)
        // Errors of the client's network.
        || matches!(error, Errno::PROTO | Errno::NETDOWN | Errno::HOSTDOWN | Errno::HOSTUNREACH | Errno::NETUNREACH)
        // Shortages of the moment.
        || matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::PERM)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_unix_socket_is_its_owners_alone_and_goes_with_the_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.sock");
        let listener = Listener::bind(&Endpoint::Unix(path.clone())).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listener.accept().unwrap().is_none());
        let _client = connect(listener.endpoint()).unwrap();
        assert!(listener.accept().unwrap().is_some());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_somebody_listens_at_is_taken_and_one_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [drive, left, file] = ["drive.sock", "left.sock", "file"].map(|name| folder.path().join(name));
        for endpoint in [Endpoint::Unix(drive), "127.0.0.1:0".parse().unwrap()] {
            let first = Listener::bind(&endpoint).unwrap();
            let message = Listener::bind(first.endpoint()).unwrap_err().to_string();
            assert!(message.contains("taken"), "{message}");
        }
        std::mem::drop(UnixListener::bind(&left).unwrap());
        Listener::bind(&Endpoint::Unix(left)).unwrap();
        fs::write(&file, "").unwrap();
        let refused = Listener::bind(&Endpoint::Unix(file));
        assert!(matches!(refused, Err(ListenError::NotASocket { .. })));
    }

    #[test]
    #[allow(unsafe_code)]
    fn signals_do_not_keep_a_listener_from_telling_whether_a_client_waits() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};

        let signal = libc::SIGUSR1;
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).unwrap();
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        // SAFETY: no preconditions.
        let asking = unsafe { libc::pthread_self() };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: that thread waits for this one at the end of the scope.
                    unsafe { libc::pthread_kill(asking, signal) };
                }
            });
            let failed = (0..200_000).find_map(|_| listener.has_client().err());
            done.store(true, Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }
}
