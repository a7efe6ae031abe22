//! Commands in flight, and the order of their answers.

use std::cmp::Ordering;

use crate::command::{Command, Status, Tag};

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub command: Command,
    pub arrived_ps: u64,
    /// Parts that the model or the backing file has not done yet.
    pub parts: u32,
    pub status: Status,
    /// Whether its answer waits for a sync of the backing file.
    pub syncs: bool,
    /// What faults make of its answer: so much later, and not before a time.
    pub delay_ps: u64,
    pub not_before_ps: u64,
    /// The fault by which it is stuck.
    pub stuck: Option<u64>,
    used: bool,
}

/// Slots by small numbers, which are reused.
#[derive(Debug, Default)]
pub(super) struct Slots {
    entries: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    pub fn used(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub fn insert(&mut self, command: Command, arrived_ps: u64) -> u32 {
        let slot = Slot {
            command,
            arrived_ps,
            parts: 0,
            status: Status::Done,
            syncs: false,
            delay_ps: 0,
            not_before_ps: 0,
            stuck: None,
            used: true,
        };
        if let Some(number) = self.free.pop() {
            self.entries[number as usize] = slot;
            return number;
        }
        self.entries.push(slot);
        (self.entries.len() - 1) as u32
    }

    pub fn get(&mut self, number: u32) -> &mut Slot {
        &mut self.entries[number as usize]
    }

    pub fn remove(&mut self, number: u32) -> Slot {
        let slot = &mut self.entries[number as usize];
        slot.used = false;
        self.free.push(number);
        *slot
    }

    pub fn numbers(&self) -> Vec<u32> {
        self.numbers_where(|_| true)
    }

    /// The numbers in use by commands with this tag.
    pub fn numbers_of(&self, tag: Tag) -> Vec<u32> {
        self.numbers_where(|slot| slot.command.tag == tag)
    }

    fn numbers_where(&self, wanted: impl Fn(&Slot) -> bool) -> Vec<u32> {
        let numbered = self.entries.iter().zip(0..);
        numbered.filter_map(|(slot, number)| (slot.used && wanted(slot)).then_some(number)).collect()
    }
}

/// An answer that is to leave; the first is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadyAnswer {
    pub deadline_ps: u64,
    pub slot: u32,
}

impl Ord for ReadyAnswer {
    fn cmp(&self, other: &Self) -> Ordering {
        let mine = (self.deadline_ps, self.slot);
        (other.deadline_ps, other.slot).cmp(&mine)
    }
}

impl PartialOrd for ReadyAnswer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
