//! An initiator of NVMe over TCP: an admin queue, and I/O queues that batch.

mod channel;
mod queue;

pub use channel::append_unit;
pub use queue::Queue;

use std::io;

use super::nvme::{self, ENABLED, Entry, IN_UNITS};
use super::{Initiator, Waiting};
use crate::transport::nvme::controller::property;
use crate::transport::socket::Endpoint;
use channel::{Channel, nonsense};

/// Parameters of a host's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub host: String,
    pub host_id: [u8; 16],
    pub header_digests: bool,
    pub data_digests: bool,
    /// Data are wanted at multiples of four times this and one bytes.
    pub alignment: u8,
    pub entries: u16,
    /// Whether completions say how far the queue is.
    pub flow_control: bool,
    /// How long the host may be silent; 0 for ever.
    pub keep_alive_ms: u32,
    /// How answers are waited for.
    pub waiting: Waiting,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: "nqn.2014-08.org.nvmexpress:uuid:696f6173-7361-8179-8000-000000000001".to_owned(),
            host_id: [1; 16],
            header_digests: false,
            data_digests: false,
            alignment: 0,
            entries: 128,
            flow_control: false,
            keep_alive_ms: 0,
            waiting: Waiting::Sleeps,
        }
    }
}

/// Connects an admin queue and one I/O queue.
pub fn connect(to: &Endpoint, subsystem: &str, settings: &Settings) -> io::Result<(Admin, Queue)> {
    let mut admin = Admin::connect(to, subsystem, settings)?;
    admin.enable()?;
    admin.ask_for_queues(1)?;
    let queue = admin.queue_of(1, 1)?;
    Ok((admin, queue))
}

/// The admin queue of a host: one command at a time.
#[derive(Debug)]
pub struct Admin {
    queue: Queue,
    to: Endpoint,
    subsystem: String,
    settings: Settings,
    controller: u16,
}

impl Admin {
    /// Connects to a subsystem; the controller is not enabled yet.
    pub fn connect(to: &Endpoint, subsystem: &str, settings: &Settings) -> io::Result<Self> {
        let (queue, controller) = open(to, subsystem, settings, (0, 32), 0xffff)?;
        let (to, subsystem, settings) = (to.clone(), subsystem.to_owned(), settings.clone());
        Ok(Self { queue, to, subsystem, settings, controller })
    }

    pub fn controller(&self) -> u16 {
        self.controller
    }

    pub fn enable(&mut self) -> io::Result<()> {
        self.queue.carry_out(&nvme::configure(ENABLED), &[])?;
        let (state, _) = self.queue.carry_out(&nvme::property(property::CSTS), &[])?;
        if state & 3 == 1 { Ok(()) } else { Err(io::Error::other(format!("the controller's state is {state:#x}"))) }
    }

    /// Identifies something of the namespace, or of the controller.
    pub fn identify(&mut self, what: u8, namespace: u32) -> io::Result<Vec<u8>> {
        let entry = Entry::new(0x06, 1).namespace(namespace).pointer(IN_UNITS, 0, 4096).word(10, what.into());
        Ok(self.queue.carry_out(&entry, &[])?.1)
    }

    /// A log page from its beginning on.
    pub fn log(&mut self, page: u8, length_bytes: u32) -> io::Result<Vec<u8>> {
        let entry = Entry::new(0x02, 1).pointer(IN_UNITS, 0, length_bytes);
        let entry = entry.word(10, u32::from(page) | ((length_bytes / 4 - 1) << 16));
        Ok(self.queue.carry_out(&entry, &[])?.1)
    }

    /// Asks for I/O queues: how many are granted.
    pub fn ask_for_queues(&mut self, queues: u16) -> io::Result<u16> {
        let less_one = u32::from(queues.saturating_sub(1));
        let entry = Entry::new(0x09, 1).word(10, 0x07).word(11, less_one | (less_one << 16));
        Ok((self.queue.carry_out(&entry, &[])?.0 & 0xffff) as u16 + 1)
    }

    /// Connects an I/O queue, over a connection of its own, for requests to this namespace.
    pub fn queue_of(&mut self, number: u16, namespace: u32) -> io::Result<Queue> {
        let (size_bytes, block_bytes) = nvme::size_and_block_bytes(&self.identify(0, namespace)?);
        if !(512..=1 << 16).contains(&block_bytes) {
            return Err(nonsense("the size of a block"));
        }
        let entries = self.settings.entries;
        let (queue, _) = open(&self.to, &self.subsystem, &self.settings, (number, entries), self.controller)?;
        Ok(Queue { namespace, size_bytes, block_bytes, ..queue })
    }
}

/// A connection with a queue of this number and number of entries; and its controller's number.
fn open(
    to: &Endpoint,
    subsystem: &str,
    settings: &Settings,
    (number, entries): (u16, u16),
    controller: u16,
) -> io::Result<(Queue, u16)> {
    let channel = Channel::open(to, settings)?;
    let mut queue = Queue { channel, namespace: 0, size_bytes: 0, block_bytes: 512, kept: Vec::new() };
    let without_flow_control = if settings.flow_control { 0 } else { 4 << 16 };
    let entry = nvme::connect(number, entries, settings.keep_alive_ms);
    let entry = entry.word(11, u32::from(entries.saturating_sub(1)) | without_flow_control);
    let data = nvme::connect_data(controller, subsystem, &settings.host, settings.host_id);
    let (controller, _) = queue.carry_out(&entry, &data)?;
    Ok((queue, controller as u16))
}

impl Queue {
    /// Sends a command with data in its capsule, and waits for its result and data. Nothing else may be in flight.
    fn carry_out(&mut self, entry: &Entry, data: &[u8]) -> io::Result<(u64, Vec<u8>)> {
        self.channel.command(entry, data);
        self.finish()
    }
}
