//! A drive of plain memory, clients whose bytes go in by hand, and the smallest loop that serves, for tests of transports.

#![allow(dead_code)] // each test file uses what it needs

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ioassay_device::command::{Answer, Command, Drive, DriveInfo, Extent, Health, Op, Status, Tag, Trouble};
use ioassay_device::namespace::{Namespace, Namespaces};
use ioassay_device::transport::socket::{End, Endpoint, Output, Protocol, SharedMemory, Then};
use ioassay_device::transport::{self, Probe, Transport};
use ioassay_device::zones::{ZoneError, Zones};
use tempfile::TempDir;

/// Answers at once, or when it is told to.
pub struct Memory {
    pub facts: DriveInfo,
    pub bytes: Vec<u8>,
    /// Its namespaces, if they are not one.
    pub namespaces: Option<Namespaces>,
    pub due: VecDeque<Answer>,
    /// Commands in the order in which they came.
    pub seen: Vec<Command>,
    pub keeps: bool,
    pub trouble: Trouble,
    pub status: Status,
    pub zones: Option<Zones>,
}

impl Memory {
    pub fn new(size_bytes: u64, block_bytes: u32) -> Self {
        let facts = DriveInfo {
            size_bytes,
            block_bytes,
            serial: "IA0001".into(),
            model: "ioassay memory".into(),
            ..DriveInfo::default()
        };
        Self {
            facts,
            bytes: vec![0; size_bytes as usize],
            namespaces: None,
            due: VecDeque::new(),
            seen: Vec::new(),
            keeps: true,
            trouble: Trouble::default(),
            status: Status::Done,
            zones: None,
        }
    }

    /// One that does not remember its commands.
    pub fn forgetful(size_bytes: u64, block_bytes: u32) -> Self {
        Self { keeps: false, ..Self::new(size_bytes, block_bytes) }
    }

    /// A drive of namespaces of these sizes, one behind the other.
    pub fn divided(sizes_bytes: &[u64], block_bytes: u32) -> Self {
        let mut drive = Self::new(sizes_bytes.iter().sum(), block_bytes);
        drive.namespaces = Some(Namespaces::of_sizes(&drive.facts, sizes_bytes, 4096).expect("namespaces"));
        drive
    }

    fn carry_out(&mut self, command: &Command, data: &[u8]) -> Status {
        let (start, length) = (command.offset_bytes, command.length_bytes);
        let block = u64::from(self.facts.block_bytes);
        let is_whole = start % block == 0 && length % block == 0;
        let is_possible = is_whole && start + length <= self.facts.size_bytes;
        assert!(is_possible, "the transport let {command:?} through");
        if self.status != Status::Done {
            return self.status;
        }
        if let Some(zones) = &mut self.zones {
            if let Err(error) = in_zones(zones, command, &mut self.bytes) {
                return Status::Zone(error);
            }
        }
        let range = start as usize..(start + length) as usize;
        match command.op {
            Op::Write => self.bytes[range].copy_from_slice(data),
            Op::Trim | Op::WriteZeroes => self.bytes[range].fill(0),
            Op::Read | Op::Flush | Op::Zone(..) => assert!(data.is_empty()),
        }
        Status::Done
    }
}

/// What the zones make of a command: they refuse it, or change.
fn in_zones(zones: &mut Zones, command: &Command, bytes: &mut [u8]) -> Result<(), ZoneError> {
    let (start, length) = (command.offset_bytes, command.length_bytes);
    match command.op {
        Op::Read => zones.check_read(start..start + length),
        Op::Trim => zones.check_deallocate(start..start + length),
        Op::Flush => Ok(()),
        Op::Write | Op::WriteZeroes => {
            zones.check_write(start, length)?;
            zones.write(start, length);
            Ok(())
        }
        Op::Zone(action, is_of_all) => {
            for held in zones.manage(action, (!is_of_all).then_some(start))? {
                bytes[held.start as usize..held.end as usize].fill(0);
            }
            Ok(())
        }
    }
}

impl Drive for Memory {
    fn facts(&self) -> &DriveInfo {
        &self.facts
    }

