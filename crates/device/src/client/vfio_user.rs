//! A client of vfio-user: it sets the device up by messages, and its queues need none.
//!
//! The client spins for completions, as SPDK does. Only tests set interrupts.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use rustix::fs::MemfdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv,
    recvmsg, sendmsg,
};

use super::nvme::{ENABLED, Entry, encode, size_and_block_bytes};
use super::wire::{SILENCE, Silence};
use super::{Completion, Initiator, Request, accepted};
use crate::transport::nvme_tcp::pdu::u32_at;
use crate::transport::vfio_user::mapping::Mapping;

/// Spins without a completion from one look at the connection to the next.
const LOOK_EVERY: u32 = 1 << 16;

/// Bytes of a page, of a submission, and of a completion.
const PAGE_BYTES: usize = 4096;
const SUBMISSION_BYTES: usize = 64;
const COMPLETION_BYTES: usize = 16;

/// Of the admin queues: data of a command are one page.
const ADMIN: Settings = Settings { entries: 64, data_bytes: PAGE_BYTES, copies: true };

/// Where the first region lies for the device, and how far apart they are.
const ADDRESS: u64 = 1 << 40;

const HEADER_BYTES: usize = 16;

/// Parameters of a client's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Entries of an I/O queue: one command less can be in flight.
    pub entries: u16,
    /// Data of a command, at most; whole pages.
    pub data_bytes: usize,
    /// Whether what was read is copied, so that completions have it. SPDK's `spdk_nvme_perf` does not look at it.
    pub copies: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { entries: 128, data_bytes: 128 << 10, copies: true }
    }
}

/// Memory of this client that the device may access.
#[derive(Debug)]
pub struct Shared {
    mapping: Mapping,
    /// The file behind the memory.
    pub file: OwnedFd,
    /// The device's address of the first byte.
    pub address: u64,
    pub length_bytes: usize,
}

impl Shared {
    /// Zeroed memory, of which the device is not told yet.
    pub fn new(address: u64, length_bytes: usize) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("ioassay-client", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, length_bytes as u64)?;
        let mapping = Mapping::new(&file, 0, length_bytes as u64, true)?;
        Ok(Self { mapping, file, address, length_bytes })
    }

    /// Copies to it.
    ///
    /// # Panics
    /// Beyond its end.
    pub fn write(&self, at: usize, from: &[u8]) {
        assert!(self.mapping.write(at, from), "{at} is beyond the end");
    }

    /// Copies from it.
    ///
    /// # Panics
    /// Beyond its end.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        assert!(self.mapping.read(at, into), "{at} is beyond the end");
    }

    fn load(&self, at: usize) -> u32 {
        self.mapping.load(at).unwrap_or(0)
    }
}

#[derive(Debug)]
pub struct Channel {
    pub stream: UnixStream,
    messages: u16,
}

/// A reply: what is behind its header, and the descriptor that came with it.
pub type Reply = (Vec<u8>, Option<OwnedFd>);

