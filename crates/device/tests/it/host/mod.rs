//! Messages as hosts make them, by hand, so that tests can make them wrong: units of NVMe over TCP with the hosts that
//! send them, and those of NBD in a module of its own.

#![allow(dead_code, unused_imports)] // tests and fuzz targets use what they need

pub mod nbd;

use std::time::Duration;

use crate::memory_drive::{Clients, Memory};
use ioassay_device::client::nvme;
pub use ioassay_device::client::nvme::{ENABLED, Entry, configure, connect, property};
use ioassay_device::client::nvme_tcp::append_unit;
use ioassay_device::transport::nvme_tcp::{NvmeTcp, Subsystem};
use ioassay_device::transport::socket::End;
use ioassay_device::zones::{ZoneGeometry, Zones};

pub const NAME: &str = "nqn.2016-06.io.example:drive";
pub const HOST: &str = "nqn.2016-06.io.example:host";

/// A unit: its header is `header` after the common eight bytes, and digests as asked for.
pub fn unit(kind: u8, flags: u8, header: &[u8], data: &[u8], digests: (bool, bool)) -> Vec<u8> {
    let mut bytes = Vec::new();
    append_unit(&mut bytes, (kind, flags), header, data, digests);
    bytes
}

pub fn initialize(alignment: u8, digests: u8) -> Vec<u8> {
    let mut header = [0; 120];
    (header[2], header[3]) = (alignment, digests);
    unit(0, 0, &header, &[], (false, false))
}

/// A command as a unit.
pub trait Capsule {
    fn capsule(&self, data: &[u8], digests: (bool, bool)) -> Vec<u8>;

    fn alone(&self) -> Vec<u8> {
        self.capsule(&[], (false, false))
    }
}

impl Capsule for Entry {
    fn capsule(&self, data: &[u8], digests: (bool, bool)) -> Vec<u8> {
        unit(4, 0, &self.0, data, digests)
    }
}

pub fn event(id: u16) -> Vec<u8> {
    Entry::new(0x0c, id).alone()
}

pub fn set(feature: u32, value: u32) -> Entry {
    Entry::new(9, 3).word(10, feature).word(11, value)
}

pub fn get(feature: u32) -> Entry {
    Entry::new(0x0a, 3).word(10, feature)
}

pub fn connect_data(controller: u16, subsystem: &str, host: &str) -> Vec<u8> {
    nvme::connect_data(controller, subsystem, host, [1; 16])
}

/// Data for a command that asked for them.
pub fn data(command: u16, transfer: u16, offset: u32, last: bool, data: &[u8]) -> Vec<u8> {
    let place = [offset, data.len() as u32, 0].map(u32::to_le_bytes).concat();
    let header = [[command, transfer].map(u16::to_le_bytes).concat(), place].concat();
    unit(6, if last { 4 } else { 0 }, &header, data, (false, false))
}

/// What a controller sent, one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    Initialized { digests: u8, most_data: u32 },
    Completed { id: u16, status: u16, result: u64, head: u16 },
    Data { id: u16, data: Vec<u8>, success: bool },
    Asks { id: u16, transfer: u16, length: u32 },
    Ends { status: u16, about: u32 },
}

/// All that a controller sent. Digests are taken for right.
pub fn units(mut bytes: &[u8]) -> Vec<Unit> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | (u32::from(u16_at(at + 2)) << 16);
        let whole = u32_at(4) as usize;
        all.push(match bytes[0] {
            1 => Unit::Initialized { digests: bytes[11], most_data: u32_at(12) },
            3 => Unit::Ends { status: u16_at(8), about: u32_at(10) },
            5 => Unit::Completed {
                id: u16_at(20),
                status: u16_at(22) >> 1,
                result: u64::from(u32_at(8)) | (u64::from(u32_at(12)) << 32),
                head: u16_at(16),
            },
            7 => {
                let start = usize::from(bytes[3]);
                let data = bytes[start..start + u32_at(16) as usize].to_vec();
                Unit::Data { id: u16_at(8), data, success: bytes[1] & 8 != 0 }
            }
            9 => Unit::Asks { id: u16_at(8), transfer: u16_at(10), length: u32_at(16) },
            other => panic!("a controller does not send units of type {other}"),
        });
        bytes = &bytes[whole..];
    }
    all
}

/// Number, status and result of each command that is complete.
pub fn completions(said: &[Unit]) -> Vec<(u16, u16, u64)> {
    let complete = said.iter().filter_map(|said| match *said {
        Unit::Completed { id, status, result, .. } => Some((id, status, result)),
        _ => None,
    });
    complete.collect()
}

/// Those of the command that is complete, which is all that was sent.
pub fn completed(said: &[Unit]) -> (u16, u16, u64) {
    assert_eq!((said.len(), completions(said).len()), (1, 1), "{said:?}");
    completions(said)[0]
}

/// The data of a command that is complete, or its status.
pub fn fetched(said: &[Unit]) -> Result<Vec<u8>, u16> {
    match said {
        [Unit::Data { data, .. }, Unit::Completed { status: 0, .. }] => Ok(data.clone()),
        [Unit::Completed { status, .. }] => Err(*status),
        other => panic!("{other:?}"),
    }
}

/// Why the connection ends, which is the last that was sent.
pub fn end_of(said: &[Unit]) -> (u16, u32) {
    match said.last() {
        Some(&Unit::Ends { status, about }) => (status, about),
        other => panic!("{other:?}"),
    }
}

pub fn status_of(said: &[Unit]) -> u16 {
    completed(said).1
}

pub fn read(id: u16, first: u64, blocks: u32) -> Entry {
    Entry::new(2, id).blocks(first, blocks).pointer(0x5a, 0, blocks * 512)
}

