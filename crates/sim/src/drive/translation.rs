//! The flash translation layer of a drive with a controller: one mapping of pages for the whole
//! drive, written in program units to superblocks.
//!
//! A superblock is one block over all planes on each element of a group. Its pages are numbered unit
//! by unit, and its units over the elements in turn, row by row. A unit goes to any element whose row
//! is next; which one, and when, is up to the caller. Nothing here takes time.
//!
//! A new drive is full, as if it had been written from end to end: program unit `u` is on element
//! `u % elements`.

mod saved;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use super::controller::Controller;
use super::element::Element;
use super::spec::{GcPolicy, Spec};
use crate::divide::Divisor;
use crate::policy::Page;

/// In the map: the page was discarded.
const DISCARDED: u32 = u32::MAX;

/// The stream of the host's pages.
const HOST: usize = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum State {
    Free,
    Open,
    Sealed,
    /// Being collected.
    Victim,
    Dead,
}

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Superblock {
    valid: u32,
    /// When it was opened, counted in superblocks of its group.
    opened: u32,
    erases: u32,
    state: State,
}

/// A superblock that is being written.
#[derive(serde::Serialize, serde::Deserialize)]
struct Open {
    superblock: u32,
    /// The next row of each element.
    rows: Vec<u32>,
    units_left: u32,
}

/// Elements that superblocks span.
#[derive(serde::Serialize, serde::Deserialize)]
struct Group {
    free: VecDeque<u32>,
    /// By stream: pages of the host, moved pages.
    open: [Option<Open>; 2],
    opened: u32,
    valid: u64,
    /// The element at which the search for the next place of moved pages begins.
    rotation: u32,
}

/// Where a physical page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub element: u32,
    /// The flash page, over the whole drive.
    pub flash_page: u32,
    /// Number of the flash page within its block.
    pub in_block: u32,
}

pub(crate) struct Translation {
    map: Vec<u32>,
    reverse: Vec<u32>,
    superblocks: Vec<Superblock>,
    groups: Vec<Group>,
    pub unit_pages: u32,
    /// Elements of a group.
    pub span: u32,
    rows: u32,
    /// Superblocks of a group.
    group_superblocks: u32,
    usable_superblocks: u32,
    pub superblock_pages: u32,
    low: usize,
    /// Free superblocks at which garbage collection begins; at least `low`.
    background: usize,
    /// The stream of moved pages.
    moved_stream: usize,
    /// Valid pages up to which a group takes units of the host, so that each can be collected.
    most_valid: u64,
    planes: u32,
    endurance: u32,
    gc_policy: GcPolicy,
    elements: u32,
    by_unit: Divisor,
    by_elements: Divisor,
    by_span: Divisor,
    by_rows: Divisor,
    by_superblock: Divisor,
    by_flash_page: Divisor,
}

impl Translation {
    pub fn new(spec: &Spec, controller: &Controller) -> Self {
        let (unit_pages, span) = (controller.unit_pages(spec), controller.span(spec));
        let rows = spec.planes * spec.pages_per_block / unit_pages;
        let (all, usable) = (spec.blocks_per_plane, spec.usable_blocks());
        let superblock_pages = span * spec.planes * spec.pages_per_block;
        let spare = u64::from(spec.reserved_blocks() - controller.low_blocks(spec) - 2);
        let groups = spec.elements / span;
        let superblock = |number: u32| Superblock {
            valid: if number < usable { superblock_pages } else { 0 },
            opened: number + 1,
            erases: 0,
            state: if number < usable {
                State::Sealed
            } else {
                State::Free
            },
        };
        let group = || Group {
            free: (usable..all).collect(),
            open: [None, None],
            opened: usable,
            valid: u64::from(usable) * u64::from(superblock_pages),
            rotation: 0,
        };
        Self {
            map: vec![0; spec.pages() as usize],
            reverse: vec![0; (groups * all) as usize * superblock_pages as usize],
            superblocks: (0..groups).flat_map(|_| (0..all).map(superblock)).collect(),
            groups: (0..groups).map(|_| group()).collect(),
            unit_pages,
            span,
            rows,
            group_superblocks: all,
            usable_superblocks: usable,
            superblock_pages,
            low: controller.low_blocks(spec) as usize,
            background: controller.background_blocks(spec) as usize,
            moved_stream: usize::from(controller.hot_cold),
            most_valid: u64::from(usable) * u64::from(superblock_pages)
                + spare * u64::from(superblock_pages) / 2,
            planes: spec.planes,
            endurance: spec.endurance,
            gc_policy: spec.gc_policy,
            elements: spec.elements,
            by_unit: prepared(unit_pages),
            by_elements: prepared(spec.elements),
            by_span: prepared(span),
            by_rows: prepared(rows),
            by_superblock: prepared(superblock_pages),
            by_flash_page: prepared(controller.flash_page_pages(spec)),
        }
    }

