//! The elements and the flash channels that they share.
//!
//! An element does one operation at a time, in phases: its command crosses the channel, the array is busy, and data cross
//! the channel. It is busy with an operation until the last phase is over. A channel serves the transfers that are ready,
//! first come, first served; a program unit crosses in pieces of a flash page, so that reads go between them. Commands
//! cross when no transfer is ready (A. Tavakkol et al., FAST 2018).

use super::ControllerEngine;
use super::events::Event;
use crate::Error;
use crate::drive::{COMMAND_BYTES, Controller, Position, SECTOR_BYTES, Spec, UnitPlace};
use crate::engine::core::World;
use crate::engine::timers::after;
use crate::policy::Page;
use crate::state::Stored;
use std::collections::VecDeque;

/// Who an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Work {
    /// A read of so many sectors of a request.
    Read(u32, u32),
    /// A program unit of the host.
    Program(u32),
    /// A read of a job of garbage collection.
    CollectionRead(u32),
    /// The program unit of such a job.
    CollectionProgram(u32),
    /// The erasure of an element's part of a superblock.
    Erase(u32),
    /// A read of a translation page for reads of the host.
    TranslationRead(u32),
    /// A read of a translation page that has changed.
    TranslationUpdate(u32),
    /// The program operation of such a page.
    TranslationWrite(u32),
    /// The time until a suspended operation lets a read begin.
    Suspend,
}

/// An operation of an element.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(super) struct Operation {
    pub work: Work,
    /// Time of the array, picoseconds.
    pub array_ps: u64,
    /// Sectors that are still to cross the channel.
    pub sectors: u32,
    /// Times that a read may suspend it, while the array is busy.
    pub suspensions: u32,
}

impl Operation {
    /// Whether a read of the host waits for it.
    fn is_for_read(&self) -> bool {
        matches!(self.work, Work::Read(..) | Work::TranslationRead(_))
    }

    /// Whether its data cross the channel before the array is busy.
    fn transfers_first(&self) -> bool {
        matches!(self.work, Work::Program(_) | Work::CollectionProgram(_) | Work::TranslationWrite(_))
    }

    /// The phase behind its command.
    fn first_phase(&self) -> Phase {
        if self.transfers_first() { Phase::Transfer } else { Phase::Array }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Phase {
    Command,
    Array,
    Transfer,
}

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct ElementQueue {
    /// The operation in progress, its phase, and when it began.
    current: Option<(Operation, Phase, u64)>,
    /// Number of the phase in progress.
    phase: u32,
    /// An operation that goes on when no read waits, with what is left of its time.
    suspended: Option<Operation>,
    /// Reads that go before all else.
    reads: VecDeque<Operation>,
    queue: VecDeque<Operation>,
    /// Whether it has a program unit of the host.
    has_unit: bool,
    /// Whether it is among the commands that wait for the channel.
    waits_for_channel: bool,
}

/// A program unit: its slots of the write cache, and their pages.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Unit {
    slots: Vec<u32>,
    #[serde(skip)] // only until it is written to its place, at once
    pages: Vec<Page>,
}

pub(super) struct Flash {
    spec: Spec,
    pub controller: Controller,
    elements: Vec<ElementQueue>,
    free_at_ps: Vec<u64>,
    /// When each channel is free.
    channel_free_ps: Vec<u64>,
    /// The elements of each channel that have a command for it, while it is not free.
    commands: Vec<VecDeque<u32>>,
    channel_ps_per_sector: u64,
    read_ps: Vec<u64>,
    small_read_ps: Vec<u64>,
    program_ps: Vec<u64>,
    /// Sectors of a piece of a transfer.
    piece_sectors: u32,
    /// The element at which the search for one that takes a unit begins.
    pub rotation: u32,
    elements_without_unit: u32,
    units: Vec<Unit>,
    free_units: Vec<u32>,
}

impl Flash {
    pub fn new(spec: &Spec, controller: &Controller) -> Self {
        let channels = match controller.flash_channels {
            0 => spec.elements as usize,
            channels => channels as usize,
        };
        let read_ps = match controller.page_type_read_ps.as_slice() {
            [] => vec![spec.read_ps],
            times => times.to_vec(),
        };
        let program_ps = match controller.page_type_program_ps.as_slice() {
            [] => vec![spec.program_ps],
            times => times.to_vec(),
        };
        Self {
            elements: (0..spec.elements).map(|_| ElementQueue::default()).collect(),
            free_at_ps: vec![0; spec.elements as usize],
            channel_free_ps: vec![0; channels],
            commands: vec![VecDeque::new(); channels],
            channel_ps_per_sector: controller.flash_sector_ps(spec),
            small_read_ps: match controller.small_read_ps.as_slice() {
                [] => read_ps.clone(),
                times => times.to_vec(),
            },
            read_ps,
            program_ps,
            piece_sectors: controller.flash_page_pages(spec) * spec.page_sectors(),
            spec: spec.clone(),
            controller: controller.clone(),
            rotation: 0,
            elements_without_unit: spec.elements,
            units: Vec::new(),
            free_units: Vec::new(),
        }
    }

