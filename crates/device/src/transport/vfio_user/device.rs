//! The controller on its bus: registers, doorbells, and queues.
//!
//! Everything here is what one client sees, and goes with it. No function waits, and none trusts what lies in the
//! client's memory for longer than one access. What the client asks by messages is in `requests`; what becomes of
//! commands is common to all transports.

use rustix::io::Errno;

use super::configuration::{CONFIGURATION_BYTES, Configuration, VENDOR};
use super::interrupts::Interrupts;
use super::memory::ClientMemory;
use super::message::MOST_MESSAGE_BYTES;
use super::pages;
use super::queues::{CompletionQueue, Place, Rings, SubmissionQueue};
use super::registers::{
    BAR_BYTES, DOORBELLS_AT, Doorbells, MOST_QUEUES, PENDING_BITS_AT, VECTOR_TABLE_AT, head_at, register, tail_at,
};
use crate::command::{Answer, Drive};
use crate::transport::nvme::command_table::MAX_IN_FLIGHT;
use crate::transport::nvme::controller::{Controller, ENABLE, Host, READY, property};
use crate::transport::nvme::entry::Submission;
use crate::transport::nvme::opcode::io as opcode;
use crate::transport::nvme::status::{self, Status};
use crate::transport::nvme::{Port as _, Queue, Subsystem, u16_at, u32_at, u64_at};

/// Commands taken of one queue before the next one has its turn.
const MOST_AT_ONCE: usize = 64;

/// Regions that are not empty (linux/vfio.h).
pub mod region {
    pub const BAR: u32 = 0;
    pub const CONFIGURATION: u32 = 7;
    pub const COUNT: u32 = 9;
}

/// The device that one client has.
#[derive(Debug)]
pub struct Device {
    transport: u32,
    /// Whether versions were agreed on.
    pub(super) is_negotiated: bool,
    pub(super) subsystem: Subsystem,
    pub(super) controller: Controller,
    configuration: Configuration,
    pub memory: ClientMemory,
    /// The page that the client may map.
    pub doorbells: Doorbells,
    pub interrupts: Interrupts,
    vector_table: Vec<u8>,
    interrupt_mask: u32,
    /// Those that keep what the host writes.
    registers: [u8; register::END],
    pub(super) submissions: Vec<Option<SubmissionQueue>>,
    pub(super) completions: Vec<Option<CompletionQueue>>,
    /// Numbers of the submission queues that there are.
    active: Vec<u16>,
    /// Whether completions wait for room.
    has_waiting: bool,
    /// Requests that the drive has.
    in_flight: usize,
    /// A reset waits for these; and the configuration that a host wrote meanwhile.
    is_resetting: bool,
    next_configuration: Option<u32>,
    /// Data of a write on their way: the client may change its memory while they are stored.
    bounce: Vec<u8>,
    pub(super) coalescing: u32,
    pub(super) vector_settings: Vec<u32>,
}

impl Device {
    /// A device whose commands carry the transport's number.
    pub fn new(transport: u32, subsystem: &Subsystem) -> Result<Self, Errno> {
        let host = Host { name: Vec::new(), id: [0; 16] };
        let queues = usize::from(MOST_QUEUES) + 1;
        Ok(Self {
            transport,
            is_negotiated: false,
            subsystem: Subsystem { pci_vendor: Some(VENDOR), ..subsystem.clone() },
            controller: Controller::new(1, false, host, MOST_QUEUES, 0),
            configuration: Configuration::default(),
            memory: ClientMemory::new(),
            doorbells: Doorbells::new()?,
            interrupts: Interrupts::default(),
            vector_table: vec![0; PENDING_BITS_AT - VECTOR_TABLE_AT],
            interrupt_mask: 0,
            registers: [0; register::END],
            submissions: (0..queues).map(|_| None).collect(),
            completions: (0..queues).map(|_| None).collect(),
            active: Vec::new(),
            has_waiting: false,
            in_flight: 0,
            is_resetting: false,
            next_configuration: None,
            bounce: Vec::new(),
            coalescing: 0,
            vector_settings: vec![0; queues],
        })
    }

    /// Requests that the drive has.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether its doorbells may ring at any time.
    pub fn is_ready(&self) -> bool {
        self.controller.is_ready() && !self.active.is_empty()
    }