    /// Groups of elements, each with superblocks of its own.
    pub fn groups(&self) -> u32 {
        self.groups.len() as u32
    }

    pub fn group_of(&self, element: u32) -> u32 {
        self.by_span.div(element)
    }

    pub fn group_of_superblock(&self, superblock: u32) -> u32 {
        superblock / self.group_superblocks
    }

    // The mapping

    /// The physical page of a page; `None` when it is discarded.
    #[inline]
    pub fn physical(&self, page: Page) -> Option<u32> {
        let entry = self.map[page as usize];
        match entry {
            0 => Some(self.initial_physical(page)),
            DISCARDED => None,
            _ => Some(entry - 1),
        }
    }

    fn initial_physical(&self, page: Page) -> u32 {
        let (unit, within) = self.by_unit.div_rem(page);
        let (row, element) = self.by_elements.div_rem(unit);
        let (group, of_group) = self.by_span.div_rem(element);
        let (superblock, row) = self.by_rows.div_rem(row);
        (group * self.group_superblocks + superblock) * self.superblock_pages
            + (row * self.span + of_group) * self.unit_pages
            + within
    }

    /// The page that was written last to a physical page, whether or not it is still there.
    fn logical(&self, physical: u32) -> Option<Page> {
        let entry = self.reverse[physical as usize];
        match entry {
            0 => self.initial_logical(physical),
            _ => Some(entry - 1),
        }
    }

    fn initial_logical(&self, physical: u32) -> Option<Page> {
        let (superblock, offset) = self.by_superblock.div_rem(physical);
        let group = superblock / self.group_superblocks;
        let superblock = superblock % self.group_superblocks;
        let (unit, within) = self.by_unit.div_rem(offset);
        let (row, of_group) = self.by_span.div_rem(unit);
        let row = superblock * self.rows + row;
        let unit = row * self.elements + group * self.span + of_group;
        (superblock < self.usable_superblocks).then_some(unit * self.unit_pages + within)
    }

    #[inline]
    pub fn position(&self, physical: u32) -> Position {
        let (superblock, offset) = self.by_superblock.div_rem(physical);
        let (unit, within) = self.by_unit.div_rem(offset);
        let (row, of_group) = self.by_span.div_rem(unit);
        let group = superblock / self.group_superblocks;
        Position {
            element: group * self.span + of_group,
            flash_page: self.by_flash_page.div(physical),
            in_block: self.by_flash_page.div(row * self.unit_pages + within),
        }
    }

    #[inline]
    pub fn write(&mut self, page: Page, physical: u32) {
        self.invalidate(page);
        self.map[page as usize] = physical + 1;
        self.reverse[physical as usize] = page + 1;
        let superblock = self.by_superblock.div(physical);
        self.superblocks[superblock as usize].valid += 1;
        self.groups[(superblock / self.group_superblocks) as usize].valid += 1;
    }

    pub fn discard(&mut self, page: Page) {
        self.invalidate(page);
        self.map[page as usize] = DISCARDED;
    }