    pub fn free_at_ps(&self) -> &[u64] {
        &self.free_at_ps
    }

    /// What is in progress, to be saved: the rest follows from the options.
    pub fn parts(&mut self) -> [&mut dyn Stored; 8] {
        [
            &mut self.elements,
            &mut self.free_at_ps,
            &mut self.channel_free_ps,
            &mut self.commands,
            &mut self.rotation,
            &mut self.elements_without_unit,
            &mut self.units,
            &mut self.free_units,
        ]
    }

    /// Restarts the clock at 0, when nothing is in progress.
    pub fn reset_clock(&mut self) {
        self.free_at_ps.fill(0);
        self.channel_free_ps.fill(0);
    }

    /// The first element in rotation that has no unit of the host and takes one of at most `most_pages`
    /// pages, with the pages of that unit; the rotation goes on behind it. `host_unit` has the pages that an element
    /// takes.
    pub fn next_for_unit(&mut self, most_pages: usize, host_unit: impl Fn(u32) -> Option<u32>) -> Option<(u32, usize)> {
        if self.elements_without_unit == 0 {
            return None;
        }
        let count = self.elements.len() as u32;
        let next = (self.rotation..count)
            .chain(0..self.rotation)
            .filter(|&element| !self.elements[element as usize].has_unit)
            .find_map(|element| {
                let pages = host_unit(element)? as usize;
                (pages <= most_pages).then_some((element, pages))
            })?;
        let (element, _) = next;
        self.rotation = if element + 1 == count { 0 } else { element + 1 };
        Some(next)
    }

    /// A new unit of the host, for an element that has none.
    pub fn new_unit(&mut self, element: u32) -> u32 {
        self.elements[element as usize].has_unit = true;
        self.elements_without_unit -= 1;
        if let Some(unit) = self.free_units.pop() {
            return unit;
        }
        self.units.push(Unit::default());
        (self.units.len() - 1) as u32
    }

    pub fn unit(&mut self, unit: u32) -> (&mut Vec<u32>, &mut Vec<Page>) {
        let unit = &mut self.units[unit as usize];
        (&mut unit.slots, &mut unit.pages)
    }

    pub fn recycle_unit(&mut self, unit: u32, mut slots: Vec<u32>) {
        slots.clear();
        let entry = &mut self.units[unit as usize];
        entry.pages.clear();
        entry.slots = slots;
        self.free_units.push(unit);
    }

    /// Sectors that moved pages put on a channel.
    pub fn moved_sectors(&self, pages: u32) -> u32 {
        if self.spec.copy_back { 0 } else { pages * self.spec.page_sectors() }
    }

    /// A read of a flash page.
    pub fn read(&self, work: Work, at: &Position, sectors: u32, transferred: u32) -> Operation {
        let slc_ps = self.controller.slc.read_ps.unwrap_or(self.spec.read_ps);
        let array_ps = if at.slc { slc_ps } else { self.read_ps(at.in_block, sectors) };
        Operation { work, array_ps, sectors: transferred, suspensions: 0 }
    }

    /// Time of a read of some sectors of a flash page, by its number within the block.
    fn read_ps(&self, in_block: u32, sectors: u32) -> u64 {
        let times = if sectors * SECTOR_BYTES <= COMMAND_BYTES { &self.small_read_ps } else { &self.read_ps };
        times[in_block as usize % times.len()]
    }

    fn program_ps(&self, row: u32) -> u64 {
        self.program_ps[row as usize % self.program_ps.len()]
    }

    /// A read of moved pages of a flash page.
    pub fn collection_read(&self, job: u32, at: &Position, pages: u32) -> Operation {
        let sectors = pages * self.spec.page_sectors();
        let work = Work::CollectionRead(job);
        self.read(work, at, sectors, self.moved_sectors(pages))
    }

    pub fn element_of_translation(&self, number: u32) -> u32 {
        number % self.elements.len() as u32
    }

    /// The number of a translation page within its element.
    fn row_of_translation(&self, number: u32) -> u32 {
        number / self.elements.len() as u32
    }