pub fn write(id: u16, first: u64, blocks: u32) -> Entry {
    Entry::new(1, id).blocks(first, blocks).pointer(0x01, 0, blocks * 512)
}

/// A Copy to a block, and its source ranges: first blocks and numbers of blocks.
pub fn copy(to: u64, sources: &[(u64, u16)]) -> (Entry, Vec<u8>) {
    let range = |&(first, blocks): &(u64, u16)| {
        [&[0; 8][..], &first.to_le_bytes(), &blocks.wrapping_sub(1).to_le_bytes(), &[0; 14]].concat()
    };
    let ranges: Vec<u8> = sources.iter().flat_map(range).collect();
    let entry = Entry::new(0x19, 1).blocks(to, sources.len() as u32);
    (entry.pointer(0x01, 0, ranges.len() as u32), ranges)
}

/// A status that says that a retry is in vain.
pub fn vain(status: u16) -> u16 {
    status | (1 << 14)
}

/// Zones of which few can be open, and of which three quarters can be written.
pub fn zones(count: u32, zone_bytes: u64) -> Zones {
    let capacity_bytes = zone_bytes / 4 * 3;
    Zones::new(ZoneGeometry { count, zone_bytes, capacity_bytes, most_open: 2, most_active: 3, append_bytes: 8192 })
}

/// A subsystem and its hosts.
pub type Scene = Clients<NvmeTcp>;

impl Scene {
    pub fn new() -> Self {
        Self::over(Memory::new(4 << 20, 512))
    }

    pub fn over(drive: Memory) -> Self {
        Self::of(NvmeTcp::new(Subsystem::new(NAME).unwrap()), drive)
    }

    /// An admin queue (0) and an I/O queue (1) of an enabled controller.
    pub fn connected() -> Self {
        Self::connected_to(Memory::new(4 << 20, 512))
    }

    pub fn connected_to(drive: Memory) -> Self {
        let mut scene = Self::over(drive);
        scene.admin(NAME, 0);
        scene.io(1, 32);
        scene
    }

    pub fn open(&mut self) -> usize {
        self.open_with((false, false))
    }

    pub fn open_with(&mut self, digests: (bool, bool)) -> usize {
        let at = self.accept();
        self.send(at, &initialize(0, u8::from(digests.0) | (u8::from(digests.1) << 1)));
        self.all[at].digests = digests;
        at
    }

    pub fn admin(&mut self, name: &str, keep_alive_ms: u32) -> usize {
        let at = self.open();
        self.join(at, (0, 32, keep_alive_ms), &connect_data(0xffff, name, HOST));
        at
    }

    pub fn io(&mut self, number: u16, entries: u16) -> usize {
        let at = self.open();
        self.join(at, (number, entries, 0), &connect_data(1, NAME, HOST));
        at
    }

    /// Connects a queue of this number, entries, and time to keep it alive. An admin queue enables its controller.
    pub fn join(&mut self, at: usize, (number, entries, keep_alive_ms): (u16, u16, u32), data: &[u8]) {
        assert_eq!(self.ask_with(at, connect(number, entries, keep_alive_ms), data).0, 0);
        if number == 0 {
            assert_eq!(self.ask(at, configure(ENABLED)), (0, 0));
        }
    }

    /// Sends bytes, lets the drive answer, and gives what came back.
    pub fn send(&mut self, at: usize, bytes: &[u8]) -> Vec<Unit> {
        self.arrive(at, bytes);
        units(&self.output(at))
    }

    /// Sends bytes, and the drive answers none of its commands yet.
    pub fn receive(&mut self, at: usize, bytes: &[u8]) -> Vec<Unit> {
        self.arrive(at, bytes);
        units(&std::mem::take(&mut self.all[at].out))
    }

    /// The status and result of a command without data.
    pub fn ask(&mut self, at: usize, entry: Entry) -> (u16, u64) {
        self.ask_with(at, entry, &[])
    }

    pub fn ask_with(&mut self, at: usize, entry: Entry, data: &[u8]) -> (u16, u64) {
        let capsule = entry.capsule(data, self.all[at].digests);
        let (_, status, result) = completed(&self.send(at, &capsule));
        (status, result)
    }

    /// The data of a command, or its status.
    pub fn fetch(&mut self, at: usize, entry: &Entry) -> Result<Vec<u8>, u16> {
        fetched(&self.send(at, &entry.capsule(&[], self.all[at].digests)))
    }

    /// What the admin queue says unasked: the number and result of an event.
    pub fn next_event(&mut self) -> Option<(u16, u64)> {
        assert_eq!(self.pass(0, self.elapsed), None);
        let said = units(&std::mem::take(&mut self.all[0].out));
        (!said.is_empty()).then(|| completed(&said)).map(|(id, _, result)| (id, result))
    }

    pub fn identify(&mut self, what: u32, namespace: u32) -> Result<Vec<u8>, u16> {
        self.identify_of(what, 0, namespace)
    }

    /// With a command set.
    pub fn identify_of(&mut self, what: u32, set: u32, namespace: u32) -> Result<Vec<u8>, u16> {
        let entry = Entry::new(6, 9).namespace(namespace).pointer(0x5a, 0, 4096);
        self.fetch(0, &entry.word(10, what).word(11, set << 24))
    }

    pub fn log(&mut self, page: u32, length: u32, offset: u32) -> Result<Vec<u8>, u16> {
        let entry = Entry::new(2, 9).pointer(0x5a, 0, length).word(12, offset);
        self.fetch(0, &entry.word(10, page | ((length / 4 - 1) << 16)))
    }

    /// How a connection ends, if it does, once this number of seconds is over.
    pub fn end_after(&mut self, at: usize, seconds: u64) -> Option<End> {
        self.pass(at, Duration::from_secs(seconds))
    }
}
