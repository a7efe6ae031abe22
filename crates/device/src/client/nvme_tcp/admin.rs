//! The admin queue of a host: one command at a time.

use std::io;

use super::channel::nonsense;
use super::{Channel, Queue, Settings};
use crate::client::Refused;
use crate::client::nvme::{self, ENABLED, Entry, IN_UNITS};
use crate::transport::nvme::controller::property;
use crate::transport::nvme_tcp::pdu::{flag, kind, u16_at, u32_at, u64_at};
use crate::transport::socket::Endpoint;

#[derive(Debug)]
pub struct Admin {
    channel: Channel,
    to: Endpoint,
    subsystem: String,
    settings: Settings,
    controller: u16,
}

impl Admin {
    /// Connects to a subsystem; the controller is not enabled yet.
    pub fn connect(to: &Endpoint, subsystem: &str, settings: &Settings) -> io::Result<Self> {
        let (channel, controller) = open(to, subsystem, settings, (0, 32), 0xffff)?;
        let (to, subsystem, settings) = (to.clone(), subsystem.to_owned(), settings.clone());
        Ok(Self { channel, to, subsystem, settings, controller })
    }

    pub fn controller(&self) -> u16 {
        self.controller
    }

    pub fn enable(&mut self) -> io::Result<()> {
        call(&mut self.channel, &nvme::configure(ENABLED), &[])?;
        let (state, _) = call(&mut self.channel, &nvme::property(property::CSTS), &[])?;
        if state & 3 == 1 { Ok(()) } else { Err(io::Error::other(format!("the controller's state is {state:#x}"))) }
    }

    /// Identifies something of the namespace, or of the controller.
    pub fn identify(&mut self, what: u8, namespace: u32) -> io::Result<Vec<u8>> {
        let entry = Entry::new(0x06, 1).namespace(namespace).pointer(IN_UNITS, 0, 4096).word(10, what.into());
        Ok(call(&mut self.channel, &entry, &[])?.1)
    }

    /// A log page from its beginning on.
    pub fn log(&mut self, page: u8, length_bytes: u32) -> io::Result<Vec<u8>> {
        let entry = Entry::new(0x02, 1).pointer(IN_UNITS, 0, length_bytes);
        let entry = entry.word(10, u32::from(page) | ((length_bytes / 4 - 1) << 16));
        Ok(call(&mut self.channel, &entry, &[])?.1)
    }

    /// Asks for I/O queues: how many are granted.
    pub fn ask_for_queues(&mut self, queues: u16) -> io::Result<u16> {
        let less_one = u32::from(queues.saturating_sub(1));
        let entry = Entry::new(0x09, 1).word(10, 0x07).word(11, less_one | (less_one << 16));
        Ok((call(&mut self.channel, &entry, &[])?.0 & 0xffff) as u16 + 1)
    }

    /// Connects an I/O queue, over a connection of its own.
    pub fn queue(&mut self, number: u16) -> io::Result<Queue> {
        self.queue_of(number, 1)
    }

    /// Connects an I/O queue for requests to this namespace.
    pub fn queue_of(&mut self, number: u16, namespace: u32) -> io::Result<Queue> {
        let (size_bytes, block_bytes) = nvme::size_and_block_bytes(&self.identify(0, namespace)?);
        if !(512..=1 << 16).contains(&block_bytes) {
            return Err(nonsense("the size of a block"));
        }
        let entries = self.settings.entries;
        let (channel, _) = open(&self.to, &self.subsystem, &self.settings, (number, entries), self.controller)?;
        Ok(Queue::new(channel, namespace, size_bytes, block_bytes))
    }
}

/// A connection with a queue of this number and number of entries; and its controller's number.
fn open(
    to: &Endpoint,
    subsystem: &str,
    settings: &Settings,
    (queue, entries): (u16, u16),
    controller: u16,
) -> io::Result<(Channel, u16)> {
    let mut channel = Channel::open(to, settings)?;
    let without_flow_control = if settings.flow_control { 0 } else { 4 << 16 };
    let entry = nvme::connect(queue, entries, settings.keep_alive_ms);
    let entry = entry.word(11, u32::from(entries.saturating_sub(1)) | without_flow_control);
    let data = nvme::connect_data(controller, subsystem, &settings.host, settings.host_id);
    let (controller, _) = call(&mut channel, &entry, &data)?;
    Ok((channel, controller as u16))
}

/// Sends a command, and waits for its result and data.
fn call(channel: &mut Channel, entry: &Entry, data: &[u8]) -> io::Result<(u64, Vec<u8>)> {
    channel.command(entry, data);
    channel.push()?;
    let mut read = Vec::new();
    loop {
        let wants = match channel.unit()? {
            Err(wants) => wants,
            Ok(unit) => {
                let (header, bytes) = (unit.header, unit.bytes);
                let done = match unit.kind {
                    kind::C2H_DATA => {
                        read.extend_from_slice(unit.data);
                        (unit.flags & flag::SUCCESS != 0).then_some((0, 0))
                    }
                    kind::CAPSULE_RESP => Some((u16_at(header, 22) >> 1, u64_at(header, 8))),
                    kind::C2H_TERM_REQ => return Err(ended(header)),
                    _ => return Err(nonsense("a unit")),
                };
                channel.consume(bytes);
                match done {
                    Some((0, result)) => return Ok((result, read)),
                    Some((status, _)) => return Err(io::Error::other(Refused { error: status.into() })),
                    None => continue,
                }
            }
        };
        channel.more(wants)?;
    }
}

/// The controller ends the connection, with this unit.
pub(super) fn ended(header: &[u8]) -> io::Error {
    let (status, about) = (u16_at(header, 8), u32_at(header, 10));
    io::Error::other(format!("the controller ends: {status} at {about}"))
}
