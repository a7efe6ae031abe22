//! Any bytes as what clients do: what they send, in which pieces, when the drive answers and when they
//! vanish. Whatever it is, the drive gets only commands that lie within it, what is kept for a client is
//! bounded, no answer is lost, and a client that behaves is served afterwards.

#![allow(dead_code, unused_imports)] // each user needs one part

pub mod mounted;
mod shared_memory;

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ioassay_device::command::Status;
use ioassay_device::transport::nbd::{Certificates, Export, Nbd};
use ioassay_device::transport::nvme_tcp::{DISCOVERY_NAME, NvmeTcp, Subsystem};
use ioassay_device::transport::socket::{Output, Protocol, SharedMemory, Then};
use ioassay_device::zones::{ZoneGeometry, Zones};

use crate::certificates::Authority;
use crate::host::{self, Capsule, ENABLED, Entry, nbd};
use crate::memory_drive::{Memory, sent};
pub use mounted::fuse;
pub use shared_memory::vfio_user;

const NAME: &str = "nqn.2016-06.io.example:drive";
const SIZE_BYTES: u64 = 1 << 16;

/// What one client may make the transport keep: the longest request, and answers to many.
const MOST_KEPT_BYTES: usize = 48 << 20;

/// A client reads when this much was sent to it.
const READ_BYTES: usize = 3 << 20;

/// Bytes that are used up; zeroes behind their end.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn two(&mut self) -> u16 {
        u16::from_le_bytes([self.next(), self.next()])
    }

    fn four(&mut self) -> u32 {
        u32::from(self.two()) | (u32::from(self.two()) << 16)
    }

    fn some(&mut self, most: usize) -> Vec<u8> {
        let count = usize::from(self.next()) % (most + 1);
        (0..count).map(|_| self.next()).collect()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.next()) % from.len()]
    }

    fn is_over(&self) -> bool {
        self.0.as_slice().is_empty()
    }
}

/// Memory that the clients share: for one of the longest writes at a time.
const SHARED_BYTES: u64 = 1 << 20;

struct Client<S> {
    session: S,
    unread: Vec<u8>,
    out: Vec<u8>,
    open: bool,
}

/// A protocol and its clients.
struct Crowd<P: Protocol> {
    protocol: P,
    drive: Memory,
    clients: Vec<Client<P::Session>>,
    memory: SharedMemory,
    memory_changes: u64,
    start: Instant,
    elapsed: Duration,
}

impl<P: Protocol> Crowd<P> {
    fn new(protocol: P, clients: usize) -> Self {
        let mut drive = Memory::new(SIZE_BYTES, 512);
        drive.keeps = false;
        let (start, elapsed) = (Instant::now(), Duration::ZERO);
        let mut crowd = Self {
            protocol,
            drive,
            clients: Vec::new(),
            memory: SharedMemory::new(SHARED_BYTES),
            memory_changes: 0,
            start,
            elapsed,
        };
        for at in 0..clients {
            let client = crowd.connect(at);
            crowd.clients.push(client);
        }
        crowd
    }

    fn connect(&mut self, at: usize) -> Client<P::Session> {
        let mut out = Vec::new();
        let (number, now) = (at as u32, self.start + self.elapsed);
        let session = (self.protocol).open(0, number, now, &self.memory, &mut out);
        Client { session, unread: Vec::new(), out, open: true }
    }

    fn send(&mut self, at: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(at).filter(|client| client.open) else {
            return;
        };
        client.unread.extend_from_slice(bytes);
        let (session, out) = (&mut client.session, &mut client.out);
        let received = (self.protocol).received(session, &client.unread, out, &mut self.drive);
        assert!(received.consumed <= client.unread.len());
        if let Then::Wants(wants) = received.then {
            let left = client.unread.len() - received.consumed;
            assert!(wants > left, "{wants} bytes are wanted, {left} are there");
            assert!(wants <= (32 << 20) + 64, "{wants} bytes are wanted");
        }
        client.unread.drain(..received.consumed);
        // What follows stands for what TLS decrypts. Nothing may have come before the handshake.
        let too_early = received.then == Then::Encrypts && !client.unread.is_empty();
        assert!(client.out.len() < MOST_KEPT_BYTES);
        if client.out.len() > READ_BYTES {
            client.out.clear();
        }
        if matches!(received.then, Then::Ends(_)) || too_early {
            self.close(at);
        }
        self.check();
    }

