//! The admin queue of a host.

use std::io;

use super::channel::nonsense;
use super::command::{Answer, answer, entry, pointer, succeeded};
use super::{Channel, Queue, Settings};
use crate::transport::nvme_tcp::pdu::u64_at;
use crate::transport::socket::Endpoint;

/// Properties that a host needs.
const CONFIGURATION: u32 = 0x14;
const STATE: u32 = 0x1c;

/// Enable, with entries of 64 and 16 bytes.
const ENABLED: u32 = 0x0046_0001;

#[derive(Debug)]
pub struct Admin {
    pub channel: Channel,
    to: Endpoint,
    subsystem: String,
    settings: Settings,
    controller: u16,
    next_id: u16,
}

impl Admin {
    /// Connects to a subsystem; the controller is not enabled yet.
    pub fn connect(to: &Endpoint, subsystem: &str, settings: &Settings) -> io::Result<Self> {
        let mut channel = Channel::open(to, settings)?;
        let entry = connect_entry(0, 32, settings);
        channel.command(&entry, &connect_data(0xffff, subsystem, settings));
        let connected = succeeded(answer(&mut channel)?)?;
        let controller = connected.result as u16;
        let (to, subsystem, settings) = (to.clone(), subsystem.to_owned(), settings.clone());
        Ok(Self { channel, to, subsystem, settings, controller, next_id: 1 })
    }

    pub fn controller(&self) -> u16 {
        self.controller
    }

    /// An entry of this opcode, with a number of its own.
    pub fn entry(&mut self, opcode: u8) -> [u8; 64] {
        self.next_id = self.next_id % 1000 + 1;
        entry(opcode, self.next_id)
    }

    pub fn call(&mut self, entry: &[u8; 64], data: &[u8]) -> io::Result<Answer> {
        self.channel.command(entry, data);
        answer(&mut self.channel)
    }

    /// Waits for the answer to a command that was sent before.
    pub fn answer(&mut self) -> io::Result<Answer> {
        answer(&mut self.channel)
    }

    pub fn property(&mut self, offset: u32) -> io::Result<u64> {
        let mut entry = self.entry(0x7f);
        entry[4] = 4;
        entry[40] = u8::from(offset == 0);
        entry[44..48].copy_from_slice(&offset.to_le_bytes());
        Ok(succeeded(self.call(&entry, &[])?)?.result)
    }

    pub fn configure(&mut self, to: u32) -> io::Result<()> {
        let mut entry = self.entry(0x7f);
        entry[44..48].copy_from_slice(&CONFIGURATION.to_le_bytes());
        entry[48..52].copy_from_slice(&to.to_le_bytes());
        succeeded(self.call(&entry, &[])?).map(|_| ())
    }

    pub fn enable(&mut self) -> io::Result<()> {
        self.configure(ENABLED)?;
        let state = self.property(STATE)?;
        if state & 3 == 1 { Ok(()) } else { Err(io::Error::other(format!("the controller's state is {state:#x}"))) }
    }

    /// Identifies something of the namespace, or of the controller.
    pub fn identify(&mut self, what: u8, namespace: u32) -> io::Result<Vec<u8>> {
        let mut entry = self.entry(0x06);
        entry[4..8].copy_from_slice(&namespace.to_le_bytes());
        pointer(&mut entry, 4096, false);
        entry[40] = what;
        Ok(succeeded(self.call(&entry, &[])?)?.data)
    }

    /// A log page, from a byte on.
    pub fn log(&mut self, page: u8, offset: u64, length_bytes: u32) -> io::Result<Vec<u8>> {
        let mut entry = self.entry(0x02);
        pointer(&mut entry, length_bytes, false);
        let words = length_bytes / 4 - 1;
        entry[40] = page;
        entry[42..44].copy_from_slice(&(words as u16).to_le_bytes());
        entry[44..46].copy_from_slice(&((words >> 16) as u16).to_le_bytes());
        entry[48..56].copy_from_slice(&offset.to_le_bytes());
        Ok(succeeded(self.call(&entry, &[])?)?.data)
    }

    /// Sets a feature that is a number.
    pub fn set_feature(&mut self, feature: u8, value: u32) -> io::Result<u64> {
        let mut entry = self.entry(0x09);
        entry[40] = feature;
        entry[44..48].copy_from_slice(&value.to_le_bytes());
        Ok(succeeded(self.call(&entry, &[])?)?.result)
    }

    /// Asks for I/O queues: how many are granted.
    pub fn ask_for_queues(&mut self, queues: u16) -> io::Result<u16> {
        let less_one = u32::from(queues.saturating_sub(1));
        Ok((self.set_feature(0x07, less_one | (less_one << 16))? & 0xffff) as u16 + 1)
    }

    /// Connects an I/O queue, over a connection of its own.
    pub fn queue(&mut self, number: u16) -> io::Result<Queue> {
        self.queue_of(number, 1)
    }

    /// The same, whose requests concern this namespace.
    pub fn queue_of(&mut self, number: u16, namespace: u32) -> io::Result<Queue> {
        let described = self.identify(0, namespace)?;
        let exponent = described.get(130).copied().unwrap_or(0);
        if !(9..=16).contains(&exponent) {
            return Err(nonsense("the size of a block"));
        }
        let block_bytes = 1_u32 << exponent;
        let size_bytes = u64_at(&described, 0).saturating_mul(block_bytes.into());
        let mut channel = Channel::open(&self.to, &self.settings)?;
        let entry = connect_entry(number, self.settings.entries, &self.settings);
        channel.command(&entry, &connect_data(self.controller, &self.subsystem, &self.settings));
        succeeded(answer(&mut channel)?)?;
        Ok(Queue::new(channel, namespace, size_bytes, block_bytes))
    }
}

fn connect_entry(queue: u16, entries: u16, settings: &Settings) -> [u8; 64] {
    let mut connect = entry(0x7f, 0);
    connect[4] = 1;
    pointer(&mut connect, 1024, true);
    connect[42..44].copy_from_slice(&queue.to_le_bytes());
    connect[44..46].copy_from_slice(&entries.saturating_sub(1).to_le_bytes());
    connect[46] = if settings.flow_control { 0 } else { 4 };
    connect[48..52].copy_from_slice(&settings.keep_alive_ms.to_le_bytes());
    connect
}

fn connect_data(controller: u16, subsystem: &str, settings: &Settings) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[..16].copy_from_slice(&settings.host_id);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    put(&mut data[256..511], subsystem);
    put(&mut data[512..767], &settings.host);
    data
}

/// Text in a field, cut where the field ends.
fn put(field: &mut [u8], text: &str) {
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from;
    }
}
