//! A drive of plain memory and the smallest loop that serves it, for tests of transports.

#![allow(dead_code)] // each test file uses what it needs

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ioassay_device::command::{Answer, Command, Drive, DriveInfo, Extent, Health, Op, Status, Tag, Trouble};
use ioassay_device::namespace::{Namespace, Namespaces};
use ioassay_device::transport::Transport;
use ioassay_device::transport::socket::Output;
use ioassay_device::zones::{ZoneError, Zones};

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
        let bytes = vec![0; size_bytes as usize];
        Self {
            facts,
            bytes,
            namespaces: None,
            due: VecDeque::new(),
            seen: Vec::new(),
            keeps: true,
            trouble: Trouble::default(),
            status: Status::Done,
            zones: None,
        }
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

/// What a client gets of an output.
pub fn sent(mut output: Output, drive: &Memory) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(output.send(&mut bytes, drive).expect("memory takes it"));
    bytes
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

/// A drive that is served by a thread, until it is dropped.
pub struct EmulatedDrive {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Memory>>,
}

impl EmulatedDrive {
    pub fn start<T: Transport + Send + 'static>(mut transport: T, mut drive: Memory) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut idle = 0u32;
            while !stopped.load(Ordering::Relaxed) {
                idle = idle.saturating_add(1);
                if round(&mut transport, &mut drive) {
                    idle = 0;
                }
                if idle > 20_000 {
                    // Tests run beside each other on few cores.
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            }
            drive
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends the serving and gives the drive back.
    pub fn stop(mut self) -> Memory {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it did not panic")
    }
}

impl Drop for EmulatedDrive {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