    fn namespace(&self, id: u32) -> Option<Namespace<'_>> {
        let whole = (id == 1).then_some(Namespace { id, start_bytes: 0, facts: &self.facts });
        let namespaces = self.namespaces.as_ref();
        namespaces.map_or(whole, |namespaces| namespaces.get(id))
    }

    fn namespace_count(&self) -> u32 {
        let namespaces = self.namespaces.as_ref();
        namespaces.map_or(1, |namespaces| namespaces.count() as u32)
    }

    fn submit(&mut self, command: Command, data: &[u8]) {
        let status = self.carry_out(&command, data);
        if self.keeps {
            self.seen.push(command);
        }
        self.due.push_back(Answer { command, status, arrived_ps: 0, deadline_ps: 0 });
    }

    fn abort(&mut self, tag: Tag) -> bool {
        let mut of_tag = self.due.iter_mut();
        let Some(answer) = of_tag.find(|answer| answer.command.tag == tag) else {
            return false;
        };
        answer.status = Status::Aborted;
        true
    }

    fn content(&self, offset_bytes: u64, length_bytes: u64) -> &[u8] {
        &self.bytes[offset_bytes as usize..(offset_bytes + length_bytes) as usize]
    }

    /// A block is allocated that has anything but zeroes.
    fn extent(&self, offset_bytes: u64, length_bytes: u64) -> Extent {
        let blocks = self.content(offset_bytes, length_bytes);
        let mut blocks =
            blocks.chunks(self.facts.block_bytes as usize).map(|block| block.iter().any(|&byte| byte != 0));
        let is_allocated = blocks.next().expect("a block");
        let alike = 1 + blocks.take_while(|&block| block == is_allocated).count() as u64;
        Extent { length_bytes: alike * u64::from(self.facts.block_bytes), is_allocated }
    }

    fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }

    fn trouble(&self) -> Trouble {
        self.trouble
    }

    fn health(&self) -> Health {
        Health { reads: 3, written_bytes: 1_024_000, unsafe_shutdowns: 7, ..Health::default() }
    }
}

/// The number of the transport of all clients.
const TRANSPORT: u32 = 7;

/// A client whose bytes go in by hand.
pub struct Client<S> {
    pub session: S,
    /// What it sent that was not taken yet.
    pub unread: Vec<u8>,
    /// What was sent to it.
    pub out: Vec<u8>,
    pub then: Then,
    /// Whether its units have digests of headers and of data, over NVMe/TCP.
    pub digests: (bool, bool),
    pub is_open: bool,
}

/// A protocol, clients of it, and their drive, without sockets.
pub struct Clients<P: Protocol> {
    pub protocol: P,
    pub drive: Memory,
    pub all: Vec<Client<P::Session>>,
    pub memory: SharedMemory,
    memory_changes: u64,
    start: Instant,
    pub elapsed: Duration,
}

impl<P: Protocol> Clients<P> {
    pub fn of(protocol: P, drive: Memory) -> Self {
        let (start, elapsed, memory) = (Instant::now(), Duration::ZERO, SharedMemory::default());
        Self { protocol, drive, all: Vec::new(), memory, memory_changes: 0, start, elapsed }
    }

    /// One more client, which says nothing yet.
    pub fn accept(&mut self) -> usize {
        let at = self.all.len();
        let client = self.connect(at);
        self.all.push(client);
        at
    }

    pub fn connect(&mut self, at: usize) -> Client<P::Session> {
        let (now, mut out) = (self.start + self.elapsed, Vec::new());
        let session = self.protocol.open(TRANSPORT, at as u32, now, &self.memory, &mut out);
        Client { session, unread: Vec::new(), out, then: Then::Wants(1), digests: (false, false), is_open: true }
    }

    /// Bytes arrive from a client. The drive answers none of its commands yet.
    pub fn arrive(&mut self, at: usize, bytes: &[u8]) -> Then {
        let client = &mut self.all[at];
        client.unread.extend_from_slice(bytes);
        let received = self.protocol.received(&mut client.session, &client.unread, &mut client.out, &mut self.drive);
        client.unread.drain(..received.consumed);
        client.then = received.then;
        if let Then::Wants(wants) = received.then {
            let left = client.unread.len();
            assert!(wants > left && wants <= (32 << 20) + 64, "{wants} bytes are wanted, {left} are there");
        }
        self.check();
        received.then
    }

