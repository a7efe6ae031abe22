//! The flash translation layer of a drive with a controller: one mapping of pages for the whole
//! drive, written in program units to superblocks.
//!
//! A superblock is one block over all planes on each element of a group. Its pages are numbered unit
//! by unit, and its units over the elements in turn, row by row. A unit goes to any element whose row
//! is next; which one, and when, is up to the caller. Nothing here takes time.
//!
//! A new drive is full, as if it had been written from end to end: program unit `u` is on element `u % elements`.

use std::collections::VecDeque;

use super::controller::{Controller, Folding};
use super::element::Element;
use super::spec::{GcPolicy, Spec};
use crate::divide::Divisor;
use crate::policy::Page;

/// In the map: the page was discarded.
const DISCARDED: u32 = u32::MAX;

/// The stream of the host's pages, other than to the SLC region.
pub(super) const HOST: usize = 0;
/// The stream of the host's pages to the SLC region.
pub(super) const SLC: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum State {
    Free,
    Open,
    Sealed,
    Victim,
    Dead,
}

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(super) struct Superblock {
    pub valid: u32,
    /// When it was opened, counted in superblocks of its group.
    pub opened: u32,
    erases: u32,
    pub state: State,
    pub slc: bool,
}

/// A superblock that is being written.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Open {
    superblock: u32,
    /// The next row of each element.
    pub rows: Vec<u32>,
    pub units_left: u32,
}

#[derive(Default, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Group {
    pub free: VecDeque<u32>,
    /// By stream: pages of the host, moved pages, pages of the host to the SLC region.
    pub open: [Option<Open>; 3],
    /// Free superblocks of the SLC region, where they are set apart, by their number within the group.
    pub slc_free: VecDeque<u32>,
    /// Superblocks in SLC mode that are neither free nor dead.
    pub slc_used: u32,
    /// Those of them that are full and not being folded.
    pub slc_sealed: u32,
    pub opened: u32,
    pub valid: u64,
    /// The element at which the search for the next place of moved pages begins.
    rotation: u32,
}

/// The rules of the SLC region, the same for each group of elements.
#[derive(Clone)]
pub(super) struct SlcRegion {
    /// Superblocks of a group, at most.
    pub superblocks: u32,
    pub unit_pages: u32,
    pub rows: u32,
    by_unit: Divisor,
    /// It takes free superblocks; otherwise its own are set apart.
    pub dynamic: bool,
    pub folding: Folding,
}

/// Superblocks that are being erased, or will be when moved pages are programmed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gained {
    /// Superblocks for any pages.
    pub free: u32,
    /// Superblocks that were in SLC mode.
    pub slc: u32,
}

impl std::iter::Sum for Gained {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self { free: sum.free + one.free, slc: sum.slc + one.slc })
    }
}

/// Where a physical page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub element: u32,
    /// The flash page, over the whole drive.
    pub flash_page: u32,
    /// Number of the flash page within its block, or of the unit where a unit has one page type.
    pub in_block: u32,
    pub slc: bool,
}

/// Where a program unit is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitPlace {
    pub element: u32,
    /// Its first physical page.
    pub first: u32,
    pub pages: u32,
    /// Number of the unit within its block.
    pub row: u32,
    pub slc: bool,
}