    fn close(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if std::mem::take(&mut client.open) {
            self.protocol.closed(&mut client.session);
            client.unread.clear();
        }
    }

    /// As many answers are due as all sessions wait for, and a session that waits for memory gets it in the end.
    fn check(&mut self) {
        while self.memory_changes != self.memory.changes() {
            self.memory_changes = self.memory.changes();
            for client in self.clients.iter_mut().filter(|client| client.open) {
                let (session, out) = (&mut client.session, &mut client.out);
                self.protocol.memory_freed(session, out);
            }
        }
        let mut sessions = self.clients.iter().map(|client| &client.session);
        let in_flight = sessions.clone().map(|session| self.protocol.in_flight(session));
        assert_eq!(in_flight.sum::<usize>(), self.drive.due.len());
        // Nobody waits for memory that nobody has.
        let holds = sessions.any(|session| self.protocol.holds_memory(session));
        assert!(holds || !self.memory.is_short());
    }

    /// Some answers, not in the order of the commands.
    fn answer(&mut self, bytes: &mut Bytes<'_>) {
        for _ in 0..=bytes.next() % 4 {
            if self.drive.due.is_empty() {
                break;
            }
            let number = usize::from(bytes.next()) % self.drive.due.len();
            if let Some(mut answer) = self.drive.due.remove(number) {
                if bytes.next() % 8 == 7 {
                    let failures = [Status::Failed, Status::NoSpace, Status::PowerLost];
                    answer.status = bytes.pick(&failures);
                }
                self.deliver(answer);
            }
        }
        self.check();
    }

    fn deliver(&mut self, answer: ioassay_device::Answer) {
        let client = &mut self.clients[answer.command.tag.queue as usize];
        if client.open {
            let mut out = Output::default();
            self.protocol.answer(&mut client.session, answer, &mut out, &self.drive);
            client.out.extend(sent(out, &self.drive));
        } else {
            self.protocol.dropped(&mut client.session, answer);
        }
    }

    fn tick(&mut self, seconds: u8) {
        self.elapsed += Duration::from_secs(seconds.into());
        for at in 0..self.clients.len() {
            let now = self.start + self.elapsed;
            let client = &mut self.clients[at];
            let (session, out) = (&mut client.session, &mut client.out);
            if client.open && (self.protocol).tick(session, now, out, &self.drive).is_some() {
                self.close(at);
            }
        }
        self.protocol.attention();
    }

    /// A client vanishes; another may take its place when nothing is in flight.
    fn reconnect(&mut self, at: usize) {
        self.close(at);
        if self.protocol.in_flight(&self.clients[at].session) == 0 {
            self.clients[at] = self.connect(at);
        }
    }

    /// Everybody leaves, and all that is due is answered.
    fn finish(&mut self) {
        for at in 0..self.clients.len() {
            self.close(at);
        }
        while let Some(answer) = self.drive.due.pop_front() {
            self.deliver(answer);
        }
        self.check();
        for at in 0..self.clients.len() {
            self.clients[at] = self.connect(at);
        }
    }

    fn output(&mut self, at: usize) -> Vec<u8> {
        while let Some(answer) = self.drive.due.pop_front() {
            self.deliver(answer);
        }
        std::mem::take(&mut self.clients[at].out)
    }
}

fn encrypted() -> Export {
    static CERTIFICATES: OnceLock<Certificates> = OnceLock::new();
    let certificates = CERTIFICATES.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        Authority::new().write(folder.path());
        Certificates::read(folder.path()).expect("certificates")
    });
    Export { certificates: Some(certificates.clone()), ..Export::default() }
}

