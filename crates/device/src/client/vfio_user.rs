//! A client of vfio-user: it sets the device up by messages, and its queues need none.
//!
//! The client spins for completions, as SPDK does. Only tests set interrupts.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv,
    recvmsg, sendmsg,
};

use super::nvme::{Data, ENABLED, Entry, encode, size_and_block_bytes};
use super::{Completion, Initiator, Request};
use crate::transport::nvme_tcp::pdu::u32_at;
use crate::transport::vfio_user::mapping::Mapping;

/// How long a drive may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// Spins without a completion from one look at the connection to the next.
const LOOK_EVERY: u32 = 1 << 16;

/// Bytes of a page, of a submission, and of a completion.
const PAGE_BYTES: usize = 4096;
const SUBMISSION_BYTES: usize = 64;
const COMPLETION_BYTES: usize = 16;

/// Entries of the admin queues.
const ADMIN_ENTRIES: u16 = 64;

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
    file: OwnedFd,
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

    /// The file behind the memory, which tests truncate.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
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
    stream: UnixStream,
    messages: u16,
}

/// A reply: what is behind its header, and the descriptor that came with it.
pub type Reply = (Vec<u8>, Option<OwnedFd>);

impl Channel {
    /// Connects and agrees on a version.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let mut channel = Self::connect_silently(path)?;
        let version = [0, 0, 1, 0];
        channel.request(1, &version, &[])?;
        Ok(channel)
    }

    pub fn connect_silently(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(SILENCE))?;
        Ok(Self { stream, messages: 0 })
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
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
            let slices = [IoSlice::new(&bytes[sent..])];
            sent += sendmsg(&self.stream, &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
            ancillary.clear();
        }
        Ok(())
    }

    /// Sends a message and waits for its reply.
    pub fn request(&mut self, command: u16, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<Reply> {
        self.messages = self.messages.wrapping_add(1);
        let mut message = [self.messages, command].map(u16::to_le_bytes).concat();
        message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_le_bytes());
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(body);
        self.send(&message, descriptors)?;
        self.receive()
    }

    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut header = [0; HEADER_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        let mut slices = [IoSliceMut::new(&mut header)];
        let received = recvmsg(&self.stream, &mut slices, &mut ancillary, flags)?;
        if received.bytes < HEADER_BYTES {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut descriptor = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                descriptor = descriptors.next();
            }
        }
        let bytes = u32_at(&header, 4) as usize;
        let mut body = vec![0; bytes.saturating_sub(HEADER_BYTES).min(1 << 20)];
        self.stream.read_exact(&mut body)?;
        match u32_at(&header, 12) {
            0 => Ok((body, descriptor)),
            error => Err(io::Error::from_raw_os_error(i32::try_from(error).unwrap_or(libc::EIO))),
        }
    }

    pub fn read(&mut self, region: u32, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let body = access(region, offset, bytes);
        let (mut reply, _) = self.request(9, &body, &[])?;
        if reply.len() != 16 + bytes {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(reply.split_off(16))
    }

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut body = access(region, offset, data.len());
        body.extend_from_slice(data);
        self.request(10, &body, &[]).map(|_| ())
    }

    /// Maps a part of a file for the device.
    pub fn map(&mut self, address: u64, length_bytes: u64, file: Option<(BorrowedFd<'_>, u64)>) -> io::Result<()> {
        let offset = file.map_or(0, |(_, offset)| offset);
        let mut body = [32u32, 3].map(u32::to_le_bytes).concat();
        body.extend([offset, address, length_bytes].map(u64::to_le_bytes).concat());
        let descriptors: Vec<BorrowedFd<'_>> = file.iter().map(|(file, _)| *file).collect();
        self.request(2, &body, &descriptors).map(|_| ())
    }

    pub fn unmap(&mut self, address: u64, length_bytes: u64) -> io::Result<()> {
        let mut body = [24u32, 0].map(u32::to_le_bytes).concat();
        body.extend([address, length_bytes].map(u64::to_le_bytes).concat());
        self.request(3, &body, &[]).map(|_| ())
    }

    /// Sets the interrupts from a vector on.
    pub fn set_interrupts(&mut self, start: u32, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let body = [20, 4 | (1 << 5), 2, start, descriptors.len() as u32].map(u32::to_le_bytes).concat();
        self.request(8, &body, descriptors).map(|_| ())
    }
}