impl Channel {
    /// Connects and agrees on a version.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let mut channel = Self::connect_silently(path)?;
        channel.request(1, &[0, 0, 1, 0], &[])?;
        Ok(channel)
    }

    pub fn connect_silently(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(SILENCE))?;
        Ok(Self { stream, messages: 0 })
    }

    /// Sends bytes, and descriptors with the first of them.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let mut sent = 0;
        while sent < bytes.len() {
            sent += sendmsg(&self.stream, &[IoSlice::new(&bytes[sent..])], &mut ancillary, SendFlags::NOSIGNAL)?;
            ancillary.clear();
        }
        Ok(())
    }

    /// Sends a message and waits for its reply.
    pub fn request(&mut self, command: u16, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<Reply> {
        self.messages = self.messages.wrapping_add(1);
        self.send(&message(self.messages, command, body), descriptors)?;
        self.receive()
    }

    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut header = [0; HEADER_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        let received = recvmsg(&self.stream, &mut [IoSliceMut::new(&mut header)], &mut ancillary, flags)?;
        if received.bytes < HEADER_BYTES {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let descriptor = descriptors.next();
        let bytes = u32_at(&header, 4) as usize;
        let mut body = vec![0; bytes.saturating_sub(HEADER_BYTES).min(1 << 20)];
        self.stream.read_exact(&mut body)?;
        match u32_at(&header, 12) {
            0 => Ok((body, descriptor)),
            error => Err(io::Error::from_raw_os_error(i32::try_from(error).unwrap_or(libc::EIO))),
        }
    }

    pub fn read(&mut self, region: u32, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let (mut reply, _) = self.request(9, &access(region, offset, bytes), &[])?;
        if reply.len() != 16 + bytes {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(reply.split_off(16))
    }

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.request(10, &[&access(region, offset, data.len()), data].concat(), &[]).map(|_| ())
    }

    /// Maps memory for the device.
    fn map(&mut self, memory: &Shared) -> io::Result<()> {
        let body = mapping(0, memory.address, memory.length_bytes as u64);
        self.request(2, &body, &[memory.file.as_fd()]).map(|_| ())
    }

    pub fn unmap(&mut self, address: u64, length_bytes: u64) -> io::Result<()> {
        self.request(3, &unmapping(address, length_bytes), &[]).map(|_| ())
    }

    /// Sets the interrupts from a vector on.
    pub fn set_interrupts(&mut self, start: u32, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let body = [20, 4 | (1 << 5), 2, start, descriptors.len() as u32].map(u32::to_le_bytes).concat();
        self.request(8, &body, descriptors).map(|_| ())
    }
}

/// A message of this number.
pub fn message(number: u16, command: u16, body: &[u8]) -> Vec<u8> {
    let head = [number, command].map(u16::to_le_bytes).concat();
    let length = (HEADER_BYTES + body.len()) as u32;
    [&head[..], &length.to_le_bytes(), &[0; 8], body].concat()
}

/// Bodies of messages: that map a part of a file, unmap it, and begin an access to a region.
pub fn mapping(offset: u64, address: u64, length_bytes: u64) -> Vec<u8> {
    [32 | (3 << 32), offset, address, length_bytes].map(u64::to_le_bytes).concat()
}

pub fn unmapping(address: u64, length_bytes: u64) -> Vec<u8> {
    [24, address, length_bytes].map(u64::to_le_bytes).concat()
}

pub fn access(region: u32, offset: u64, bytes: usize) -> Vec<u8> {
    [offset, u64::from(region) | ((bytes as u64) << 32)].map(u64::to_le_bytes).concat()
}

/// An entry of a completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    pub result: u32,
    pub id: u16,
    /// The status of the command, without the phase.
    pub status: u16,
}

/// Where the parts of a queue's memory begin; submissions are at its beginning.
#[derive(Debug)]
struct Layout {
    completions_at: usize,
    /// Data of each tag, one after the other.
    data_at: usize,
    /// A page for each tag that lists the pages of its data.
    lists_at: usize,
    bytes: usize,
}

impl Layout {
    fn new(settings: &Settings) -> Self {
        let entries = usize::from(settings.entries);
        let completions_at = (entries * SUBMISSION_BYTES).next_multiple_of(PAGE_BYTES);
        let data_at = completions_at + (entries * COMPLETION_BYTES).next_multiple_of(PAGE_BYTES);
        let lists_at = data_at + entries * settings.data_bytes;
        Self { completions_at, data_at, lists_at, bytes: lists_at + entries * PAGE_BYTES }
    }
}

/// A pair of queues, with data of its commands.
#[derive(Debug)]
pub struct Queue {
    pub memory: Shared,
    id: u16,
    settings: Settings,
    layout: Layout,
    doorbells: Mapping,
    alive: UnixStream,
    tail: u16,
    head: u16,
    phase: bool,
    size_bytes: u64,
    block_bytes: u32,
    /// Bytes that each tag reads.
    reads: Vec<usize>,
    read: Vec<u8>,
}

impl Queue {
    fn new(id: u16, settings: &Settings, memory: Shared, bar: &OwnedFd, channel: &Channel) -> io::Result<Self> {
        Ok(Self {
            memory,
            id,
            settings: *settings,
            layout: Layout::new(settings),
            doorbells: Mapping::new(bar, PAGE_BYTES as u64, PAGE_BYTES as u64, true)?,
            alive: channel.stream.try_clone()?,
            tail: 0,
            head: 0,
            phase: true,
            size_bytes: 0,
            block_bytes: 512,
            reads: vec![0; settings.entries.into()],
            read: vec![0; settings.data_bytes],
        })
    }

    /// Where data of a tag begin in its memory.
    pub fn data_at(&self, tag: u16) -> usize {
        self.layout.data_at + usize::from(tag) * self.settings.data_bytes
    }

    /// The device's address of the same place.
    pub fn address_of(&self, tag: u16) -> u64 {
        self.memory.address + self.data_at(tag) as u64
    }

    /// The pages of a tag's data: the first, and the second or a list of those behind it.
    fn pages(&self, tag: u16, bytes: usize) -> (u64, u64) {
        let (first, page_bytes) = (self.address_of(tag), PAGE_BYTES as u64);
        match bytes.div_ceil(PAGE_BYTES) as u64 {
            0 => (0, 0),
            1 => (first, 0),
            2 => (first, first + page_bytes),
            pages => {
                let list_at = self.layout.lists_at + usize::from(tag) * PAGE_BYTES;
                let list = (1..pages).flat_map(|page| (first + page * page_bytes).to_le_bytes());
                self.memory.write(list_at, &list.collect::<Vec<u8>>());
                (first, self.memory.address + list_at as u64)
            }
        }
    }