/// Clients of NBD, with TLS or without: what it decrypts is what they send.
pub fn nbd(script: &[u8]) {
    let mut bytes = Bytes(script.iter());
    let encrypts = bytes.next() % 2 == 0;
    let export = if encrypts { encrypted() } else { Export::default() };
    let mut crowd = Crowd::new(Nbd::new(export), 2);
    let begins = nbd::option(1, &[]);
    let hello = [&nbd::FLAGS[..], &begins].concat();
    let starts_tls = [&nbd::FLAGS[..], &nbd::option(5, &[])].concat();
    while !bytes.is_over() {
        let at = usize::from(bytes.next()) % 2;
        match bytes.next() % 8 {
            0 if encrypts && bytes.next() % 4 > 0 => {
                crowd.send(at, &starts_tls);
                crowd.send(at, &begins);
            }
            0 => crowd.send(at, &hello),
            1 => {
                let data = bytes.some(40);
                let option = nbd::option(u32::from(bytes.next() % 13), &data);
                crowd.send(at, &option);
            }
            2 => {
                let raw = bytes.some(60);
                crowd.send(at, &raw);
            }
            3 => crowd.answer(&mut bytes),
            4 if bytes.next() % 8 == 0 => crowd.reconnect(at),
            5 if bytes.next() % 8 == 0 => crowd.tick(bytes.next() % 16),
            _ => {
                let request = nbd_request(&mut bytes);
                crowd.send(at, &request);
            }
        }
    }
    crowd.finish();
    if encrypts {
        crowd.send(0, &starts_tls);
        crowd.send(0, &begins);
    } else {
        crowd.send(0, &hello);
    }
    crowd.output(0);
    crowd.send(0, &nbd::request(0, 0, 0, 512));
    assert_eq!(crowd.output(0).len(), 16 + 512);
}

fn nbd_request(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let (flags, kind) = (bytes.next() % 32, bytes.next() % 9);
    let offset = u64::from(bytes.two()) * bytes.pick(&[1, 512, 512, 1 << 48]);
    let length = u32::from(bytes.next()) * bytes.pick(&[0, 1, 512, 512, 1 << 20, 1 << 24]);
    let mut request = nbd::request(kind.into(), flags.into(), offset, length);
    if kind == 1 && length <= 1 << 16 {
        request.resize(28 + length as usize, bytes.next());
    }
    request
}

/// Hosts of NVMe over TCP.
pub fn nvme_tcp(script: &[u8]) {
    let mut bytes = Bytes(script.iter());
    let mut subsystem = Subsystem::new(NAME).expect("a name");
    (subsystem.controllers, subsystem.io_queues) = (2, 2);
    let mut crowd = Crowd::new(NvmeTcp::new(subsystem), 4);
    let mut digests = [(false, false); 4];
    let first = bytes.next();
    if first & 2 != 0 {
        crowd.drive.zones = Some(zones());
    }
    if first & 1 == 0 {
        associate(&mut crowd);
    }
    while !bytes.is_over() {
        let at = usize::from(bytes.next()) % 4;
        match bytes.next() % 12 {
            0 => {
                let wanted = bytes.next() % 5;
                crowd.send(at, &host::initialize(bytes.next() % 40, wanted));
                digests[at] = (wanted & 1 != 0, wanted & 2 != 0);
            }
            1 => {
                let name = bytes.pick(&[NAME, DISCOVERY_NAME, "nqn.other"]);
                let data = host::connect_data(bytes.pick(&[0xffff, 0, 1, 2]), name, "nqn.host");
                let (queue, entries) = (bytes.pick(&[0, 1, 2, 3]), bytes.pick(&[1, 2, 32, 1024]));
                let entry = host::connect(queue, entries, bytes.two().into());
                crowd.send(at, &entry.capsule(&data, digests[at]));
            }
            2 => {
                let (shutdown, all_sets) = (ENABLED | (1 << 14), ENABLED | (6 << 4));
                let entry = host::configure(bytes.pick(&[ENABLED, 0, shutdown, 7, all_sets]));
                crowd.send(at, &entry.capsule(&[], digests[at]));
            }
            3 => {
                let raw = bytes.some(80);
                crowd.send(at, &raw);
            }
            4 => crowd.answer(&mut bytes),
            5 if bytes.next() % 8 == 0 => {
                crowd.reconnect(at);
                digests[at] = (false, false);
            }
            6 if bytes.next() % 4 == 0 => crowd.tick(bytes.next() % 16),
            7 => {
                let mut header = bytes.some(20);
                header.resize(16, 0);
                let kind = bytes.pick(&[0, 2, 3, 4, 6, 6, 6, 7, 9, 200]);
                let unit = host::unit(kind, bytes.next(), &header, &bytes.some(64), digests[at]);
                crowd.send(at, &unit);
            }
            8 => crowd.send(at, &asked_data(&mut bytes)),
            9 if bytes.next() % 8 == 0 => {
                crowd.drive.facts.read_only ^= bytes.next() % 2 == 0;
                crowd.drive.trouble.worn_out ^= bytes.next() % 2 == 0;
                let worn = u32::from(bytes.next() % 8);
                crowd.drive.zones.iter_mut().for_each(|zones| zones.wear_out(worn));
            }
            _ => {
                let capsule = any_command(&mut bytes, digests[at]);
                crowd.send(at, &capsule);
            }
        }
    }
    crowd.finish();
    if let Some(zones) = crowd.drive.zones.take() {
        let counts = zones.counts();
        let open = counts.implicitly_opened + counts.explicitly_opened;
        assert!(open <= 2 && open + counts.closed <= 3, "{counts:?}");
    }
    associate(&mut crowd);
    crowd.output(1);
    let read = Entry::new(2, 5).blocks(1, 2).pointer(0x5a, 0, 1024);
    crowd.send(1, &read.alone());
    let data = host::fetched(&host::units(&crowd.output(1)));
    assert_eq!(data.expect("data").len(), 1024);
}

