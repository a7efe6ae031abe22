//! Any bytes as what clients do: what they send, in which pieces, when the drive answers and when they
//! vanish. Whatever it is, the drive gets only commands that lie within it, what is kept for a client is
//! bounded, no answer is lost, and a client that behaves is served afterwards.

#![allow(dead_code, unused_imports)] // each user needs one part

pub mod mounted;
mod shared_memory;

use std::sync::OnceLock;
use std::time::Duration;

use ioassay_device::command::Status;
use ioassay_device::transport::nbd::{Certificates, Export, Nbd};
use ioassay_device::transport::nvme_tcp::{DISCOVERY_NAME, NvmeTcp, Subsystem};
use ioassay_device::transport::socket::{Protocol, SharedMemory, Then};

use crate::certificates::Authority;
use crate::host::{self, Capsule, ENABLED, Entry, NAME, Scene, nbd};
use crate::memory_drive::{Clients, Memory};
pub use mounted::fuse;
pub use shared_memory::vfio_user;

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

impl<P: Protocol> Clients<P> {
    fn crowd(protocol: P, clients: usize) -> Self {
        let mut crowd = Self::of(protocol, Memory::forgetful(SIZE_BYTES, 512));
        crowd.memory = SharedMemory::new(SHARED_BYTES);
        (0..clients).for_each(|_| _ = crowd.accept());
        crowd
    }

    fn say(&mut self, at: usize, bytes: &[u8]) {
        if !self.all[at].is_open {
            return;
        }
        let then = self.arrive(at, bytes);
        let client = &mut self.all[at];
        // What follows stands for what TLS decrypts. Nothing may have come before the handshake.
        let too_early = then == Then::Encrypts && !client.unread.is_empty();
        assert!(client.out.len() < MOST_KEPT_BYTES);
        if client.out.len() > READ_BYTES {
            client.out.clear();
        }
        if matches!(then, Then::Ends(_)) || too_early {
            self.close(at);
            self.check();
        }
    }

    /// Some answers, not in the order of the commands.
    fn answer_some(&mut self, bytes: &mut Bytes<'_>) {
        for _ in 0..=bytes.next() % 4 {
            let number = usize::from(bytes.next()) % self.drive.due.len().max(1);
            let Some(mut answer) = self.drive.due.remove(number) else {
                break;
            };
            if bytes.next() % 8 == 7 {
                answer.status = bytes.pick(&[Status::Failed, Status::NoSpace, Status::PowerLost]);
            }
            self.deliver(answer);
        }
        self.check();
    }

    fn tick(&mut self, seconds: u8) {
        let elapsed = self.elapsed + Duration::from_secs(seconds.into());
        for at in 0..self.all.len() {
            if self.all[at].is_open && self.pass(at, elapsed).is_some() {
                self.close(at);
            }
        }
        self.protocol.attention();
    }

    /// A client vanishes; another may take its place when nothing is in flight.
    fn reconnect(&mut self, at: usize) {
        self.close(at);
        if self.protocol.in_flight(&self.all[at].session) == 0 {
            self.all[at] = self.connect(at);
        }
    }