fn access(region: u32, offset: u64, bytes: usize) -> Vec<u8> {
    let mut body = offset.to_le_bytes().to_vec();
    body.extend_from_slice(&region.to_le_bytes());
    body.extend_from_slice(&(bytes as u32).to_le_bytes());
    body
}

/// A submission queue at the beginning of shared memory, and a completion queue.
#[derive(Debug)]
struct Rings {
    id: u16,
    entries: u16,
    doorbells: Mapping,
    completions_at: usize,
    tail: u16,
    head: u16,
    phase: bool,
    alive: UnixStream,
}

/// An entry of a completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    pub result: u32,
    /// How far the submission queue is.
    pub head: u16,
    pub id: u16,
    /// The status of the command, without the phase.
    pub status: u16,
}

impl Completed {
    /// An error where it was refused.
    fn accepted(self) -> io::Result<Self> {
        let error = self.status.into();
        if error == 0 { Ok(self) } else { Err(io::Error::other(super::Refused { error })) }
    }
}

impl Rings {
    fn new(id: u16, entries: u16, completions_at: usize, doorbells: &OwnedFd, channel: &Channel) -> io::Result<Self> {
        let doorbells = Mapping::new(doorbells, PAGE_BYTES as u64, PAGE_BYTES as u64, true)?;
        let alive = channel.stream.try_clone()?;
        Ok(Self { id, entries, doorbells, completions_at, tail: 0, head: 0, phase: true, alive })
    }

    fn place(&mut self, submission: &[u8; SUBMISSION_BYTES], memory: &Shared) {
        memory.write(usize::from(self.tail) * SUBMISSION_BYTES, submission);
        self.tail = (self.tail + 1) % self.entries;
    }

    fn ring(&self) {
        let _ = self.doorbells.store(8 * usize::from(self.id), self.tail.into());
    }

    /// The next completion, if it is there.
    fn next(&mut self, memory: &Shared) -> Option<Completed> {
        let at = self.completions_at + usize::from(self.head) * COMPLETION_BYTES;
        let last = memory.load(at + 12);
        if (last >> 16) & 1 != u32::from(self.phase) {
            return None;
        }
        let middle = memory.load(at + 8);
        self.head = (self.head + 1) % self.entries;
        if self.head == 0 {
            self.phase = !self.phase;
        }
        Some(Completed { result: memory.load(at), head: middle as u16, id: last as u16, status: (last >> 17) as u16 })
    }

    fn ring_completions(&self) {
        let at = 8 * usize::from(self.id) + 4;
        let _ = self.doorbells.store(at, self.head.into());
    }