    pub fn read(&self, region: u32, offset: u64, into: &mut [u8]) -> Result<(), Errno> {
        let at = place(region, offset, into.len())?;
        if region == region::CONFIGURATION {
            self.configuration.read(at, into);
            return Ok(());
        }
        let mut image = [0; BAR_BYTES];
        self.doorbells.page.read(0, &mut image[DOORBELLS_AT..VECTOR_TABLE_AT]);
        let mut set = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        set(0, &self.registers);
        for at in [property::CAP, property::VS, property::CC, property::CSTS] {
            let value = self.controller.property(at, self.subsystem.queue_entries).unwrap_or(0);
            let ready = if at == property::CSTS && self.is_resetting { READY } else { 0 };
            let bytes = (value | u64::from(ready)).to_le_bytes();
            set(at as usize, if at == property::CAP { &bytes } else { &bytes[..4] });
        }
        set(register::INTMS, &self.interrupt_mask.to_le_bytes());
        set(register::INTMC, &self.interrupt_mask.to_le_bytes());
        set(VECTOR_TABLE_AT, &self.vector_table);
        into.copy_from_slice(&image[at..at + into.len()]);
        Ok(())
    }

    /// Writes a region: registers and doorbells in whole words.
    pub fn write(&mut self, region: u32, offset: u64, from: &[u8], drive: &mut dyn Drive) -> Result<(), Errno> {
        let at = place(region, offset, from.len())?;
        if region == region::CONFIGURATION {
            if self.configuration.write(at, from) {
                self.reset(drive);
            }
            return Ok(());
        }
        if at % 4 != 0 || from.len() % 4 != 0 {
            return Err(Errno::INVAL);
        }
        for (word, bytes) in from.chunks_exact(4).enumerate() {
            self.write_word(at + 4 * word, u32_at(bytes, 0), drive);
        }
        Ok(())
    }

    fn write_word(&mut self, at: usize, value: u32, drive: &mut dyn Drive) {
        match at {
            register::INTMS => self.interrupt_mask |= value,
            register::INTMC => self.interrupt_mask &= !value,
            register::CC => self.configure(value, drive),
            0..register::END => {
                // The others are read-only.
                for (at, bits) in register::KEPT.into_iter().filter(|&(kept, _)| kept == at) {
                    self.registers[at..at + 4].copy_from_slice(&(value & bits).to_le_bytes());
                }
            }
            DOORBELLS_AT..VECTOR_TABLE_AT => {
                self.doorbells.page.store(at - DOORBELLS_AT, value);
            }
            VECTOR_TABLE_AT..PENDING_BITS_AT => {
                self.vector_table[at - VECTOR_TABLE_AT..][..4].copy_from_slice(&value.to_le_bytes());
            }
            _ => {} // nothing
        }
    }

    /// The host writes the controller's configuration: enables, resets, or shuts it down.
    fn configure(&mut self, to: u32, drive: &mut dyn Drive) {
        if self.is_resetting {
            self.next_configuration = Some(to);
            return;
        }
        let was_enabled = self.controller.is_enabled();
        let shuts_down = self.controller.configure(to);
        if was_enabled && to & ENABLE == 0 {
            self.remove_queues(drive);
        }
        if !was_enabled && self.controller.is_ready() && !self.open_admin_queue() {
            self.controller.fail();
        }
        // All that was answered is to be durable. Without an admin queue there is nothing that was.
        match &mut self.submissions[0] {
            _ if !shuts_down => {}
            Some(queue) => {
                queue.table.begin_shutdown(drive);
                self.in_flight += 1;
            }
            None => self.controller.shut_down(),
        }
    }

    fn open_admin_queue(&mut self) -> bool {
        let entries = |at: usize| (u16_at(&self.registers, at) & 0xfff) + 1;
        let place = |at, entries| Place { id: 0, address: u64_at(&self.registers, at), entries };
        let submissions = place(register::ASQ, entries(register::AQA));
        let completions = place(register::ACQ, entries(register::AQA + 2));
        if submissions.entries < 2 || completions.entries < 2 {
            return false;
        }
        self.open_completions(completions, Some(0));
        self.open_submissions(submissions, 0);
        true
    }

    pub(super) fn open_completions(&mut self, place: Place, vector: Option<u16>) {
        self.doorbells.page.store(head_at(place.id), 0);
        self.completions[usize::from(place.id)] = Some(CompletionQueue::new(place, vector));
    }