    /// Puts an entry into the queue as it is.
    pub fn place(&mut self, entry: &Entry) {
        self.memory.write(usize::from(self.tail) * SUBMISSION_BYTES, &entry.0);
        self.tail = (self.tail + 1) % self.settings.entries;
    }

    /// Rings the doorbell with any value.
    pub fn ring(&self, value: u32) {
        let _ = self.doorbells.store(8 * usize::from(self.id), value);
    }

    /// The next completion, if it is there.
    pub fn reap_now(&mut self) -> Option<Completed> {
        let at = self.layout.completions_at + usize::from(self.head) * COMPLETION_BYTES;
        let last = self.memory.load(at + 12);
        if (last >> 16) & 1 != u32::from(self.phase) {
            return None;
        }
        let result = self.memory.load(at);
        self.head = (self.head + 1) % self.settings.entries;
        self.phase ^= self.head == 0;
        Some(Completed { result, id: last as u16, status: (last >> 17) as u16 })
    }

    /// Waits for the next completion, as it is.
    pub fn wait(&mut self) -> io::Result<Completed> {
        let entry = self.spin()?;
        self.ring_completions();
        Ok(entry)
    }

    fn spin(&mut self) -> io::Result<Completed> {
        let mut silence = Silence::default();
        loop {
            if let Some(entry) = self.reap_now() {
                return Ok(entry);
            }
            if silence.spin(LOOK_EVERY)? {
                self.check_alive()?;
            }
        }
    }

    /// Says how many completions were taken.
    fn ring_completions(&self) {
        let _ = self.doorbells.store(8 * usize::from(self.id) + 4, self.head.into());
    }