#[derive(Clone)]
pub(crate) struct Translation {
    pub(super) map: Vec<u32>,
    pub(super) reverse: Vec<u32>,
    pub(super) superblocks: Vec<Superblock>,
    pub(super) groups: Vec<Group>,
    pub(super) slc: Option<SlcRegion>,
    /// Logical pages from this one on are not mapped at first.
    filled: u32,
    /// A program unit has pages of one type.
    typed_units: bool,
    pub unit_pages: u32,
    pub span: u32,
    rows: u32,
    pub(super) group_superblocks: u32,
    usable_superblocks: u32,
    pub superblock_pages: u32,
    low: usize,
    /// Free superblocks at which garbage collection begins; at least `low`.
    pub(super) background: usize,
    /// Whether the host's units are slowed down while a group collects in the background.
    pub throttle: bool,
    /// The stream of moved pages.
    pub(super) moved_stream: usize,
    /// Valid pages up to which a group takes units of the host, so that each can be collected.
    most_valid: u64,
    planes: u32,
    endurance: u32,
    pub(super) gc_policy: GcPolicy,
    elements: u32,
    by_unit: Divisor,
    by_elements: Divisor,
    by_span: Divisor,
    by_rows: Divisor,
    pub(super) by_superblock: Divisor,
    by_flash_page: Divisor,
}

impl Translation {
    pub fn new(spec: &Spec, controller: &Controller) -> Self {
        let (unit_pages, span) = (controller.unit_pages(spec), controller.span(spec));
        let rows = spec.planes * spec.pages_per_block / unit_pages;
        let (all, usable) = (spec.blocks_per_plane, spec.usable_blocks());
        let superblock_pages = span * spec.planes * spec.pages_per_block;
        let apart = controller.slc_blocks_apart(spec);
        let open = controller.slc_open_blocks();
        let spare = u64::from(spec.reserved_blocks() - apart - open - controller.low_blocks(spec) - 2);
        let groups = spec.elements / span;
        let superblock = |number: u32| Superblock {
            valid: 0,
            opened: number + 1,
            erases: 0,
            state: State::Free,
            slc: number >= all - apart,
        };
        let group = || Group { slc_free: (all - apart..all).collect(), opened: usable, ..Group::default() };
        let mapped = 1_000_000 - controller.unmapped_ppm;
        let mut layer = Self {
            map: vec![0; spec.pages() as usize],
            reverse: vec![0; (groups * all) as usize * superblock_pages as usize],
            superblocks: (0..groups).flat_map(|_| (0..all).map(superblock)).collect(),
            groups: (0..groups).map(|_| group()).collect(),
            slc: (controller.slc.region_bytes > 0).then(|| SlcRegion {
                superblocks: controller.slc_superblocks(spec),
                unit_pages: controller.slc_unit_pages(spec),
                rows: controller.slc_rows(spec),
                by_unit: Divisor::new(controller.slc_unit_pages(spec)),
                dynamic: controller.slc.dynamic,
                folding: controller.slc.folding,
            }),
            filled: (u64::from(spec.pages()) * mapped / 1_000_000) as u32,
            typed_units: !controller.page_type_program_ps.is_empty(),
            unit_pages,
            span,
            rows,
            group_superblocks: all,
            usable_superblocks: usable,
            superblock_pages,
            low: controller.low_blocks(spec) as usize,
            background: controller.background_blocks(spec) as usize,
            throttle: controller.throttle,
            moved_stream: usize::from(controller.hot_cold),
            most_valid: u64::from(usable) * u64::from(superblock_pages) + spare * u64::from(superblock_pages) / 2,
            planes: spec.planes,
            endurance: spec.endurance,
            gc_policy: spec.gc_policy,
            elements: spec.elements,
            by_unit: Divisor::new(unit_pages),
            by_elements: Divisor::new(spec.elements),
            by_span: Divisor::new(span),
            by_rows: Divisor::new(rows),
            by_superblock: Divisor::new(superblock_pages),
            by_flash_page: Divisor::new(controller.flash_page_pages(spec)),
        };
        layer.fill();
        layer
    }

    /// Seals the superblocks that hold pages at first; the others are free.
    fn fill(&mut self) {
        for group in 0..self.groups() {
            for number in 0..self.group_superblocks {
                let valid = self.filled_pages(group, number);
                let entry = group * self.group_superblocks + number;
                let superblock = &mut self.superblocks[entry as usize];
                superblock.valid = valid;
                let group = &mut self.groups[group as usize];
                group.valid += u64::from(valid);
                if valid > 0 {
                    superblock.state = State::Sealed;
                } else if !superblock.slc {
                    group.free.push_back(number);
                }
            }
        }
    }