    pub(super) fn open_submissions(&mut self, place: Place, completions: u16) {
        self.doorbells.page.store(tail_at(place.id), 0);
        let queue = SubmissionQueue::new(place, completions, self.transport);
        self.submissions[usize::from(place.id)] = Some(queue);
        self.controller.queues[usize::from(place.id)] = Some(place.id.into());
        self.active.push(place.id);
    }

    /// Queues end; a reset is over when the drive answered all that was in flight.
    fn remove_queues(&mut self, drive: &mut dyn Drive) {
        for queue in self.submissions.iter().flatten() {
            queue.table.abort_all(drive);
        }
        self.forget_queues();
        self.is_resetting = self.in_flight > 0;
    }

    fn forget_queues(&mut self) {
        self.submissions.fill_with(|| None);
        self.controller.queues.fill(None);
        self.completions.fill_with(|| None);
        self.active.clear();
        self.has_waiting = false;
        self.controller.events.dropped.clear();
    }

    /// Resets the function. The client's memory and interrupts remain.
    pub fn reset(&mut self, drive: &mut dyn Drive) {
        let _ = self.controller.configure(0); // disabled, so nothing is to be flushed
        self.configuration = Configuration::default();
        (self.registers, self.interrupt_mask) = ([0; register::END], 0);
        self.vector_table.fill(0);
        self.next_configuration = None;
        self.remove_queues(drive);
    }

    /// The client is gone: all that it has ends, and the drive answers what is in flight.
    pub fn close(&mut self, drive: &mut dyn Drive) {
        self.remove_queues(drive);
        self.release();
    }

    /// Ends as [`Device::close`] does, where nothing can be aborted.
    pub fn release(&mut self) {
        self.forget_queues();
        self.is_resetting = true;
        self.memory.clear();
        self.interrupts.clear();
        self.bounce = Vec::new();
    }

    /// Takes what the client put into queues; whether there was anything. A client that fails must be left.
    pub fn poll(&mut self, drive: &mut dyn Drive) -> Result<bool, Errno> {
        let mut any = self.has_waiting && self.drain();
        for at in 0..self.active.len() {
            // A command may have deleted a queue, or all.
            let Some(&id) = self.active.get(at) else {
                break;
            };
            any |= self.poll_queue(id, drive);
        }
        // A reset is over when nothing is in flight; a configuration that was written meanwhile comes now.
        if self.is_resetting && self.in_flight == 0 {
            self.is_resetting = false;
            if let Some(next) = self.next_configuration.take() {
                self.configure(next, drive);
            }
        }
        if self.memory.is_lost() { Err(Errno::FAULT) } else { Ok(any) }
    }

    fn poll_queue(&mut self, id: u16, drive: &mut dyn Drive) -> bool {
        let tail = self.doorbells.tail(id);
        let mut any = false;
        for _ in 0..MOST_AT_ONCE {
            let Some(queue) = &mut self.submissions[usize::from(id)] else {
                break;
            };
            if tail == u32::from(queue.table.head) || !self.controller.is_ready() {
                break;
            }
            if tail >= u32::from(queue.table.entries) {
                self.controller.fail();
                break;
            }
            let completions = self.completions[usize::from(queue.completions)].as_ref();
            let waits = completions.is_none_or(CompletionQueue::is_full) || queue.is_full();
            if waits || queue.deletion.is_some() || self.in_flight >= MAX_IN_FLIGHT {
                break;
            }
            let Ok(command) = queue.take(&self.memory) else {
                self.controller.fail();
                break;
            };
            self.begin(id, command, drive);
            any = true;
        }
        any
    }

    /// Writes completions that waited for room; whether there was any.
    fn drain(&mut self) -> bool {
        let mut any = false;
        self.has_waiting = false;
        for completions in self.completions.iter_mut().flatten() {
            let (number, doorbells) = (completions.place.id, &self.doorbells);
            match completions.drain(&self.memory, || doorbells.head(number)) {
                Ok(false) => {}
                Ok(true) => {
                    any = true;
                    if let Some(vector) = completions.vector {
                        self.interrupts.raise(vector);
                    }
                }
                Err(_) => {
                    self.controller.fail();
                    return any;
                }
            }
            self.has_waiting |= completions.is_full();
        }
        any
    }