/// Eight zones, of which few can be open.
fn zones() -> Zones {
    Zones::new(ZoneGeometry {
        count: 8,
        zone_bytes: SIZE_BYTES / 8,
        capacity_bytes: SIZE_BYTES / 8 - 2048,
        most_open: 2,
        most_active: 3,
        append_bytes: 8192,
    })
}

/// An admin queue and an I/O queue that do everything right.
fn associate(crowd: &mut Crowd<NvmeTcp>) {
    for (queue, controller) in [(0, 0xffff), (1, 1)] {
        let data = host::connect_data(controller, NAME, "nqn.host");
        let connect = host::connect(queue, 32, 0).capsule(&data, (false, false));
        crowd.send(queue.into(), &host::initialize(0, 0));
        crowd.send(queue.into(), &connect);
        if queue == 0 {
            crowd.send(0, &host::configure(ENABLED).alone());
        }
    }
}

fn asked_data(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let (id, transfer) = (u16::from(bytes.next() % 4), u16::from(bytes.next() % 4));
    let offset = u32::from(bytes.next() % 32) * 4096;
    let length = usize::from(bytes.next() % 32) * 4096;
    let is_last = bytes.next() % 2 == 0;
    host::data(id, transfer, offset, is_last, &vec![1; length])
}

fn any_command(bytes: &mut Bytes<'_>, digests: (bool, bool)) -> Vec<u8> {
    let opcode = bytes
        .pick(&[0, 1, 1, 1, 2, 2, 5, 8, 9, 0x0c, 6, 0x0a, 0x18, 0x7f, 4, 0xff, 0x19, 0x79, 0x79, 0x7a, 0x7d, 0x7d]);
    let id = bytes.pick(&[0, 1, 2, 3, 700, 65535]);
    let mut entry = Entry::new(opcode, id).namespace(bytes.pick(&[1, 1, 1, 0, 2, u32::MAX]));
    let words = [0, 1, 7, 100, 127, 128, 0x0001_0000, 0x03ff_0002];
    entry = entry.word(10, bytes.pick(&words));
    if opcode >= 0x79 {
        entry = entry.word(10, bytes.pick(&[0, 16, 32, 48, 64, 80, 96, 112, 5, 128]));
        let (low, high) = (u32::from(bytes.two()), u32::from(bytes.next() & 1));
        entry = entry.word(13, low | (high << 16));
    }
    entry = entry.word(11, bytes.pick(&[0, 0, 0, 4, 0x14, u32::MAX]));
    let blocks = bytes.pick(&[1u32, 2, 16, 64, 128, 65536]);
    entry = entry.word(12, (blocks - 1) | (u32::from(bytes.next()) << 24));
    let fits = blocks.wrapping_mul(512);
    let length = bytes.pick(&[fits, fits, 4096, 16, 0, u32::MAX]);
    let in_capsule = bytes.next() % 2 == 0;
    entry = entry.pointer(if in_capsule { 0x01 } else { 0x5a }, 0, length);
    if bytes.next() % 8 == 0 {
        entry.0[usize::from(bytes.next()) % 64] = bytes.next();
    }
    let mut data = Vec::new();
    if in_capsule && length <= 8192 {
        data.resize(length as usize, bytes.next());
    }
    entry.capsule(&data, digests)
}
