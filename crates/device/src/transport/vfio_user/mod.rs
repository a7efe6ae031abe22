//! vfio-user: a PCI NVMe controller for one client of this machine, which shares its memory with it.
//!
//! Sources: the vfio-user specification 0.1 (QEMU, `docs/interop/vfio-user.rst`), linux/vfio.h, NVM Express
//! Base Specification 2.0, `NVMe` over `PCIe` Transport Specification 1.0. The client sends messages to set the
//! device up. From then on it rings doorbells in a page that both map, and the event loop looks at them:
//! no system call lies between a command and its completion.
//!
//! The messages are decoded here and not by the crate `vfio_user` (0.1.7 of rust-vmm). Its server waits for a client
//! and for each message, in a thread of its own, and takes lengths and counts of descriptors from the client as they
//! are. Here one thread serves all transports and never waits, and hostile lengths are refused before anything is read.
//!
//! What a client may do to the drive is bounded: it shares files in memory alone, at most 512 regions;
//! truncating one ends the client ([`mapping`]); and data of writes are copied before the drive sees them,
//! because the client may change them meanwhile. Reads are copied once, from the store to the client.
//!
//! Deliberately absent: scatter-gather lists, memory that is only reached by messages, interrupts by pin,
//! migration, shadow doorbells, and several clients at one socket.

mod commands;
mod configuration;
mod connection;
mod device;
mod interrupts;
pub(crate) mod mapping;
mod memory;
mod message;
mod pages;
mod queues;
mod registers;
mod requests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use device::{Device, memory_bytes};
pub use message::Message;

use super::nvme::Subsystem;
use super::socket::{Endpoint, ListenError, Listener};
use super::{Probe, Transport};
use crate::client::overhead;
use crate::client::vfio_user::{Settings, connect};
use crate::command::{Answer, Drive};
use connection::Connection;
use registers::MOST_QUEUES;

/// Polls from one look at the kernel to the next, unless the last one brought something.
const LOOK_EVERY: u64 = 64;

/// Polls from one reading of the clock to the next, and the time between ticks of the device.
const CLOCK_EVERY: u64 = 256;
const TICK_TIME: Duration = Duration::from_millis(100);

/// How long a client may take to agree on a version.
const NEGOTIATION_TIME: Duration = Duration::from_secs(10);

/// Doorbells wake no process, so a drive that has a client sleeps no longer than this at a time.
const LONGEST_SLEEP: Duration = Duration::from_micros(200);

/// The name of the socket in a folder, where SPDK's clients look for it.
const SOCKET_NAME: &str = "cntrl";

pub struct VfioUser {
    transport: u32,
    path: PathBuf,
    subsystem: Subsystem,
    listener: Listener,
    client: Option<Client>,
    /// Clients that are gone, while the drive has something of them.
    leaving: Option<Device>,
    polls: u64,
    looks_again: bool,
    ticked: Instant,
}

struct Client {
    connection: Connection,
    device: Device,
}

impl VfioUser {
    /// Listens at a path, or at `cntrl` in it if it is a folder.
    pub fn bind(transport: u32, path: &Path) -> Result<Self, ListenError> {
        let path = if path.is_dir() { path.join(SOCKET_NAME) } else { path.to_owned() };
        let mut subsystem = Subsystem::of(&path.to_string_lossy());
        subsystem.io_queues = MOST_QUEUES;
        Ok(Self {
            transport,
            subsystem,
            listener: Listener::bind(&Endpoint::Unix(path.clone()))?,
            path,
            client: None,
            leaving: None,
            polls: 0,
            looks_again: false,
            ticked: Instant::now(),
        })
    }

    /// Takes messages and clients; whether there was anything. Whether a client waits is asked first, so that
    /// one that left before it came is noticed in between, and it is not turned away.
    fn look(&mut self, drive: &mut dyn Drive) -> io::Result<bool> {
        let has_next = self.listener.has_client()?;
        let mut any = false;
        if let Some(client) = &mut self.client {
            any = client.take_messages(drive).unwrap_or_else(|_| {
                self.close(drive);
                true
            });
        }
        // A client waits until the drive has nothing of the one before. Further ones are turned away.
        Ok(has_next && self.leaving.is_none() && self.accept()? || any)
    }

