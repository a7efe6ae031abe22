//! Sockets that listen and streams that came from them: Unix or TCP, never waiting.

use std::fs;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, sendmsg,
    socket_with,
};

use super::{Endpoint, TlsStream};

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

/// A socket that listens. Its file, if it has one, goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    endpoint: Endpoint,
    /// Device and inode of the socket's file, to remove no other.
    file: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens. A Unix socket is its owner's alone (mode 0600) from its first moment on; one that
    /// nobody listens at any more is replaced.
    pub fn bind(endpoint: &Endpoint) -> Result<Self, ListenError> {
        match endpoint {
            Endpoint::Unix(path) => Self::bind_unix(path),
            Endpoint::Tcp(address) => Self::bind_tcp(*address),
        }
        .map_err(|error| explain(error, endpoint))
    }

    fn bind_unix(path: &Path) -> Result<Self, Refusal> {
        remove_stale(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Linux gives the file the mode of the unbound socket (unix_bind_bsd in net/unix/af_unix.c),
        // so there is no moment in which others may connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        let file = fs::symlink_metadata(path)?;
        Ok(Self {
            socket: Socket::Unix(socket.into()),
            endpoint: Endpoint::Unix(path.to_owned()),
            file: Some((file.dev(), file.ino())),
        })
    }

    fn bind_tcp(address: SocketAddr) -> Result<Self, Refusal> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let endpoint = Endpoint::Tcp(listener.local_addr()?);
        Ok(Self { socket: Socket::Tcp(listener), endpoint, file: None })
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
        let accepted = match &self.socket {
            Socket::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Socket::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        match accepted {
            Ok(stream) => Ok(stream.prepare().is_ok().then_some(stream)),
            Err(error) if passes(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
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

/// Answers that a Unix socket takes before the client reads any, as far as the system allows. With Linux's usual 208
/// KiB one of four loads of 32 reads of 4 KiB stayed at a fifth of its rate: most likely since a full socket has room
/// again only when three quarters are read (`unix_writable`, `net/unix/af_unix.c`).
const UNIX_SEND_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// The same stream with TLS, once `plain` was sent.
    pub fn encrypted(self, connection: rustls::Connection, plain: Vec<u8>) -> Self {
        Stream::Tls(Box::new(TlsStream::new(self, connection, plain)))
    }

    /// Without TLS: what is read is as it arrived.
    pub fn socket(&mut self) -> &mut Stream {
        match self {
            Stream::Tls(stream) => stream.socket_mut(),
            plain => plain,
        }
    }

    /// Whether there are bytes to be read that no descriptor tells of.
    pub fn has_plaintext(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.has_plaintext())
    }

    /// Whether bytes that were taken to be sent wait for the socket.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.is_unsent())
    }

    /// Sends what was taken to be sent and waits for the socket; whether that was all.
    pub fn settle(&mut self) -> io::Result<bool> {
        match self {
            Stream::Tls(stream) => stream.settle(),
            Stream::Unix(_) | Stream::Tcp(_) => Ok(true),
        }
    }

    fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => {
                rustix::net::sockopt::set_socket_send_buffer_size(stream, UNIX_SEND_BYTES)?;
                stream.set_nonblocking(true)
            }
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)
            }
            Stream::Tls(stream) => stream.socket().prepare(),
        }
    }

    /// Makes reading and writing wait, or not.
    pub fn set_nonblocking(&self, to: bool) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(to),
            Stream::Tcp(stream) => stream.set_nonblocking(to),
            Stream::Tls(stream) => stream.socket().set_nonblocking(to),
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) {
        // A peer that is gone already needs not be told.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Write),
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Write),
            Stream::Tls(stream) => {
                stream.finish_sending();
                Ok(())
            }
        };
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Stream::Tls(stream) = self {
            return stream.write_vectored(slices);
        }
        // The standard library's would raise SIGPIPE, as writev(2) does.
        let no_ancillary = &mut SendAncillaryBuffer::default();
        Ok(sendmsg(&*self, slices, no_ancillary, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.as_fd(),
        }
    }
}

impl Stream {
    /// Whether its client hung up. What it sent before may still be there to be read.
    pub fn is_hung_up(&self) -> io::Result<bool> {
        is_ready(self, PollFlags::RDHUP)
    }
}

fn is_ready(socket: &impl AsFd, wanted: PollFlags) -> io::Result<bool> {
    let mut looked = [PollFd::new(socket, wanted)];
    let now = Timespec::default();
    Ok(retry_on_intr(|| poll(&mut looked, Some(&now)))? > 0)
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Connects as a client. The stream waits until [`Stream::set_nonblocking`] says otherwise.
pub fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
    match endpoint {
        Endpoint::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
    }
}

enum Refusal {
    Taken,
    NotASocket(PathBuf),
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::AddrInUse { Refusal::Taken } else { Refusal::Io(error) }
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

fn explain(refusal: Refusal, endpoint: &Endpoint) -> ListenError {
    let endpoint = endpoint.clone();
    match refusal {
        Refusal::Taken => ListenError::Taken { endpoint },
        Refusal::NotASocket(path) => ListenError::NotASocket { path },
        Refusal::Io(source) if matches!(endpoint, Endpoint::Tcp(_)) && source.kind() == ErrorKind::PermissionDenied => {
            ListenError::Privileged { endpoint }
        }
        Refusal::Io(source) => ListenError::Failed { endpoint, source },
    }
}

/// Removes a socket that a killed drive left: one at which nobody listens.
fn remove_stale(path: &Path) -> Result<(), Refusal> {
    let Ok(file) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !file.file_type().is_socket() {
        return Err(Refusal::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(fs::remove_file(path)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(Refusal::Taken),
        Err(error) => Err(Refusal::Io(error)),
    }
}

/// Whether accepting may work again without anybody's help (accept(2), "Error handling").
fn passes(error: &io::Error) -> bool {
    let kind = error.kind();
    if matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted) {
        return true;
    }
    let of_the_client = [libc::EPROTO, libc::ENETDOWN, libc::EHOSTDOWN, libc::EHOSTUNREACH, libc::ENETUNREACH];
    let of_the_moment = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EPERM];
    error.raw_os_error().is_some_and(|code| of_the_client.contains(&code) || of_the_moment.contains(&code))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ioassay-listen-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_unix_socket_is_its_owners_alone_and_goes_with_the_listener() {
        let folder = folder("mode");
        let path = folder.join("drive.sock");
        let listener = Listener::bind(&Endpoint::Unix(path.clone())).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listener.accept().unwrap().is_none());
        let _client = connect(listener.endpoint()).unwrap();
        assert!(listener.accept().unwrap().is_some());
        drop(listener);
        assert!(!path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_socket_that_somebody_listens_at_is_taken_and_one_left_behind_is_replaced() {
        let folder = folder("taken");
        let endpoint = Endpoint::Unix(folder.join("drive.sock"));
        let first = Listener::bind(&endpoint).unwrap();
        assert!(matches!(Listener::bind(&endpoint), Err(ListenError::Taken { .. })));
        std::mem::drop(UnixListener::bind(folder.join("left.sock")).unwrap());
        Listener::bind(&Endpoint::Unix(folder.join("left.sock"))).unwrap();
        drop(first);
        fs::write(folder.join("file"), "").unwrap();
        let refused = Listener::bind(&Endpoint::Unix(folder.join("file")));
        assert!(matches!(refused, Err(ListenError::NotASocket { .. })));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_port_that_is_taken_is_said_to_be() {
        let first = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let message = Listener::bind(first.endpoint()).unwrap_err().to_string();
        assert!(message.contains("taken"), "{message}");
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
