//! The queues of the elements and their channels, saved and loaded.

use std::io::{Read, Write};

use super::{Flash, Operation, Phase, Unit, Work};
use crate::Error;
use crate::state::{ensure, put, take};

impl Flash {
    pub fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        put(output, &self.elements)?;
        put(output, &self.free_at_ps)?;
        put(output, &self.channel_free_ps)?;
        put(output, &self.rotation)?;
        put(output, &self.units)?;
        put(output, &self.free_units)
    }

    /// Takes over the queues of a drive with the same options, whose times are at most `latest_ps` and
    /// whose operations have at most `unit_sectors`.
    pub fn load(&mut self, input: &mut dyn Read, now_ps: u64, latest_ps: u64, unit_sectors: u32) -> Result<(), Error> {
        let sizes = (self.elements.len(), self.channel_free_ps.len());
        self.elements = take(input)?;
        self.free_at_ps = take(input)?;
        self.channel_free_ps = take(input)?;
        self.rotation = take(input)?;
        self.units = take(input)?;
        self.free_units = take(input)?;
        ensure(
            (self.elements.len(), self.channel_free_ps.len()) == sizes
                && self.free_at_ps.len() == sizes.0
                && (self.rotation as usize) < sizes.0,
            "its elements are those of another drive",
        )?;
        let mut times = self.free_at_ps.iter().chain(&self.channel_free_ps);
        ensure(times.all(|&free_ps| free_ps <= latest_ps), "an element is busy for too long")?;
        for (queue, &free_ps) in self.elements.iter().zip(&self.free_at_ps) {
            if let Some((operation, phase, since_ps)) = &queue.current {
                let pauses = operation.work != Work::Suspend || *phase == Phase::Array;
                ensure(pauses && *since_ps <= now_ps && now_ps <= free_ps, "an element's operation is in no phase")?;
                ensure(
                    queue.suspended.is_none() || operation.suspensions == 0,
                    "two operations of an element are suspended",
                )?;
            } else {
                let waits = queue.reads.len() + queue.queue.len();
                ensure(waits == 0 && queue.suspended.is_none(), "an element waits for nothing")?;
            }
        }
        self.check_operations(unit_sectors)?;
        self.check_units()
    }

    fn check_operations(&self, unit_sectors: u32) -> Result<(), Error> {
        let reads = self.read_ps.iter().chain(&self.small_read_ps);
        let slc = [self.slc_read_ps, self.slc_program_ps];
        let others = [self.erase_ps, self.suspend_ps];
        let all = reads.chain(&self.program_ps).chain(&slc).chain(&others);
        let longest_ps = all.fold(0, |most, &time| time.max(most));
        for queue in &self.elements {
            let waiting = queue.reads.iter().chain(&queue.queue);
            let waiting = waiting.chain(&queue.suspended);
            let current = queue.current.as_ref().map(|(operation, ..)| operation);
            for operation in waiting.chain(current) {
                ensure(
                    operation.array_ps <= longest_ps && operation.sectors <= unit_sectors,
                    "an operation takes longer than any",
                )?;
            }
        }
        Ok(())
    }

    /// Each unit is free or belongs to one operation, at most one on an element.
    fn check_units(&mut self) -> Result<(), Error> {
        let what = "a program unit is free, or belongs to two elements";
        let mut is_used = vec![false; self.units.len()];
        self.elements_without_unit = 0;
        for element in 0..self.elements.len() as u32 {
            let mut units = self.operations(element).filter_map(|each| match each.work {
                Work::Program(unit) => Some(unit),
                _ => None,
            });
            let unit = units.next();
            ensure(units.next().is_none(), what)?;
            drop(units);
            let has_unit = self.elements[element as usize].has_unit;
            ensure(has_unit == unit.is_some(), what)?;
            self.elements_without_unit += u32::from(!has_unit);
            if let Some(unit) = unit {
                let used = is_used.get_mut(unit as usize);
                ensure(used.is_some_and(|used| !std::mem::replace(used, true)), what)?;
            }
        }
        for &unit in &self.free_units {
            let used = is_used.get_mut(unit as usize);
            ensure(used.is_some_and(|used| !std::mem::replace(used, true)), what)?;
            self.units[unit as usize] = Unit::default();
        }
        ensure(is_used.iter().all(|&used| used), what)
    }

    /// The operations of an element in the order in which it began or will begin those of one kind.
    pub fn operations(&self, element: u32) -> impl Iterator<Item = &Operation> {
        let queue = &self.elements[element as usize];
        let current = queue.current.iter().map(|(operation, ..)| operation);
        let waiting = queue.reads.iter().chain(&queue.queue);
        current.chain(&queue.suspended).chain(waiting)
    }

    /// The phase in progress of an element and when it ends, if it is busy.
    pub fn phase_of(&self, element: u32) -> Option<(u32, u64)> {
        let queue = &self.elements[element as usize];
        let busy = queue.current.is_some();
        busy.then(|| (queue.phase, self.free_at_ps[element as usize]))
    }

    /// Slots of the write cache that belong to program units.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.units.iter().flat_map(|unit| unit.slots.iter().copied())
    }

    /// The element at which the search for one that takes a unit begins.
    pub fn rotation(&self) -> u32 {
        self.rotation
    }

    /// As in a drive that went on: see [`rotation`](Self::rotation).
    pub fn continue_rotation(&mut self, rotation: u32) {
        self.rotation = rotation;
    }
}