    /// A read of missing entries of a translation page.
    pub fn translation_read(&self, number: u32) -> Operation {
        let sectors = match self.controller.translation_read_bytes as u32 {
            0 => self.piece_sectors,
            bytes => bytes / SECTOR_BYTES,
        };
        self.read_of_translation(Work::TranslationRead(number), number, sectors)
    }

    /// A read of a whole translation page, which is to be changed.
    pub fn translation_update(&self, number: u32) -> Operation {
        self.read_of_translation(Work::TranslationUpdate(number), number, self.piece_sectors)
    }

    fn read_of_translation(&self, work: Work, number: u32, sectors: u32) -> Operation {
        let array_ps = self.read_ps(self.row_of_translation(number), sectors);
        Operation { work, array_ps, sectors, suspensions: 0 }
    }

    pub fn translation_write(&self, number: u32) -> Operation {
        Operation {
            work: Work::TranslationWrite(number),
            array_ps: self.program_ps(self.row_of_translation(number)),
            sectors: self.piece_sectors,
            suspensions: self.controller.program_suspensions as u32,
        }
    }

    /// The program operation of a unit of the mapping log, by its number.
    pub fn log_write(&self, number: u32) -> Operation {
        Operation {
            array_ps: self.program_ps(self.row_of_translation(number)),
            sectors: self.controller.unit_pages(&self.spec) * self.spec.page_sectors(),
            ..self.translation_write(number)
        }
    }

    /// The program operation of a unit.
    pub fn program(&self, work: Work, unit: &UnitPlace, sectors: u32) -> Operation {
        let slc_ps = self.controller.slc.program_ps.unwrap_or(self.spec.program_ps);
        Operation {
            work,
            array_ps: if unit.slc { slc_ps } else { self.program_ps(unit.row) },
            sectors,
            suspensions: self.controller.program_suspensions as u32,
        }
    }

    pub fn erase(&self, superblock: u32) -> Operation {
        Operation {
            work: Work::Erase(superblock),
            array_ps: self.spec.erase_ps,
            sectors: 0,
            suspensions: self.controller.erase_suspensions as u32,
        }
    }

    /// When the next piece of an operation's transfer ends; all of it, for a read.
    fn transfer(&mut self, element: u32, operation: &mut Operation, now_ps: u64) -> u64 {
        let sectors =
            if operation.transfers_first() { operation.sectors.min(self.piece_sectors) } else { operation.sectors };
        operation.sectors -= sectors;
        self.reserve_channel(element, u64::from(sectors) * self.channel_ps_per_sector, now_ps)
    }

    fn reserve_channel(&mut self, element: u32, took_ps: u64, now_ps: u64) -> u64 {
        let channel = self.channel_of(element);
        let free_ps = &mut self.channel_free_ps[channel];
        *free_ps = after(now_ps.max(*free_ps), took_ps);
        *free_ps
    }

    fn channel_of(&self, element: u32) -> usize {
        element as usize % self.channel_free_ps.len()
    }

    /// Whether a command of an element may cross its channel now; it waits otherwise.
    fn takes_command(&mut self, element: u32, now_ps: u64) -> bool {
        let channel = self.channel_of(element);
        if self.controller.flash_command_ps == 0
            || (self.channel_free_ps[channel] <= now_ps && self.commands[channel].is_empty())
        {
            return true;
        }
        let queue = &mut self.elements[element as usize];
        if !std::mem::replace(&mut queue.waits_for_channel, true) {
            self.commands[channel].push_back(element);
        }
        false
    }

    /// The next element whose command crosses the channel of `element`, if that is free.
    fn next_command(&mut self, element: u32, now_ps: u64) -> Option<u32> {
        let channel = self.channel_of(element);
        if self.channel_free_ps[channel] > now_ps {
            return None;
        }
        let next = self.commands[channel].pop_front()?;
        self.elements[next as usize].waits_for_channel = false;
        Some(next)
    }
}

impl<W: World> ControllerEngine<W> {
    /// A read for the host joins an element's queue, and may suspend what the element does.
    pub(super) fn enqueue_first(&mut self, element: u32, operation: Operation) {
        self.enqueue(element, operation);
        if self.flash.spec.read_priority {
            self.suspend(element);
        }
    }

    /// A read has arrived at an element: it suspends what may be suspended and takes longer than that.
    fn suspend(&mut self, element: u32) {
        let end_ps = self.flash.free_at_ps[element as usize];
        let queue = &mut self.flash.elements[element as usize];
        let Some((operation, Phase::Array, since_ps)) = queue.current else {
            return;
        };
        let left_ps = end_ps - self.core.now_ps;
        if operation.suspensions == 0 || left_ps <= self.flash.controller.suspend_ps {
            return;
        }
        queue.suspended = Some(Operation { array_ps: left_ps, suspensions: operation.suspensions - 1, ..operation });
        self.core.tally.suspensions += 1;
        self.core.series.current_row().busy_ps[element as usize] += self.core.now_ps - since_ps;
        let suspend =
            Operation { work: Work::Suspend, array_ps: self.flash.controller.suspend_ps, sectors: 0, suspensions: 0 };
        self.begin_phase(element, suspend, Phase::Array, self.core.now_ps);
    }