    /// As many answers are due as all sessions wait for, and a session that waits for memory gets it in the end.
    pub fn check(&mut self) {
        while self.memory_changes != self.memory.changes() {
            self.memory_changes = self.memory.changes();
            for client in self.all.iter_mut().filter(|client| client.is_open) {
                self.protocol.memory_freed(&mut client.session, &mut client.out);
            }
        }
        let mut sessions = self.all.iter().map(|client| &client.session);
        let in_flight = sessions.clone().map(|session| self.protocol.in_flight(session));
        assert_eq!(in_flight.sum::<usize>(), self.drive.due.len());
        // Nobody waits for memory that nobody has.
        let holds = sessions.any(|session| self.protocol.holds_memory(session));
        assert!(holds || !self.memory.is_short());
    }

    /// Hands a command's answer to its client.
    pub fn deliver(&mut self, answer: Answer) {
        assert_eq!(answer.command.tag.transport, TRANSPORT);
        let client = &mut self.all[answer.command.tag.queue as usize];
        if client.is_open {
            let mut out = Output::default();
            self.protocol.answer(&mut client.session, answer, &mut out, &self.drive);
            assert!(out.send(&mut client.out, &self.drive).expect("memory takes it"));
        } else {
            self.protocol.dropped(&mut client.session, answer);
        }
    }

    /// All that was sent to a client, once the drive answered every command.
    pub fn output(&mut self, at: usize) -> Vec<u8> {
        while let Some(answer) = self.drive.due.pop_front() {
            self.deliver(answer);
        }
        std::mem::take(&mut self.all[at].out)
    }

    /// Time goes on until this is over since the start.
    pub fn pass(&mut self, at: usize, elapsed: Duration) -> Option<End> {
        let client = &mut self.all[at];
        self.elapsed = elapsed;
        self.protocol.tick(&mut client.session, self.start + elapsed, &mut client.out, &self.drive)
    }

    pub fn close(&mut self, at: usize) {
        let client = &mut self.all[at];
        if std::mem::take(&mut client.is_open) {
            self.protocol.closed(&mut client.session);
            client.unread.clear();
        }
    }
}

/// One round: what arrived is taken, answered and sent.
pub fn round(transport: &mut dyn Transport, drive: &mut Memory) -> bool {
    let mut any = transport.poll(drive).expect("the transport goes on");
    while let Some(answer) = drive.due.pop_front() {
        transport.answer(answer, drive);
        any = true;
    }
    any | transport.send(drive).expect("the transport goes on")
}

/// A drive that a thread serves, until this is dropped.
pub struct Served {
    pub address: String,
    pub probe: Option<Probe>,
    pub folder: TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Memory>>,
}

impl Served {
    /// Serves as this option asks for, where FOLDER is a folder of its own.
    pub fn start(asked: &str, drive: Memory) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), asked, drive)
    }

    pub fn start_in(folder: TempDir, asked: &str, mut drive: Memory) -> Self {
        let asked = asked.replace("FOLDER", &folder.path().display().to_string());
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, (tell, told)) = (stop.clone(), channel());
        let thread = std::thread::spawn(move || {
            let mut transport = transport::open(0, &asked).expect("a transport");
            tell.send((transport.address(), transport.probe())).expect("a listener");
            let mut idle = 0u32;
            while !stopped.load(Ordering::Relaxed) {
                idle = if round(transport.as_mut(), &mut drive) { 0 } else { idle.saturating_add(1) };
                if idle > 20_000 {
                    // Tests run beside each other on few cores.
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            drive
        });
        let (address, probe) = told.recv().expect("a drive that starts");
        Self { address, probe, folder, stop, thread: Some(thread) }
    }

    /// Where clients of NBD and of NVMe over TCP connect.
    pub fn endpoint(&self) -> Endpoint {
        endpoint(&self.address)
    }

    /// Ends the serving and gives the drive back.
    pub fn stop(mut self) -> Memory {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it did not panic")
    }
}

/// The endpoint in the address of a transport.
pub fn endpoint(address: &str) -> Endpoint {
    match address.split_once("?socket=") {
        Some((_, path)) => Endpoint::Unix(path.into()),
        None => address.trim_start_matches("nbd://").parse().expect("an address"),
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
