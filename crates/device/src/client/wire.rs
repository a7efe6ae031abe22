//! A client's end of a connection. While it waits for the drive to take what it sends, it takes what the drive sends: so
//! neither waits for the other forever.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::transport::socket::{Endpoint, Filled, Input, Stream, connect};

/// How long a drive may be silent.
pub(super) const SILENCE: Duration = Duration::from_secs(30);

/// Spins of a client of sockets from one look at the clock to the next.
const LOOK_EVERY: u32 = 4096;

/// How a client waits for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// The client asks again and again: nothing sleeps, so nothing is to be woken.
    Spins,
    /// The client sleeps in the kernel.
    Sleeps,
}

impl Waiting {
    /// As libnbd, qemu and kernels wait: slow answers find them asleep, and answers at once awake.
    /// To SPDK, which always spins, answers come no earlier for that while it asks for one after the
    /// other: the model does not go back.
    pub fn of_most(slow: bool) -> Self {
        if slow { Self::Sleeps } else { Self::Spins }
    }
}

#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    input: Input,
    /// Bytes to be sent.
    pub output: Vec<u8>,
    waiting: Waiting,
}

impl Wire {
    pub fn connect(to: &Endpoint, waiting: Waiting) -> io::Result<Self> {
        let stream = connect(to)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, input: Input::default(), output: Vec::new(), waiting })
    }

    /// Goes on with TLS. All was sent before, and nothing has arrived since.
    pub fn encrypt(&mut self, tls: Arc<ClientConfig>) -> io::Result<()> {
        // Certificates are compared, and no names: the address may be any of the server's.
        let name = ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let connection = ClientConnection::new(tls, name).map_err(io::Error::other)?;
        self.stream.encrypt(connection.into(), Vec::new());
        Ok(())
    }

    /// Sends all that is to be sent.
    pub fn push(&mut self) -> io::Result<()> {
        let mut silence = Silence::default();
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let wants = self.input.pending().len() + 1;
                    if self.fill(wants)? == Filled::Nothing {
                        self.wait(PollFlags::IN | PollFlags::OUT, &mut silence)?;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        while !self.stream.settle()? {
            self.wait(PollFlags::OUT, &mut silence)?;
        }
        Ok(())
    }

    fn fill(&mut self, wants: usize) -> io::Result<Filled> {
        self.input.make_room(self.input.room_for(wants));
        self.input.fill(&mut self.stream)
    }

    /// Bytes that arrived and were not consumed.
    pub fn pending(&self) -> &[u8] {
        self.input.pending()
    }

    /// Forgets the first bytes of what arrived.
    pub fn consume(&mut self, bytes: usize) {
        self.input.consume(bytes);
    }

    /// Waits until more has arrived. `wants` is the length of the message that is waited for.
    pub fn more(&mut self, wants: usize) -> io::Result<()> {
        let mut silence = Silence::default();
        loop {
            match self.fill(wants)? {
                Filled::Bytes(_) => return Ok(()),
                Filled::Over => return Err(ErrorKind::UnexpectedEof.into()),
                Filled::Nothing => self.wait(PollFlags::IN, &mut silence)?,
            }
        }
    }

    /// Waits until this number of bytes is there, and returns them.
    pub fn whole(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.input.pending().len() < bytes {
            self.more(bytes)?;
        }
        Ok(&self.input.pending()[..bytes])
    }

    /// Waits as this client does, but not forever.
    fn wait(&self, flags: PollFlags, silence: &mut Silence) -> io::Result<()> {
        match self.waiting {
            Waiting::Sleeps => self.sleep(flags),
            Waiting::Spins => silence.spin(LOOK_EVERY).map(|_| ()),
        }
    }

    fn sleep(&self, flags: PollFlags) -> io::Result<()> {
        let mut waits = [PollFd::new(&self.stream, flags)];
        let limit = Timespec::try_from(SILENCE).map_err(io::Error::other)?;
        match poll(&mut waits, Some(&limit)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// How long a client has been asking in vain; the clock is read now and then.
#[derive(Debug, Default)]
pub(super) struct Silence {
    rounds: u32,
    began: Option<Instant>,
}

impl Silence {
    /// Asks once more. Returns whether this was one of the rounds that look at the clock.
    #[inline] // with a constant, so that nothing is divided
    pub fn spin(&mut self, look_every: u32) -> io::Result<bool> {
        std::hint::spin_loop();
        self.rounds = self.rounds.wrapping_add(1);
        let looks = self.rounds % look_every == 0;
        if looks && self.began.get_or_insert_with(Instant::now).elapsed() > SILENCE {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(looks)
    }
}

/// Takes the messages that have arrived, and waits for more until one of them completes a request. Returns how many did.
///
/// `take` takes the next message: whether it completed a request; or how long it has to be, where it is not there.
pub(super) fn reap<T: AsMut<Wire>>(
    client: &mut T,
    mut take: impl FnMut(&mut T) -> io::Result<Result<bool, usize>>,
) -> io::Result<usize> {
    let mut taken = 0;
    loop {
        match take(client)? {
            Ok(completed) => taken += usize::from(completed),
            Err(_) if taken > 0 => return Ok(taken),
            Err(wants) => client.as_mut().more(wants)?,
        }
    }
}