    fn wait(&mut self, memory: &Shared) -> io::Result<Completed> {
        let mut spins = 0u32;
        let mut since = None;
        loop {
            if let Some(entry) = self.next(memory) {
                return Ok(entry);
            }
            std::hint::spin_loop();
            spins = spins.wrapping_add(1);
            if spins % LOOK_EVERY == 0 {
                self.check_alive()?;
                if since.get_or_insert_with(Instant::now).elapsed() > SILENCE {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
        }
    }

    fn check_alive(&self) -> io::Result<()> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(&self.alive, &mut [0u8; 1][..], flags) {
            Ok((0, _)) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A controller with its admin queue.
#[derive(Debug)]
pub struct Admin {
    pub channel: Channel,
    /// Memory of the admin queue: submissions, completions, and data from the third page on.
    pub memory: Shared,
    doorbells: OwnedFd,
    rings: Rings,
    commands: u16,
    regions: u64,
}

/// Where data of admin commands are.
const ADMIN_DATA_AT: usize = 2 * PAGE_BYTES;

impl Admin {
    /// Connects and enables the controller.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let mut channel = Channel::connect(path)?;
        let mut body = vec![0; 32];
        body[..4].copy_from_slice(&4096u32.to_le_bytes());
        let (_, doorbells) = channel.request(5, &body, &[])?;
        let doorbells = doorbells.ok_or(ErrorKind::InvalidData)?;
        let memory = Shared::new(ADDRESS, 16 * PAGE_BYTES)?;
        channel.map(memory.address, memory.length_bytes as u64, Some((memory.file(), 0)))?;
        let rings = Rings::new(0, ADMIN_ENTRIES, PAGE_BYTES, &doorbells, &channel)?;
        let mut admin = Self { channel, memory, doorbells, rings, commands: 0, regions: 1 };
        admin.enable()?;
        Ok(admin)
    }

    /// Enables the controller, with empty queues.
    pub fn enable(&mut self) -> io::Result<()> {
        self.memory.write(0, &[0; 2 * PAGE_BYTES]);
        (self.rings.tail, self.rings.head, self.rings.phase) = (0, 0, true);
        let last = u32::from(ADMIN_ENTRIES - 1);
        let attributes = (last << 16) | last;
        self.channel.write(0, 0x24, &attributes.to_le_bytes())?;
        let completions = self.memory.address + PAGE_BYTES as u64;
        self.channel.write(0, 0x28, &self.memory.address.to_le_bytes())?;
        self.channel.write(0, 0x30, &completions.to_le_bytes())?;
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

    pub fn configure(&mut self, to: u32) -> io::Result<()> {
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
        self.commands = self.commands.wrapping_add(1);
        let entry = Entry::new(opcode, self.commands).namespace(namespace).pages((page, 0));
        let entry = (10..).zip(words).fold(entry, |entry, (at, &value)| entry.word(at, value));
        self.rings.place(&entry.0, &self.memory);
        self.rings.ring();
        self.commands
    }

    /// Waits for the next completion.
    pub fn reap(&mut self) -> io::Result<Completed> {
        let entry = self.rings.wait(&self.memory)?;
        self.rings.ring_completions();
        Ok(entry)
    }

    /// A completion, if one is there.
    pub fn reap_now(&mut self) -> Option<Completed> {
        let entry = self.rings.next(&self.memory);
        self.rings.ring_completions();
        entry
    }

    /// Carries a command out whose data, if it has any, are in one page at [`Admin::data`].
    pub fn call(&mut self, opcode: u8, namespace: u32, words: &[u32]) -> io::Result<Completed> {
        self.call_at(self.memory.address + ADMIN_DATA_AT as u64, opcode, namespace, words)
    }

    fn call_at(&mut self, page: u64, opcode: u8, namespace: u32, words: &[u32]) -> io::Result<Completed> {
        let id = self.submit(opcode, namespace, page, words);
        loop {
            let entry = self.reap()?;
            if entry.id == id {
                return Ok(entry);
            }
        }
    }

    /// Carries a command out; a refusal is an error.
    pub fn require(&mut self, opcode: u8, namespace: u32, words: &[u32]) -> io::Result<Completed> {
        self.call(opcode, namespace, words)?.accepted()
    }

    pub fn data(&self) -> Vec<u8> {
        let mut data = vec![0; PAGE_BYTES];
        self.memory.read(ADMIN_DATA_AT, &mut data);
        data
    }

    /// Writes the page of data.
    pub fn set_data(&self, data: &[u8]) {
        self.memory.write(ADMIN_DATA_AT, data);
    }

    /// More memory for the device, with no other command.
    pub fn share(&mut self, length_bytes: usize) -> io::Result<Shared> {
        let shared = Shared::new(ADDRESS + (self.regions << 32), length_bytes)?;
        self.regions += 1;
        let file = Some((shared.file(), 0));
        self.channel.map(shared.address, length_bytes as u64, file)?;
        Ok(shared)
    }

    /// Creates a pair of I/O queues of this number, with an interrupt if there is a vector.
    pub fn queue(&mut self, id: u16, settings: &Settings, vector: Option<u16>) -> io::Result<Queue> {
        let entries = usize::from(settings.entries);
        let completions_at = (entries * SUBMISSION_BYTES).next_multiple_of(PAGE_BYTES);
        let data_at = completions_at + (entries * COMPLETION_BYTES).next_multiple_of(PAGE_BYTES);
        let lists_at = data_at + entries * settings.data_bytes;
        let memory = self.share(lists_at + entries * PAGE_BYTES)?;
        let (size_bytes, block_bytes) = self.identify()?;
        let size = (u32::from(settings.entries - 1) << 16) | u32::from(id);
        let by_interrupt = vector.map_or(0, |vector| (u32::from(vector) << 16) | 2);
        let at = memory.address + completions_at as u64;
        self.call_at(at, 0x05, 0, &[size, by_interrupt | 1])?.accepted()?;
        self.call_at(memory.address, 0x01, 0, &[size, (u32::from(id) << 16) | 1])?.accepted()?;
        Ok(Queue {
            rings: Rings::new(id, settings.entries, completions_at, &self.doorbells, &self.channel)?,
            memory,
            settings: *settings,
            data_at,
            lists_at,
            size_bytes,
            block_bytes,
            reads: vec![0; entries],
            read: vec![0; settings.data_bytes],
        })
    }

    /// The namespace's size, and bytes of its logical block.
    fn identify(&mut self) -> io::Result<(u64, u32)> {
        self.require(0x06, 1, &[0])?;
        Ok(size_and_block_bytes(&self.data()))
    }
}

/// A pair of I/O queues.
#[derive(Debug)]
pub struct Queue {
    rings: Rings,
    /// The queue's memory: submissions, completions, data of each tag, and lists of their pages.
    pub memory: Shared,
    settings: Settings,
    data_at: usize,
    lists_at: usize,
    size_bytes: u64,
    block_bytes: u32,
    /// Bytes that each tag reads.
    reads: Vec<usize>,
    read: Vec<u8>,
}

impl Queue {
    /// Where data of a tag begin in its memory.
    pub fn data_at(&self, tag: u16) -> usize {
        self.data_at + usize::from(tag) * self.settings.data_bytes
    }

    /// Puts an entry into the queue as it is.
    pub fn place(&mut self, entry: &Entry) {
        self.rings.place(&entry.0, &self.memory);
    }

    /// Rings the doorbell with any value.
    pub fn ring(&self, value: u32) {
        let at = 8 * usize::from(self.rings.id);
        let _ = self.rings.doorbells.store(at, value);
    }

    /// Waits for the next completion, as it is.
    pub fn wait(&mut self) -> io::Result<Completed> {
        let entry = self.rings.wait(&self.memory)?;
        self.rings.ring_completions();
        Ok(entry)
    }

    /// The pages of a tag's data: the first, and the second or a list of those behind it.
    fn pages(&self, tag: u16, bytes: usize) -> (u64, u64) {
        let first = self.memory.address + self.data_at(tag) as u64;
        let second = first + PAGE_BYTES as u64;
        if bytes <= PAGE_BYTES {
            return (first, 0);
        }
        if bytes <= 2 * PAGE_BYTES {
            return (first, second);
        }
        let list_at = self.lists_at + usize::from(tag) * PAGE_BYTES;
        let pages = bytes.div_ceil(PAGE_BYTES) as u64;
        let list = (1..pages).flat_map(|page| (first + page * PAGE_BYTES as u64).to_le_bytes());
        self.memory.write(list_at, &list.collect::<Vec<u8>>());
        (first, self.memory.address + list_at as u64)
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
        let (entry, data) = encode(&request, tag, 1, self.block_bytes);
        let sent = data.sent();
        let reads = if let Data::Read(length_bytes) = data { length_bytes } else { 0 };
        self.reads[usize::from(tag)] = reads;
        if !sent.is_empty() {
            self.memory.write(self.data_at(tag), sent);
        }
        let length_bytes = reads.max(sent.len());
        let pages = if length_bytes > 0 { self.pages(tag, length_bytes) } else { (0, 0) };
        self.rings.place(&entry.pages(pages).0, &self.memory);
    }

    fn push(&mut self) -> io::Result<()> {
        self.rings.ring();
        Ok(())
    }

    fn reap(&mut self, done: &mut dyn FnMut(Completion<'_>)) -> io::Result<usize> {
        let mut next = Some(self.rings.wait(&self.memory)?);
        let mut count = 0;
        while let Some(entry) = next {
            count += 1;
            let wanted = self.reads.get(usize::from(entry.id)).copied().unwrap_or(0);
            let bytes = if self.settings.copies && entry.status == 0 { wanted } else { 0 };
            if bytes > 0 {
                let at = self.data_at(entry.id);
                self.memory.read(at, &mut self.read[..bytes]);
            }
            done(Completion { tag: entry.id, error: entry.status.into(), data: &self.read[..bytes] });
            next = self.rings.next(&self.memory);
        }
        self.rings.ring_completions();
        Ok(count)
    }
}

/// Connects, and creates one pair of I/O queues.
pub fn connect(path: &Path, settings: &Settings) -> io::Result<(Admin, Queue)> {
    let mut admin = Admin::connect(path)?;
    let queue = admin.queue(1, settings, None)?;
    Ok((admin, queue))
}