    #[inline]
    fn invalidate(&mut self, page: Page) {
        if let Some(old) = self.physical(page) {
            let superblock = self.by_superblock.div(old);
            self.superblocks[superblock as usize].valid -= 1;
            self.groups[(superblock / self.group_superblocks) as usize].valid -= 1;
        }
    }

    // Places

    /// Whether a group takes no unit of the host.
    pub fn is_low(&self, group: u32) -> bool {
        self.groups[group as usize].free.len() <= self.low
    }

    /// Whether a group needs garbage collection, when so many more superblocks are free, and, if there
    /// is a rest of moved pages, when it has its place.
    pub fn needs_collection(&self, group: u32, gained: usize, has_rest: bool) -> bool {
        let group = &self.groups[group as usize];
        let needed = usize::from(has_rest && group.open[self.moved_stream].is_none());
        group.free.len() + gained <= self.background + needed
    }

    /// Whether an element has a row for a unit.
    fn has_row(&self, element: u32, stream: usize) -> bool {
        let (group, of_group) = self.by_span.div_rem(element);
        let group = &self.groups[group as usize];
        match &group.open[stream] {
            Some(open) => open.rows[of_group as usize] < self.rows,
            None => !group.free.is_empty(),
        }
    }

    /// Whether an element has a row for a unit of the host.
    pub fn takes_host_unit(&self, element: u32) -> bool {
        let group = self.group_of(element);
        !self.is_low(group)
            && self.groups[group as usize].valid <= self.most_valid
            && self.has_row(element, HOST)
    }

    /// The element of a group that takes the next unit of moved pages; `None` without room.
    pub fn element_for_moved(&mut self, group: u32) -> Option<u32> {
        let first = group * self.span;
        let rotation = self.groups[group as usize].rotation;
        let next = (0..self.span)
            .map(|step| (rotation + step) % self.span)
            .find(|&of_group| self.has_row(first + of_group, self.moved_stream))?;
        self.groups[group as usize].rotation = (next + 1) % self.span;
        Some(first + next)
    }

    /// The first physical page of the next unit of the host on an element that has a row.
    pub fn next_host_unit(&mut self, element: u32) -> Option<u32> {
        self.next_unit(element, HOST)
    }

    /// The same for moved pages.
    pub fn next_moved_unit(&mut self, element: u32) -> Option<u32> {
        self.next_unit(element, self.moved_stream)
    }

    fn next_unit(&mut self, element: u32, stream: usize) -> Option<u32> {
        let (number, of_group) = self.by_span.div_rem(element);
        let group = &mut self.groups[number as usize];
        if group.open[stream].is_none() {
            let superblock = group.free.pop_front()?;
            group.opened += 1;
            let entry = number * self.group_superblocks + superblock;
            self.superblocks[entry as usize].state = State::Open;
            self.superblocks[entry as usize].opened = group.opened;
            group.open[stream] = Some(Open {
                superblock: entry,
                rows: vec![0; self.span as usize],
                units_left: self.rows * self.span,
            });
        }
        let open = group.open[stream].as_mut()?;
        let row = open.rows[of_group as usize];
        if row == self.rows {
            return None;
        }
        open.rows[of_group as usize] += 1;
        open.units_left -= 1;
        let superblock = open.superblock;
        if open.units_left == 0 {
            self.superblocks[superblock as usize].state = State::Sealed;
            group.open[stream] = None;
        }
        Some(superblock * self.superblock_pages + (row * self.span + of_group) * self.unit_pages)
    }

    // Garbage collection

    /// Makes the best superblock of a group its victim; `None` if none would gain space.
    pub fn take_victim(&mut self, group: u32) -> Option<u32> {
        let first = group * self.group_superblocks;
        let opened = self.groups[group as usize].opened;
        let mut best: Option<(f64, u32)> = None;
        for number in first..first + self.group_superblocks {
            let superblock = &self.superblocks[number as usize];
            if superblock.state != State::Sealed || superblock.valid == self.superblock_pages {
                continue;
            }
            let benefit = self.benefit(superblock, opened);
            if best.is_none_or(|(most, _)| benefit > most) {
                best = Some((benefit, number));
            }
        }
        let (_, victim) = best?;
        self.superblocks[victim as usize].state = State::Victim;
        Some(victim)
    }