    /// A submission queue with what its commands need; `None` if there is no such.
    pub(super) fn queue(&mut self, id: u16) -> Option<Queue<'_, Rings<'_>>> {
        let queue = self.submissions.get_mut(usize::from(id))?.as_mut()?;
        Some(Queue {
            subsystem: &self.subsystem,
            controller: &mut self.controller,
            table: &mut queue.table,
            port: Rings {
                memory: &self.memory,
                completions: self.completions[usize::from(queue.completions)].as_mut()?,
                doorbells: &self.doorbells,
                interrupts: &mut self.interrupts,
                has_waiting: &mut self.has_waiting,
            },
        })
    }

    fn begin(&mut self, id: u16, command: Submission, drive: &mut dyn Drive) {
        let Some(mut queue) = self.queue(id) else {
            return;
        };
        let before = queue.table.in_flight;
        if let Err(status) = queue.table.begin(command) {
            let completion = queue.table.completion(command.id(), status, 0);
            queue.port.complete(completion);
            return;
        }
        let begun = if id == 0 { self.execute_admin(&command, drive) } else { self.begin_io(id, &command, drive) };
        if let (Err(status), Some(mut queue)) = (begun, self.queue(id)) {
            queue.finish(&command, Err(status));
        }
        let after = self.submissions[usize::from(id)].as_ref().map_or(before, |queue| queue.table.in_flight);
        self.in_flight += after - before;
    }

    fn begin_io(&mut self, id: u16, command: &Submission, drive: &mut dyn Drive) -> Result<(), Status> {
        let mut data = std::mem::take(&mut self.bounce);
        let Some(mut queue) = self.queue(id) else {
            return Ok(());
        };
        let read = queue.data_bytes(command, drive).and_then(|length_bytes| {
            command.room()?;
            // What is compared remains in the client's memory until then.
            let length_bytes = if command.opcode() == opcode::COMPARE { 0 } else { length_bytes };
            data.resize(data.len().max(length_bytes), 0);
            pages::read(command, queue.port.memory, &mut data[..length_bytes])?;
            Ok(length_bytes)
        });
        let read = read.map(|length_bytes| queue.execute(command, &data[..length_bytes], drive));
        self.bounce = data;
        read
    }

    pub fn answer(&mut self, answer: &Answer, drive: &dyn Drive) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let id = answer.command.tag.queue as u16;
        // Of queues that a reset removed nothing is completed.
        if !self.is_resetting {
            if let Some(mut queue) = self.queue(id) {
                queue.answer(answer, drive);
            }
            self.end_deletion(id);
        }
    }

    /// A queue that is to be deleted goes when the drive has nothing of it.
    pub(super) fn end_deletion(&mut self, id: u16) {
        let Some(Some(queue)) = self.submissions.get(usize::from(id)) else {
            return;
        };
        let Some(command) = queue.deletion.filter(|_| queue.table.in_flight == 0) else {
            return;
        };
        self.submissions[usize::from(id)] = None;
        self.controller.queues[usize::from(id)] = None;
        self.active.retain(|&active| active != id);
        if let Some(mut admin) = self.queue(0) {
            admin.complete(command, status::SUCCESS, 0);
        }
    }

    /// Signals the interrupts that are due.
    pub fn signal(&mut self) -> Result<(), Errno> {
        self.interrupts.send()
    }

    /// Looks whether there is anything to tell the host of the drive.
    pub fn tick(&mut self, drive: &dyn Drive) {
        if let Some(mut admin) = self.queue(0).filter(|queue| queue.controller.is_ready()) {
            admin.controller.look(drive);
            admin.tell();
        }
    }
}

/// Where an access begins, if it is within a region.
fn place(region: u32, offset: u64, length_bytes: usize) -> Result<usize, Errno> {
    let region_bytes = match region {
        region::BAR => BAR_BYTES,
        region::CONFIGURATION => CONFIGURATION_BYTES,
        _ => 0,
    };
    let end = offset.checked_add(length_bytes as u64);
    if length_bytes == 0 || end.is_none_or(|end| end > region_bytes as u64) {
        return Err(Errno::INVAL);
    }
    Ok(offset as usize)
}

/// Bytes that one client takes at most, in addition to its own memory: tables of commands and completions, the
/// longest write, and messages.
pub const fn memory_bytes() -> u64 {
    let replies = 17 * MOST_MESSAGE_BYTES as u64;
    (MOST_QUEUES as u64 + 1) * ((128 << 10) + 1024 * 200) + (1 << 20) + replies
}
