//! Any bytes as what a client of vfio-user does: its messages, its registers, its doorbells, and what it
//! writes into memory that the drive reads.

use std::fs::File;

use ioassay_device::client::nvme::{ENABLED, Entry};
use ioassay_device::client::vfio_user::{self, Shared};
use ioassay_device::command::Status;
use ioassay_device::transport::nvme_tcp::Subsystem;
use ioassay_device::transport::vfio_user::{Device, Message};

use super::{Bytes, SIZE_BYTES};
use crate::memory_drive::Memory;

const MEMORY_BYTES: usize = 1 << 20;
const ADDRESS: u64 = 1 << 40;

/// Places in the client's memory: of the admin queues, and of those of I/O.
const ADMIN: (u64, u64) = (ADDRESS, ADDRESS + 0x1000);
const ENTRIES: u16 = 16;

/// What a client has mapped at most when it comes to an end.
struct Client {
    device: Device,
    memory: Shared,
    /// How far it filled its queues.
    tails: [u16; 4],
}

impl Client {
    fn new() -> Self {
        let subsystem = Subsystem::of("test");
        let mut client = Self {
            device: Device::new(0, &subsystem).expect("descriptors"),
            memory: Shared::new(ADDRESS, MEMORY_BYTES).expect("memory"),
            tails: [0; 4],
        };
        // It agrees on a version, and shares its memory.
        let drive = &mut Memory::new(512, 512);
        assert!(client.send(1, &[0, 0, 1, 0], 0, drive).is_some());
        assert!(client.map(ADDRESS, 0, MEMORY_BYTES as u64, drive));
        client
    }

    /// Sends a message with this number of descriptors of its memory: the reply, where the client is still there.
    fn send(&mut self, command: u16, body: &[u8], files: usize, drive: &mut Memory) -> Option<Message> {
        let message = vfio_user::message(1, command, body);
        let file = |_| self.memory.file.try_clone().expect("a descriptor");
        let descriptors = (0..files).map(file).collect();
        let reply = self.device.receive(&message, descriptors, drive).ok()??;
        assert!(reply.bytes.len() <= 16 + 16 + 4096);
        Some(reply)
    }

    fn map(&mut self, address: u64, offset: u64, length: u64, drive: &mut Memory) -> bool {
        let reply = self.send(2, &vfio_user::mapping(offset, address, length), 1, drive);
        reply.is_some_and(|reply| reply.bytes[8] == 1)
    }

    fn write(&mut self, region: u32, at: u64, data: &[u8], drive: &mut Memory) {
        self.send(10, &[&vfio_user::access(region, at, data.len()), data].concat(), 0, drive);
    }

    fn read(&mut self, region: u32, at: u64, bytes: usize, drive: &mut Memory) -> Option<Vec<u8>> {
        let reply = self.send(9, &vfio_user::access(region, at, bytes), 0, drive)?;
        reply.bytes.get(32..).map(<[u8]>::to_vec)
    }

    fn enable(&mut self, drive: &mut Memory) {
        self.memory.write(0, &[0; 0x2000]);
        self.tails = [0; 4];
        let last = u32::from(ENTRIES - 1);
        self.write(0, 0x24, &((last << 16) | last).to_le_bytes(), drive);
        self.write(0, 0x28, &ADMIN.0.to_le_bytes(), drive);
        self.write(0, 0x30, &ADMIN.1.to_le_bytes(), drive);
        self.write(0, 0x14, &ENABLED.to_le_bytes(), drive);
    }

    /// Puts an entry into a queue, at the place that all of that number have here.
    fn place(&mut self, queue: u16, entry: &Entry, drive: &mut Memory) {
        let tail = &mut self.tails[usize::from(queue)];
        let at = usize::from(queue) * 0x2000 + usize::from(*tail) * 64;
        *tail = (*tail + 1) % ENTRIES;
        let tail = u32::from(*tail);
        self.memory.write(at, &entry.0);
        self.write(0, 0x1000 + 8 * u64::from(queue), &tail.to_le_bytes(), drive);
    }

    fn create_queues(&mut self, queue: u16, drive: &mut Memory) {
        let size = (u32::from(ENTRIES - 1) << 16) | u32::from(queue);
        let at = ADDRESS + u64::from(queue) * 0x2000;
        let of_queue = (u32::from(queue) << 16) | 1;
        for (opcode, address, flags) in [(5, at + 0x1000, 1), (1, at, of_queue)] {
            let entry = Entry::new(opcode, queue).pages((address, 0)).word(10, size).word(11, flags);
            self.place(0, &entry, drive);
        }
        self.tails[usize::from(queue)] = 0;
    }
}

fn answer(client: &mut Client, drive: &mut Memory, most: usize) {
    for answer in drive.due.drain(..most.min(drive.due.len())).collect::<Vec<_>>() {
        client.device.answer(&answer, drive);
    }
}

/// The client goes, and what the drive has of it is answered.
fn leave(client: &mut Client, drive: &mut Memory) {
    client.device.close(drive);
    assert_eq!(client.device.in_flight(), drive.due.len());
    answer(client, drive, usize::MAX);
    assert_eq!(client.device.in_flight(), 0);
    *client = Client::new();
}