    fn benefit(&self, superblock: &Superblock, opened: u32) -> f64 {
        let age = f64::from(opened - superblock.opened);
        let valid = f64::from(superblock.valid);
        match self.gc_policy {
            // Of equals the oldest.
            GcPolicy::Greedy => age / (age + 1.0) - valid,
            GcPolicy::CostBenefit => {
                (f64::from(self.superblock_pages) - valid) / (2.0 * valid) * (age + 1.0)
            }
        }
    }

    /// The first valid page of a superblock at or behind an offset: its physical page.
    pub fn next_valid(&self, superblock: u32, offset: u32) -> Option<u32> {
        let first = superblock * self.superblock_pages;
        (first + offset..first + self.superblock_pages)
            .find(|&physical| self.page_at(physical).is_some())
    }

    /// The page that a physical page holds now.
    pub fn page_at(&self, physical: u32) -> Option<Page> {
        let page = self.logical(physical)?;
        (self.physical(page) == Some(physical)).then_some(page)
    }

    /// Gives up all garbage collection in progress: its victims keep what is valid.
    pub fn release_victims(&mut self) {
        for superblock in &mut self.superblocks {
            if superblock.state == State::Victim {
                superblock.state = State::Sealed;
            }
        }
    }

    /// Erases a superblock: it is free, or dead.
    pub fn erase(&mut self, superblock: u32, elements: &mut [Element]) {
        let group = superblock / self.group_superblocks;
        let row = superblock % self.group_superblocks;
        let entry = &mut self.superblocks[superblock as usize];
        entry.erases += 1;
        let dead = self.endurance > 0 && entry.erases >= self.endurance;
        entry.state = if dead { State::Dead } else { State::Free };
        if !dead {
            self.groups[group as usize].free.push_back(row);
        }
        let of_group = group * self.span..(group + 1) * self.span;
        for element in &mut elements[of_group.start as usize..of_group.end as usize] {
            for plane in 0..self.planes {
                element.erases[(plane * self.group_superblocks + row) as usize] += 1;
            }
            element.counters.erases += u64::from(self.planes);
            element.counters.collected_blocks += u64::from(self.planes);
            element.counters.dead_blocks += if dead { self.planes } else { 0 };
        }
    }

    /// Checks that every mapped page has a physical page of its own, and that all counts agree.
    pub fn audit(&self) -> Result<(), String> {
        let mut valid = vec![0_u32; self.superblocks.len()];
        for page in 0..self.map.len() as u32 {
            let Some(physical) = self.physical(page) else {
                continue;
            };
            if self.page_at(physical) != Some(page) {
                return Err(format!("page {page} at {physical}, which holds another"));
            }
            valid[self.by_superblock.div(physical) as usize] += 1;
        }
        for (number, (superblock, &counted)) in self.superblocks.iter().zip(&valid).enumerate() {
            if superblock.valid != counted {
                let recorded = superblock.valid;
                return Err(format!(
                    "superblock {number}: {recorded} valid pages recorded, {counted} counted"
                ));
            }
            if counted > 0 && matches!(superblock.state, State::Free | State::Dead) {
                return Err(format!("superblock {number} is erased and holds pages"));
            }
        }
        let per_group = self.group_superblocks as usize;
        for (number, (group, valid)) in self.groups.iter().zip(valid.chunks(per_group)).enumerate()
        {
            let counted: u64 = valid.iter().map(|&valid| u64::from(valid)).sum();
            if group.valid != counted {
                return Err(format!("group {number}: {counted} valid pages counted"));
            }
        }
        Ok(())
    }
}

/// A checked specification has no zero here.
fn prepared(divisor: u32) -> Divisor {
    Divisor::new(NonZeroU32::new(divisor).unwrap_or(NonZeroU32::MIN))
}