    fn check_alive(&self) -> io::Result<()> {
        match recv(&self.alive, &mut [0u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Initiator for Queue {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn submit(&mut self, tag: u16, request: Request<'_>) {
        let (entry, reads, sent) = encode(&request, tag, 1, self.block_bytes);
        self.reads[usize::from(tag)] = reads;
        if !sent.is_empty() {
            self.memory.write(self.data_at(tag), &sent);
        }
        self.place(&entry.pages(self.pages(tag, reads.max(sent.len()))));
    }

    fn push(&mut self) -> io::Result<()> {
        self.ring(self.tail.into());
        Ok(())
    }

    fn reap(&mut self, done: &mut dyn FnMut(Completion<'_>)) -> io::Result<usize> {
        let mut next = Some(self.spin()?);
        let mut count = 0;
        while let Some(Completed { result, id: tag, status, .. }) = next {
            count += 1;
            let wanted = self.reads.get(usize::from(tag)).copied().unwrap_or(0);
            let bytes = if self.settings.copies && status == 0 { wanted } else { 0 };
            if bytes > 0 {
                self.memory.read(self.data_at(tag), &mut self.read[..bytes]);
            }
            done(Completion { tag, error: status.into(), result: result.into(), data: &self.read[..bytes] });
            next = self.reap_now();
        }
        self.ring_completions();
        Ok(count)
    }
}

/// A controller with its admin queue.
#[derive(Debug)]
pub struct Admin {
    pub channel: Channel,
    pub commands: Queue,
    bar: OwnedFd,
    number: u16,
    regions: u64,
}

impl Admin {
    /// Connects and enables the controller.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let mut channel = Channel::connect(path)?;
        let body = [PAGE_BYTES as u64, 0, 0, 0].map(u64::to_le_bytes).concat();
        let bar = channel.request(5, &body, &[])?.1.ok_or(ErrorKind::InvalidData)?;
        let memory = Shared::new(ADDRESS, Layout::new(&ADMIN).bytes)?;
        channel.map(&memory)?;
        let commands = Queue::new(0, &ADMIN, memory, &bar, &channel)?;
        let mut admin = Self { channel, commands, bar, number: 0, regions: 1 };
        admin.enable()?;
        Ok(admin)
    }

    /// Enables the controller, with empty queues.
    pub fn enable(&mut self) -> io::Result<()> {
        let queue = &mut self.commands;
        queue.memory.write(0, &vec![0; queue.layout.data_at]);
        (queue.tail, queue.head, queue.phase) = (0, 0, true);
        let (last, at) = (u32::from(ADMIN.entries - 1), queue.memory.address);
        let completions_at = at + queue.layout.completions_at as u64;
        self.channel.write(0, 0x24, &((last << 16) | last).to_le_bytes())?;
        self.channel.write(0, 0x28, &at.to_le_bytes())?;
        self.channel.write(0, 0x30, &completions_at.to_le_bytes())?;
        self.configure(ENABLED)?;
        self.wait_for_state(1, 1)
    }

    /// Disables it, and waits until it is.
    pub fn disable(&mut self) -> io::Result<()> {
        self.configure(ENABLED & !1)?;
        self.wait_for_state(1, 0)
    }

    /// Shuts it down, and waits until it is.
    pub fn shut_down(&mut self) -> io::Result<()> {
        self.configure(ENABLED | (1 << 14))?;
        self.wait_for_state(0xc, 8)
    }

    fn configure(&mut self, to: u32) -> io::Result<()> {
        self.channel.write(0, 0x14, &to.to_le_bytes())
    }

    pub fn state(&mut self) -> io::Result<u32> {
        Ok(u32_at(&self.channel.read(0, 0x1c, 4)?, 0))
    }

    /// Waits until these bits of the state are so.
    pub fn wait_for_state(&mut self, bits: u32, wanted: u32) -> io::Result<()> {
        let begin = Instant::now();
        while self.state()? & bits != wanted {
            if begin.elapsed() > SILENCE {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Puts a command into the queue: its opcode, namespace, first page, and words from 10 on. The number
    /// that it was given.
    pub fn submit(&mut self, opcode: u8, namespace: u32, page: u64, words: &[u32]) -> u16 {
        self.number = self.number.wrapping_add(1);
        let entry = Entry::new(opcode, self.number).namespace(namespace).pages((page, 0));
        self.commands.place(&(10..).zip(words).fold(entry, |entry, (at, &value)| entry.word(at, value)));
        self.commands.ring(self.commands.tail.into());
        self.number
    }

    /// Carries a command out whose data, if it has any, are in one page at [`Admin::data`].
    pub fn call(&mut self, opcode: u8, namespace: u32, words: &[u32]) -> io::Result<Completed> {
        self.call_at(self.commands.address_of(0), opcode, namespace, words)
    }

    fn call_at(&mut self, page: u64, opcode: u8, namespace: u32, words: &[u32]) -> io::Result<Completed> {
        let id = self.submit(opcode, namespace, page, words);
        loop {
            let entry = self.commands.wait()?;
            if entry.id == id {
                return Ok(entry);
            }
        }
    }

    /// Carries a command out; a refusal is an error.
    pub fn require(&mut self, opcode: u8, namespace: u32, words: &[u32]) -> io::Result<Completed> {
        let entry = self.call(opcode, namespace, words)?;
        accepted(entry.status.into()).map(|()| entry)
    }

    pub fn data(&self) -> Vec<u8> {
        let mut data = vec![0; PAGE_BYTES];
        self.commands.memory.read(self.commands.data_at(0), &mut data);
        data
    }

    /// Writes the page of data.
    pub fn set_data(&self, data: &[u8]) {
        self.commands.memory.write(self.commands.data_at(0), data);
    }

    /// More memory for the device, with no other command.
    pub fn share(&mut self, length_bytes: usize) -> io::Result<Shared> {
        let shared = Shared::new(ADDRESS + (self.regions << 32), length_bytes)?;
        self.regions += 1;
        self.channel.map(&shared)?;
        Ok(shared)
    }

    /// Creates a pair of I/O queues of this number, with an interrupt if there is a vector.
    pub fn queue(&mut self, id: u16, settings: &Settings, vector: Option<u16>) -> io::Result<Queue> {
        let memory = self.share(Layout::new(settings).bytes)?;
        let mut queue = Queue::new(id, settings, memory, &self.bar, &self.channel)?;
        self.require(0x06, 1, &[0])?;
        (queue.size_bytes, queue.block_bytes) = size_and_block_bytes(&self.data());
        let (size, at) = ((u32::from(settings.entries - 1) << 16) | u32::from(id), queue.memory.address);
        let by_interrupt = vector.map_or(0, |vector| (u32::from(vector) << 16) | 2);
        let completions = (0x05, at + queue.layout.completions_at as u64, by_interrupt | 1);
        for (opcode, at, flags) in [completions, (0x01, at, (u32::from(id) << 16) | 1)] {
            accepted(self.call_at(at, opcode, 0, &[size, flags])?.status.into())?;
        }
        Ok(queue)
    }
}

/// Connects, and creates one pair of I/O queues.
pub fn connect(path: &Path, settings: &Settings) -> io::Result<(Admin, Queue)> {
    let mut admin = Admin::connect(path)?;
    let queue = admin.queue(1, settings, None)?;
    Ok((admin, queue))
}
