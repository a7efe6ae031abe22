//! The mapping and the superblocks, saved and loaded: only tables that agree are taken over.

use std::collections::VecDeque;
use std::io::{Read, Write};

use super::{DISCARDED, Group, SLC, State, Superblock, Translation};
use crate::Error;
use crate::state::{ensure, put, take};

/// Superblocks that a group can have opened, or erasures that one can have: beyond any use, and far
/// from where the counts end.
const MOST: u32 = u32::MAX / 2;

impl Translation {
    pub fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        put(output, &self.map)?;
        put(output, &self.reverse)?;
        put(output, &self.superblocks)?;
        put(output, &self.groups)
    }

    /// Takes over the tables of a drive with the same specification.
    pub fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        let what = "its mapping is that of another drive";
        let map: Vec<u32> = take(input)?;
        ensure(map.len() == self.map.len(), what)?;
        let reverse: Vec<u32> = take(input)?;
        ensure(reverse.len() == self.reverse.len(), what)?;
        let superblocks: Vec<Superblock> = take(input)?;
        ensure(superblocks.len() == self.superblocks.len(), what)?;
        let groups: Vec<Group> = take(input)?;
        ensure(groups.len() == self.groups.len(), what)?;
        (self.map, self.reverse) = (map, reverse);
        (self.superblocks, self.groups) = (superblocks, groups);
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        let (pages, physical) = (self.map.len() as u32, self.reverse.len() as u32);
        let mapped = |&entry: &u32| entry == DISCARDED || entry <= physical;
        let known = |&entry: &u32| entry <= pages;
        ensure(self.map.iter().all(mapped) && self.reverse.iter().all(known), "a page is nowhere on the drive")?;
        let audit = self.audit();
        ensure(audit.is_ok(), &audit.err().unwrap_or_default())?;
        for number in 0..self.groups() {
            self.check_group(number)?;
        }
        Ok(())
    }

    fn check_group(&self, number: u32) -> Result<(), Error> {
        let group = &self.groups[number as usize];
        let first = number * self.group_superblocks;
        let superblocks = &self.superblocks[first as usize..][..self.group_superblocks as usize];
        let counts = group.opened < MOST
            && group.rotation < self.span
            && superblocks.iter().all(|superblock| {
                (superblock.opened <= group.opened || superblock.state == State::Free) && superblock.erases < MOST
            });
        ensure(counts, "a count of a group is too large")?;
        let has = |&row: &u32, state: State| {
            let superblock = superblocks.get(row as usize);
            superblock.is_some_and(|superblock| superblock.state == state)
        };
        let in_state = |state: State| {
            let all = superblocks.iter();
            all.filter(|superblock| superblock.state == state).count()
        };
        let mut free: Vec<u32> = group.free.iter().chain(&group.slc.free).copied().collect();
        free.sort_unstable();
        free.dedup();
        let listed = group.free.len() + group.slc.free.len();
        let all_free = free.len() == listed && free.len() == in_state(State::Free);
        ensure(all_free && free.iter().all(|row| has(row, State::Free)), "its free superblocks are not free")?;
        self.check_slc(number)?;
        let mut open: Vec<u32> = Vec::new();
        for (stream, each) in group.open.iter().enumerate() {
            let Some(each) = each else { continue };
            let most = self.rows_of(stream);
            let rows = each.rows.iter().all(|&row| row <= most);
            let is_slc = stream == SLC && self.slc.is_some();
            ensure(
                (stream <= self.moved_stream || is_slc) && rows && each.rows.len() == self.span as usize,
                "an open superblock is that of another drive",
            )?;
            let written: u32 = each.rows.iter().sum();
            ensure(
                each.units_left > 0 && written.checked_add(each.units_left) == Some(most * self.span),
                "an open superblock is full",
            )?;
            let row = each.superblock.wrapping_sub(first);
            open.push(row);
            let slc = superblocks.get(row as usize).map(|entry| entry.slc);
            ensure(
                has(&row, State::Open) && slc == Some(is_slc) && self.is_written_up_to(each.superblock, &each.rows),
                "an open superblock is not open, or holds pages that were not written",
            )?;
        }
        open.dedup();
        ensure(open.len() == in_state(State::Open), "a superblock is open for nothing")
    }

    /// Superblocks are in SLC mode where the region has them, with no page behind its rows.
    fn check_slc(&self, number: u32) -> Result<(), Error> {
        let first = number * self.group_superblocks;
        for (row, entry) in (0..self.group_superblocks).zip(&self.superblocks[first as usize..]) {
            let is_apart = self.is_apart_by_number(row);
            let fits = match &self.slc {
                None => !entry.slc,
                Some(region) if region.is_apart() => entry.slc == is_apart,
                Some(_) => !entry.slc || !matches!(entry.state, State::Free | State::Dead),
            };
            ensure(fits, "a superblock is in another mode")?;
            if entry.slc {
                let rows = vec![self.rows_of(SLC); self.span as usize];
                ensure(self.is_written_up_to(first + row, &rows), "a page is behind the rows of SLC mode")?;
            }
        }
        let group = &self.groups[number as usize];
        let listed = |free: &VecDeque<u32>, apart: bool| free.iter().all(|&row| self.is_apart_by_number(row) == apart);
        ensure(
            listed(&group.free, false) && listed(&group.slc.free, true),
            "a free superblock is of another part of the drive",
        )
    }

    /// Whether the valid pages of a superblock lie in the rows that are written.
    fn is_written_up_to(&self, superblock: u32, rows: &[u32]) -> bool {
        let mut offset = 0;
        while let Some(physical) = self.next_valid(superblock, offset) {
            offset = physical - superblock * self.superblock_pages;
            let slc = self.slc.as_ref();
            let slc = slc.filter(|_| self.superblocks[superblock as usize].slc);
            let by_unit = slc.map_or(&self.by_unit, |region| &region.by_unit);
            let (row, of_group) = self.by_span.div_rem(by_unit.div(offset));
            if row >= rows[of_group as usize] {
                return false;
            }
            offset += 1;
        }
        true
    }

    pub fn pages(&self) -> u32 {
        self.map.len() as u32
    }

    /// The superblock of a physical page; `None` beyond the drive.
    pub fn superblock_of(&self, physical: u32) -> Option<u32> {
        let known = (physical as usize) < self.reverse.len();
        known.then(|| self.by_superblock.div(physical))
    }

    /// Superblocks that are being collected.
    pub fn victims(&self) -> impl Iterator<Item = u32> {
        (0..)
            .zip(&self.superblocks)
            .filter(|(_, superblock)| superblock.state == State::Victim)
            .map(|(number, _)| number)
    }
}
