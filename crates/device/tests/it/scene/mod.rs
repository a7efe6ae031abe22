//! A subsystem and hosts whose bytes go in by hand.

use std::time::{Duration, Instant};

use crate::host::{
    Capsule, ENABLED, Entry, Unit, completed, configure, connect, connect_data, fetched, initialize, units,
};
use crate::memory_drive::{Memory, sent};
use ioassay_device::transport::nvme_tcp::{NvmeTcp, Session, Subsystem};
use ioassay_device::transport::socket::{End, Output, Protocol, SharedMemory, Then};

pub const NAME: &str = "nqn.2016-06.io.example:drive";
pub const HOST: &str = "nqn.2016-06.io.example:host";
pub const RETRY_IS_VAIN: u16 = 1 << 14;

/// A subsystem and its hosts, whose bytes go in by hand.
pub struct Scene {
    pub nvme: NvmeTcp,
    pub drive: Memory,
    pub sessions: Vec<Session>,
    pub start: Instant,
    pub digests: (bool, bool),
    pub then: Then,
}

impl Scene {
    pub fn new() -> Self {
        Self::over(Memory::new(4 << 20, 512))
    }

    pub fn over(drive: Memory) -> Self {
        Self::of(NvmeTcp::new(Subsystem::new(NAME).unwrap()), drive)
    }

    pub fn of(nvme: NvmeTcp, drive: Memory) -> Self {
        Self { nvme, drive, sessions: Vec::new(), start: Instant::now(), digests: (false, false), then: Then::Wants(1) }
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

    /// A connection before its initialization.
    pub fn accept(&mut self) -> usize {
        let (at, memory) = (self.sessions.len(), SharedMemory::default());
        let session = (self.nvme).open(0, at as u32, self.start, &memory, &mut Vec::new());
        self.sessions.push(session);
        at
    }

    pub fn open(&mut self) -> usize {
        let at = self.accept();
        let digests = u8::from(self.digests.0) | (u8::from(self.digests.1) << 1);
        self.send(at, &initialize(0, digests));
        at
    }

    pub fn admin(&mut self, name: &str, keep_alive_ms: u32) -> usize {
        let at = self.open();
        let data = connect_data(0xffff, name, HOST);
        assert_eq!(self.ask_with(at, connect(0, 32, keep_alive_ms), &data).0, 0);
        assert_eq!(self.ask(at, configure(ENABLED)), (0, 0));
        at
    }

    pub fn io(&mut self, number: u16, entries: u16) -> usize {
        let at = self.open();
        let data = connect_data(1, NAME, HOST);
        assert_eq!(self.ask_with(at, connect(number, entries, 0), &data).0, 0);
        at
    }

    /// Sends bytes, lets the drive answer, and gives what came back.
    pub fn send(&mut self, at: usize, bytes: &[u8]) -> Vec<Unit> {
        let mut all = self.receive(at, bytes);
        all.extend(self.answers(at));
        all
    }

    /// Sends bytes, and the drive answers none of its commands yet.
    pub fn receive(&mut self, at: usize, bytes: &[u8]) -> Vec<Unit> {
        let mut out = Vec::new();
        let session = &mut self.sessions[at];
        let received = (self.nvme).received(session, bytes, &mut out, &mut self.drive);
        self.then = received.then;
        let ended = matches!(received.then, Then::Ends(_));
        assert!(ended || received.consumed == bytes.len(), "{received:?}");
        units(&out)
    }

    pub fn answers(&mut self, at: usize) -> Vec<Unit> {
        let mut out = Output::default();
        while let Some(answer) = self.drive.due.pop_front() {
            let session = &mut self.sessions[at];
            self.nvme.answer(session, answer, &mut out, &self.drive);
        }
        units(&sent(out, &self.drive))
    }

    /// The status and result of a command without data.
    pub fn ask(&mut self, at: usize, entry: Entry) -> (u16, u64) {
        self.ask_with(at, entry, &[])
    }

    pub fn ask_with(&mut self, at: usize, entry: Entry, data: &[u8]) -> (u16, u64) {
        let capsule = entry.capsule(data, self.digests);
        let (_, status, result) = completed(&self.send(at, &capsule));
        (status, result)
    }

    pub fn tick(&mut self, at: usize, after: Duration) -> (Option<End>, Vec<Unit>) {
        let mut out = Vec::new();
        let (session, now) = (&mut self.sessions[at], self.start + after);
        let end = self.nvme.tick(session, now, &mut out, &self.drive);
        (end, units(&out))
    }

    /// What the admin queue says unasked: the number and result of an event.
    pub fn next_event(&mut self) -> Option<(u16, u64)> {
        match self.tick(0, Duration::ZERO).1[..] {
            [] => None,
            ref said => {
                let (id, _, result) = completed(said);
                Some((id, result))
            }
        }
    }

    pub fn identify(&mut self, what: u32, namespace: u32) -> Result<Vec<u8>, u16> {
        let entry = Entry::new(6, 9).namespace(namespace).word(10, what);
        self.fetch(0, &entry.pointer(0x5a, 0, 4096))
    }

    /// The data of a command, or its status.
    pub fn fetch(&mut self, at: usize, entry: &Entry) -> Result<Vec<u8>, u16> {
        fetched(&self.send(at, &entry.capsule(&[], self.digests)))
    }

    pub fn log(&mut self, page: u32, length: u32, offset: u32) -> Result<Vec<u8>, u16> {
        let entry = Entry::new(2, 9).pointer(0x5a, 0, length).word(12, offset);
        let entry = entry.word(10, page | ((length / 4 - 1) << 16));
        self.fetch(0, &entry)
    }
}

pub fn read(id: u16, first: u64, blocks: u32) -> Entry {
    let entry = Entry::new(2, id).blocks(first, blocks);
    entry.pointer(0x5a, 0, blocks * 512)
}

pub fn write(id: u16, first: u64, blocks: u32) -> Entry {
    let entry = Entry::new(1, id).blocks(first, blocks);
    entry.pointer(0x01, 0, blocks * 512)
}

pub fn vain(status: u16) -> u16 {
    status | RETRY_IS_VAIN
}