    /// An operation joins an element's queue; an idle element begins it.
    pub(super) fn enqueue(&mut self, element: u32, operation: Operation) {
        let queue = &mut self.flash.elements[element as usize];
        if self.flash.spec.read_priority && operation.is_for_read() {
            queue.reads.push_back(operation);
        } else {
            queue.queue.push_back(operation);
        }
        if queue.current.is_none() {
            self.begin_next(element);
        }
    }

    /// An element that does nothing continues what was suspended, or begins what waits, reads first.
    fn begin_next(&mut self, element: u32) {
        let queue = &mut self.flash.elements[element as usize];
        if queue.reads.is_empty() {
            if let Some(operation) = queue.suspended.take() {
                return self.begin_phase(element, operation, Phase::Array, self.core.now_ps);
            }
            if queue.queue.is_empty() {
                return;
            }
        }
        if self.flash.takes_command(element, self.core.now_ps) {
            self.begin_waiting(element);
        }
    }

    fn begin_waiting(&mut self, element: u32) {
        let queue = &mut self.flash.elements[element as usize];
        if let Some(operation) = queue.reads.pop_front().or_else(|| queue.queue.pop_front()) {
            let phase = match self.flash.controller.flash_command_ps {
                0 => operation.first_phase(),
                _ => Phase::Command,
            };
            self.begin_phase(element, operation, phase, self.core.now_ps);
        }
    }

    fn begin_phase(&mut self, element: u32, mut operation: Operation, phase: Phase, since_ps: u64) {
        let end_ps = match phase {
            Phase::Command => {
                let command_ps = self.flash.controller.flash_command_ps;
                self.flash.reserve_channel(element, command_ps, self.core.now_ps)
            }
            Phase::Array => after(self.core.now_ps, operation.array_ps),
            Phase::Transfer => self.flash.transfer(element, &mut operation, self.core.now_ps),
        };
        self.flash.free_at_ps[element as usize] = end_ps;
        let queue = &mut self.flash.elements[element as usize];
        queue.current = Some((operation, phase, since_ps));
        queue.phase = queue.phase.wrapping_add(1);
        let phase = queue.phase;
        self.events.schedule(self.core.now_ps, end_ps, Event::Element { element, phase });
    }

    /// A phase of an element's operation is over.
    pub(super) fn end_phase(&mut self, element: u32, phase: u32) -> Result<(), Error> {
        let queue = &mut self.flash.elements[element as usize];
        if queue.phase != phase {
            return Ok(());
        }
        let Some((operation, phase, since_ps)) = queue.current.take() else {
            return Ok(());
        };
        let next = match phase {
            Phase::Command => Some(operation.first_phase()),
            Phase::Transfer if operation.sectors > 0 => Some(Phase::Transfer),
            Phase::Transfer if operation.transfers_first() => Some(Phase::Array),
            Phase::Array if !operation.transfers_first() && operation.sectors > 0 => Some(Phase::Transfer),
            _ => None,
        };
        match next {
            Some(phase) => self.begin_phase(element, operation, phase, since_ps),
            None => self.end_operation(element, &operation, since_ps)?,
        }
        if let Some(next) = self.flash.next_command(element, self.core.now_ps) {
            self.begin_waiting(next);
        }
        Ok(())
    }

    fn end_operation(&mut self, element: u32, operation: &Operation, since_ps: u64) -> Result<(), Error> {
        let queue = &mut self.flash.elements[element as usize];
        self.core.series.current_row().busy_ps[element as usize] += self.core.now_ps - since_ps;
        if matches!(operation.work, Work::Program(_)) {
            queue.has_unit = false;
            self.flash.elements_without_unit += 1;
        }
        self.begin_next(element);
        match operation.work {
            Work::Read(id, sectors) => self.send(id, sectors),
            Work::Program(unit) => self.unit_done(unit)?,
            Work::CollectionRead(job) => self.job_read(job)?,
            Work::CollectionProgram(job) => self.job_programmed(job)?,
            Work::Erase(superblock) => self.part_erased(superblock)?,
            Work::TranslationRead(number) => self.translation_read(number),
            Work::TranslationUpdate(number) => self.translation_changed(number),
            Work::TranslationWrite(_) | Work::Suspend => {}
        }
        Ok(())
    }
}