    /// Pages that a superblock holds at first, by its number within its group.
    fn filled_pages(&self, group: u32, number: u32) -> u32 {
        // Superblocks with the same number in all groups have consecutive pages.
        let across = u64::from(self.superblock_pages) * u64::from(self.groups());
        let first = u64::from(number) * across;
        let filled = u64::from(self.filled);
        if number >= self.usable_superblocks || first >= filled {
            return 0;
        }
        if first + across <= filled {
            return self.superblock_pages;
        }
        let unit_pages = u64::from(self.unit_pages);
        let units = (0..u64::from(self.rows)).flat_map(|row| {
            let elements = group * self.span..(group + 1) * self.span;
            elements.map(move |element| row * u64::from(self.elements) + u64::from(element))
        });
        let pages = units.map(|unit| {
            let before = first + unit * unit_pages;
            filled.saturating_sub(before).min(unit_pages)
        });
        pages.sum::<u64>() as u32
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
            0 => (page < self.filled).then(|| self.initial_physical(page)),
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
        let slc = self.slc.as_ref().filter(|_| self.superblocks[superblock as usize].slc);
        let by_unit = slc.map_or(&self.by_unit, |region| &region.by_unit);
        let (unit, within) = by_unit.div_rem(offset);
        let (row, of_group) = self.by_span.div_rem(unit);
        let group = superblock / self.group_superblocks;
        Position {
            element: group * self.span + of_group,
            flash_page: self.by_flash_page.div(physical),
            in_block: if self.typed_units { row } else { self.by_flash_page.div(row * self.unit_pages + within) },
            slc: slc.is_some(),
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

    /// The share of program operations of a group that may be the host's while it collects, millionths: all of them
    /// where collection begins, none where the space beyond `low` is no more than the superblocks that are being
    /// written and one that is being collected. `gained` superblocks will be free, and `collected`
    /// pages of a victim.
    pub fn host_share_ppm(&self, group: u32, gained: u32, collected: u32) -> i64 {
        let group = &self.groups[group as usize];
        let open: u32 = group.open[HOST..=self.moved_stream].iter().flatten().map(|open| open.units_left).sum();
        let pages = i64::from(self.superblock_pages);
        let space = i64::from(group.free.len() as u32 + gained) * pages + i64::from(open * self.unit_pages + collected);
        let least = i64::from((self.low + 2 + self.moved_stream) as u32) * pages;
        let all = i64::from(self.background as u32 + 1) * pages;
        ((space - least) * 1_000_000 / (all - least)).clamp(0, 1_000_000)
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
        let (number, of_group) = self.by_span.div_rem(element);
        let group = &self.groups[number as usize];
        match &group.open[stream] {
            Some(open) => open.rows[of_group as usize] < self.rows_of(stream),
            None if stream == SLC => self.slc_free(number, Gained::default()) > 0,
            None => !group.free.is_empty(),
        }
    }

    /// Rows of a superblock of a stream.
    fn rows_of(&self, stream: usize) -> u32 {
        match &self.slc {
            Some(region) if stream == SLC => region.rows,
            _ => self.rows,
        }
    }

    /// Pages of the next unit of the host on an element; `None` when it takes none.
    pub fn host_unit(&self, element: u32) -> Option<u32> {
        let group = self.group_of(element);
        if self.groups[group as usize].valid > self.most_valid {
            return None;
        }
        match (self.host_stream(group)?, &self.slc) {
            (SLC, Some(region)) => self.has_row(element, SLC).then_some(region.unit_pages),
            _ => self.takes_other_unit(element).then_some(self.unit_pages),
        }
    }

    /// Whether an element has a row for a unit of the host beside the SLC region.
    pub fn takes_other_unit(&self, element: u32) -> bool {
        let group = self.group_of(element);
        !self.is_low(group) && self.groups[group as usize].valid <= self.most_valid && self.has_row(element, HOST)
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

    /// The place of the next unit of a stream on an element that takes one; its pages are still to be counted.
    pub(super) fn next_unit(&mut self, element: u32, stream: usize) -> Option<UnitPlace> {
        let (number, of_group) = self.by_span.div_rem(element);
        let rows = self.rows_of(stream);
        let slc = self.slc.as_ref().filter(|_| stream == SLC);
        let unit_pages = slc.map_or(self.unit_pages, |region| region.unit_pages);
        let apart = slc.is_some_and(|region| !region.dynamic);
        let slc = slc.is_some();
        let group = &mut self.groups[number as usize];
        if group.open[stream].is_none() {
            let free = if apart { &mut group.slc_free } else { &mut group.free };
            let superblock = free.pop_front()?;
            group.opened += 1;
            let entry = number * self.group_superblocks + superblock;
            let opened = &mut self.superblocks[entry as usize];
            opened.state = State::Open;
            opened.opened = group.opened;
            opened.slc = slc;
            group.slc_used += u32::from(slc);
            group.open[stream] =
                Some(Open { superblock: entry, rows: vec![0; self.span as usize], units_left: rows * self.span });
        }
        let open = group.open[stream].as_mut()?;
        let row = open.rows[of_group as usize];
        if row == rows {
            return None;
        }
        open.rows[of_group as usize] += 1;
        open.units_left -= 1;
        let superblock = open.superblock;
        if open.units_left == 0 {
            self.superblocks[superblock as usize].state = State::Sealed;
            group.slc_sealed += u32::from(slc);
            group.open[stream] = None;
        }
        Some(UnitPlace {
            element,
            pages: 0,
            first: superblock * self.superblock_pages + (row * self.span + of_group) * unit_pages,
            row,
            slc,
        })
    }

    // Garbage collection

    /// Makes a superblock a victim.
    pub(super) fn begin_collection(&mut self, victim: u32) {
        let group = self.group_of_superblock(victim);
        let superblock = &mut self.superblocks[victim as usize];
        superblock.state = State::Victim;
        self.groups[group as usize].slc_sealed -= u32::from(superblock.slc);
    }

    /// Gives up the collection of a superblock: it keeps what is valid.
    pub fn release_victim(&mut self, victim: u32) {
        let group = self.group_of_superblock(victim);
        let superblock = &mut self.superblocks[victim as usize];
        superblock.state = State::Sealed;
        self.groups[group as usize].slc_sealed += u32::from(superblock.slc);
    }

    /// The next valid page of a superblock from an offset on, which moves behind it.
    pub fn next_valid(&self, superblock: u32, offset: &mut u32) -> Option<u32> {
        let first = superblock * self.superblock_pages;
        let next = (first + *offset..first + self.superblock_pages).find(|&physical| self.page_at(physical).is_some());
        *offset = next.map_or(self.superblock_pages, |physical| physical - first + 1);
        next
    }

    /// The page that a physical page holds now.
    pub fn page_at(&self, physical: u32) -> Option<Page> {
        let page = self.logical(physical)?;
        (self.physical(page) == Some(physical)).then_some(page)
    }

    /// Gives up all garbage collection in progress.
    pub fn release_victims(&mut self) {
        for number in 0..self.superblocks.len() as u32 {
            if self.superblocks[number as usize].state == State::Victim {
                self.release_victim(number);
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
        let of_group = &mut self.groups[group as usize];
        of_group.slc_used -= u32::from(entry.slc);
        entry.slc &= self.slc.as_ref().is_some_and(|region| !region.dynamic);
        let free = if entry.slc { &mut of_group.slc_free } else { &mut of_group.free };
        free.extend((!dead).then_some(row));
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
}