pub fn vfio_user(script: &[u8]) {
    let mut bytes = Bytes(script.iter());
    let mut drive = Memory::forgetful(SIZE_BYTES, 512);
    let mut client = Client::new();
    client.enable(&mut drive);
    while !bytes.is_over() {
        step(&mut client, &mut bytes, &mut drive);
        assert_eq!(client.device.in_flight(), drive.due.len());
        assert!(drive.due.len() <= 4096 + 256);
    }
    leave(&mut client, &mut drive);
    behaves(&mut client, &mut drive);
}

fn step(client: &mut Client, bytes: &mut Bytes<'_>, drive: &mut Memory) {
    match bytes.next() % 15 {
        0 => {
            let (command, descriptors) = (u16::from(bytes.next() % 20), bytes.next() % 4);
            client.send(command, &bytes.some(64), descriptors.into(), drive);
        }
        1 => {
            let at = bytes.pick(&[0x0c, 0x10, 0x14, 0x20, 0x24, 0x28, 0x2c, 0x30, 0x34, 0x38]);
            client.write(0, at, &bytes.four().to_le_bytes(), drive);
        }
        2 => client.write(7, u64::from(bytes.two() % 300), &bytes.some(8), drive),
        3 => {
            let (queue, value) = (u64::from(bytes.next() % 70), bytes.four());
            let value = value % bytes.pick(&[4, 16, 17, 2000, u32::MAX]);
            client.write(0, 0x1000 + 4 * queue, &value.to_le_bytes(), drive);
        }
        4 => client.memory.write(usize::from(bytes.two()) * 4, &bytes.some(64)),
        5 | 6 => client.place(0, &command(bytes, &[0, 1, 2, 4, 5, 6, 8, 9, 0x0a, 0x0c, 0x18, 0x7f]), drive),
        7 | 8 => {
            let entry = command(bytes, &[0, 1, 1, 2, 2, 5, 8, 9, 0x0c, 0x19, 0x55]);
            client.place(u16::from(bytes.next() % 3) + 1, &entry, drive);
        }
        9 => answer(client, drive, bytes.next().into()),
        10 => client.create_queues(u16::from(bytes.next() % 3) + 1, drive),
        11 => client.enable(drive),
        12 => {
            let (page, length) = (u64::from(bytes.next()), u64::from(bytes.next()) * 4096);
            let place = ADDRESS + page * 4096;
            if bytes.next() % 2 == 0 {
                client.map(place, (page % 4) * 4096, length, drive);
            } else {
                client.send(3, &vfio_user::unmapping(place, length), 0, drive);
            }
        }
        13 => match bytes.next() % 4 {
            0 => leave(client, drive),
            1 => client.device.tick(drive),
            2 => {
                let file = File::from(client.memory.file.try_clone().expect("a file"));
                let _ = file.set_len(u64::from(bytes.next()) * 4096);
            }
            _ => drive.status = bytes.pick(&STATUSES),
        },
        _ => {}
    }
    // A client whose memory is gone is left.
    if client.device.poll(drive).and(client.device.signal()).is_err() {
        leave(client, drive);
    }
}

const STATUSES: [Status; 4] = [Status::Done, Status::Done, Status::Media, Status::PowerLost];

/// A command that a client might send, and some that none should.
fn command(bytes: &mut Bytes<'_>, opcodes: &[u8]) -> Entry {
    let opcode = bytes.pick(opcodes);
    let id = u16::from(bytes.next() % 8);
    let namespace = bytes.pick(&[1, 1, 0, u32::MAX, 2]);
    let mut page = || {
        let place = u64::from(bytes.two()) * 16;
        bytes.pick(&[ADDRESS, ADDRESS, 0, u64::MAX - 0xffff]).wrapping_add(place)
    };
    let entry = Entry::new(opcode, id).namespace(namespace).pages((page(), page()));
    (10..13).fold(entry, |entry, number| {
        let word = match bytes.next() % 4 {
            0 => 0,
            1 => bytes.next().into(),
            2 => bytes.two().into(),
            _ => bytes.four(),
        };
        entry.word(number, word)
    })
}

/// Enables the controller and asks it what it is.
fn behaves(client: &mut Client, drive: &mut Memory) {
    drive.status = Status::Done;
    client.enable(drive);
    client.memory.write(0x1000, &[0; 256]);
    let entry = Entry::new(6, 77).pages((ADDRESS + 0x8000, 0)).word(10, 1);
    client.place(0, &entry, drive);
    assert!(client.device.poll(drive).is_ok());
    assert_eq!(client.read(0, 0x1c, 4, drive).expect("registers"), [1, 0, 0, 0]);
    let mut completion = [0; 16];
    client.memory.read(0x1000, &mut completion);
    assert_eq!((completion[12], completion[14]), (77, 1));
    let mut serial = [0; 6];
    client.memory.read(0x8004, &mut serial);
    assert_eq!(&serial, b"IA0001");
}