    /// Everybody leaves, all that is due is answered, and others come.
    fn renew(&mut self) {
        (0..self.all.len()).for_each(|at| self.close(at));
        self.output(0);
        self.check();
        (0..self.all.len()).for_each(|at| self.reconnect(at));
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
    let mut crowd = Clients::crowd(Nbd::new(export), 2);
    let begins = nbd::option(1, &[]);
    let hello = [&nbd::FLAGS[..], &begins].concat();
    let starts_tls = [&nbd::FLAGS[..], &nbd::option(5, &[])].concat();
    while !bytes.is_over() {
        let at = usize::from(bytes.next()) % 2;
        match bytes.next() % 8 {
            0 if encrypts && bytes.next() % 4 > 0 => {
                crowd.say(at, &starts_tls);
                crowd.say(at, &begins);
            }
            0 => crowd.say(at, &hello),
            1 => {
                let data = bytes.some(40);
                crowd.say(at, &nbd::option(u32::from(bytes.next() % 13), &data));
            }
            2 => crowd.say(at, &bytes.some(60)),
            3 => crowd.answer_some(&mut bytes),
            4 if bytes.next() % 8 == 0 => crowd.reconnect(at),
            5 if bytes.next() % 8 == 0 => crowd.tick(bytes.next() % 16),
            _ => crowd.say(at, &nbd_request(&mut bytes)),
        }
    }
    crowd.renew();
    if encrypts {
        crowd.say(0, &starts_tls);
        crowd.say(0, &begins);
    } else {
        crowd.say(0, &hello);
    }
    crowd.output(0);
    crowd.say(0, &nbd::request(0, 0, 0, 512));
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
    let mut crowd = Clients::crowd(NvmeTcp::new(subsystem), 4);
    let first = bytes.next();
    if first & 2 != 0 {
        crowd.drive.zones = Some(host::zones(8, SIZE_BYTES / 8));
    }
    if first & 1 == 0 {
        associate(&mut crowd);
    }
    while !bytes.is_over() {
        let at = usize::from(bytes.next()) % 4;
        let digests = crowd.all[at].digests;
        match bytes.next() % 13 {
            0 => {
                let wanted = bytes.next() % 5;
                crowd.say(at, &host::initialize(bytes.next() % 40, wanted));
                crowd.all[at].digests = (wanted & 1 != 0, wanted & 2 != 0);
            }
            1 => {
                let name = bytes.pick(&[NAME, DISCOVERY_NAME, "nqn.other"]);
                let data = host::connect_data(bytes.pick(&[0xffff, 0, 1, 2]), name, "nqn.host");
                let (queue, entries) = (bytes.pick(&[0, 1, 2, 3]), bytes.pick(&[1, 2, 32, 1024]));
                let entry = host::connect(queue, entries, bytes.two().into());
                crowd.say(at, &entry.capsule(&data, digests));
            }
            2 => {
                let (shutdown, all_sets) = (ENABLED | (1 << 14), ENABLED | (6 << 4));
                let entry = host::configure(bytes.pick(&[ENABLED, 0, shutdown, 7, all_sets]));
                crowd.say(at, &entry.capsule(&[], digests));
            }
            3 => crowd.say(at, &bytes.some(80)),
            4 => crowd.answer_some(&mut bytes),
            5 if bytes.next() % 8 == 0 => crowd.reconnect(at),
            6 if bytes.next() % 4 == 0 => crowd.tick(bytes.next() % 16),
            7 => {
                let mut header = bytes.some(20);
                header.resize(16, 0);
                let kind = bytes.pick(&[0, 2, 3, 4, 6, 6, 6, 7, 9, 200]);
                crowd.say(at, &host::unit(kind, bytes.next(), &header, &bytes.some(64), digests));
            }
            8 => crowd.say(at, &asked_data(&mut bytes)),
            10 => {
                let blocks = [0, 1, 100, 127, 128, 8191, u64::MAX];
                let source = |_| (bytes.pick(&blocks), bytes.pick(&[1, 2, 64, 128, 2049, 0]));
                let sources: Vec<(u64, u16)> = (0..=at).map(source).collect();
                let (entry, ranges) = host::copy(bytes.pick(&blocks), &sources);
                let (count, flags) = (bytes.pick(&[at as u32, at as u32, 0, 200]), u32::from(bytes.next() % 16));
                crowd.say(at, &entry.word(12, count | (flags << 8)).capsule(&ranges, digests));
            }
            9 if bytes.next() % 8 == 0 => {
                crowd.drive.facts.read_only ^= bytes.next() % 2 == 0;
                crowd.drive.trouble.worn_out ^= bytes.next() % 2 == 0;
                let worn = u32::from(bytes.next() % 8);
                crowd.drive.zones.iter_mut().for_each(|zones| zones.wear_out(worn));
            }
            _ => crowd.say(at, &any_command(&mut bytes, digests)),
        }
    }
    crowd.renew();
    if let Some(zones) = crowd.drive.zones.take() {
        let counts = zones.counts();
        let open = counts.implicitly_opened + counts.explicitly_opened;
        assert!(open <= 2 && open + counts.closed <= 3, "{counts:?}");
    }
    associate(&mut crowd);
    crowd.output(1);
    assert_eq!(crowd.fetch(1, &host::read(5, 1, 2)).expect("data").len(), 1024);
}

/// An admin queue and an I/O queue that do everything right.
fn associate(crowd: &mut Scene) {
    for (queue, controller) in [(0, 0xffff), (1, 1)] {
        crowd.say(queue, &host::initialize(0, 0));
        let connect = host::connect(queue as u16, 32, 0);
        crowd.say(queue, &connect.capsule(&host::connect_data(controller, NAME, "nqn.host"), (false, false)));
        if queue == 0 {
            crowd.say(0, &host::configure(ENABLED).alone());
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
    entry = entry.word(10, bytes.pick(&[0, 1, 7, 100, 127, 128, 0x0001_0000, 0x03ff_0002]));
    if opcode >= 0x79 {
        entry = entry.word(10, bytes.pick(&[0, 16, 32, 48, 64, 80, 96, 112, 5, 128]));
        entry = entry.word(13, u32::from(bytes.two()) | (u32::from(bytes.next() & 1) << 16));
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
    let length = if in_capsule && length <= 8192 { length as usize } else { 0 };
    entry.capsule(&vec![bytes.next(); length], digests)
}