    fn accept(&mut self) -> io::Result<bool> {
        let Some(stream) = self.listener.accept()? else {
            return Ok(false);
        };
        if self.client.is_none() {
            // Without descriptors or memory no client is served now; it may get better.
            let device = Device::new(self.transport, &self.subsystem).ok();
            self.client = device.map(|device| Client { connection: Connection::new(stream, Instant::now()), device });
        }
        Ok(true)
    }

    fn close(&mut self, drive: &mut dyn Drive) {
        if let Some(client) = &mut self.client {
            client.device.close(drive);
        }
        self.disconnect();
    }

    fn tick(&mut self, now: Instant, drive: &mut dyn Drive) {
        self.ticked = now;
        if let Some(Client { connection, device }) = &mut self.client {
            device.tick(drive);
            let since = now.saturating_duration_since(connection.opened);
            let is_silent = !device.is_negotiated && since > NEGOTIATION_TIME;
            if is_silent || connection.is_late(now) {
                self.close(drive);
            }
        }
    }
}

impl Client {
    fn take_messages(&mut self, drive: &mut dyn Drive) -> io::Result<bool> {
        let mut any = self.connection.flush()?;
        while let Some((message, descriptors)) = self.connection.receive()? {
            any = true;
            if let Some(reply) = self.device.receive(&message, descriptors, drive)? {
                self.connection.send(reply)?;
            }
        }
        Ok(any)
    }
}

impl Transport for VfioUser {
    fn name(&self) -> &'static str {
        "vfio-user"
    }

    fn address(&self) -> String {
        self.path.display().to_string()
    }

    fn poll(&mut self, drive: &mut dyn Drive) -> io::Result<bool> {
        self.polls += 1;
        let mut any = false;
        if let Some(client) = &mut self.client {
            match client.device.poll(drive) {
                Ok(progress) => any = progress,
                Err(_) => self.close(drive),
            }
        }
        if self.looks_again || self.polls % LOOK_EVERY == 0 {
            self.looks_again = self.look(drive)?;
            any |= self.looks_again;
        }
        if self.polls % CLOCK_EVERY == 0 {
            let now = Instant::now();
            if now.saturating_duration_since(self.ticked) >= TICK_TIME {
                self.tick(now, drive);
            }
        }
        Ok(any)
    }

    fn answer(&mut self, answer: Answer, drive: &dyn Drive) {
        if let Some(leaving) = &mut self.leaving {
            leaving.answer(&answer, drive);
            if leaving.in_flight() == 0 {
                self.leaving = None;
            }
        } else if let Some(client) = &mut self.client {
            client.device.answer(&answer, drive);
        }
    }

    fn send(&mut self, _drive: &dyn Drive) -> io::Result<bool> {
        if let Some(client) = &mut self.client {
            if client.device.signal().is_err() {
                self.disconnect();
            }
        }
        Ok(false)
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        if self.leaving.is_none() {
            into.push(self.listener.as_fd());
        }
        into.extend(self.client.iter().map(|client| client.connection.stream.as_fd()));
    }

    fn longest_sleep(&self) -> Option<Duration> {
        let client = self.client.as_ref()?;
        client.device.is_ready().then_some(LONGEST_SLEEP)
    }

    fn connections(&self) -> usize {
        usize::from(self.client.is_some())
    }

    /// Ends as an unplugged device does: the socket is closed, and what is in flight is never completed.
    fn disconnect(&mut self) {
        if let Some(Client { mut device, .. }) = self.client.take() {
            device.release();
            self.leaving = Some(device).filter(|device| device.in_flight() > 0);
        }
    }

    fn probe(&self) -> Option<Probe> {
        let path = self.path.clone();
        // Its clients spin, however slow the answers are.
        Some(Box::new(move |for_ms: u64, _slow: bool| {
            let settings = Settings { copies: false, ..Settings::default() };
            let (_admin, mut queue) = connect(&path, &settings)?;
            overhead(&mut queue, for_ms)
        }))
    }
}
