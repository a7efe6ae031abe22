//! One flash element: a page-mapped log over its planes.
//!
//! At first every logical page is mapped, block by block, the planes in turn, and every exported
//! block is full. Where pages are stands in [`Pages`].

use super::costs::Costs;
use super::counters::Counters;
use super::mapping::Pages;
use super::shape::Shape;
use super::spec::{Pool, WearLevelling};

/// What a block is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(super) enum State {
    #[default]
    Free,
    Open,
    /// Full, so that it may be cleaned.
    Sealed,
    /// Full, and never cleaned: the block mapped last at first stays in use for ever.
    Held,
    Dead,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Block {
    /// When it was opened, counted in blocks of the element.
    pub opened: u32,
    pub valid: u16,
    pub state: State,
}

/// The block that a plane is writing, and how much it can still take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    pub open_block: u32,
    /// When that was opened.
    pub opened: u32,
    /// Its next page.
    pub position: u32,
    pub free_blocks: u32,
    /// Pages that can still be written, a summary page a block included.
    pub room: u32,
}

/// A flash element.
pub struct Element {
    pub(super) blocks: Vec<Block>,
    pub(super) erases: Vec<u32>,
    pub(super) planes: Vec<Plane>,
    /// The plane that is looked at first for the next page.
    next_plane: u32,
    /// No plane has more room.
    most_room: u32,
    /// The plane that is looked at first for cleaning.
    pub(super) next_cleaned: u32,
    /// Planes with as few free blocks as make them clean.
    pub(super) low_planes: u32,
    /// Blocks opened so far.
    pub(super) opened: u32,
    pub(super) counters: Counters,
}

impl Element {
    pub(super) fn new(shape: &Shape) -> Self {
        let mut element = Self {
            blocks: vec![Block::default(); shape.blocks() as usize],
            erases: vec![0; shape.blocks() as usize],
            planes: Vec::with_capacity(shape.planes as usize),
            next_plane: 0,
            most_room: u32::MAX,
            next_cleaned: 0,
            low_planes: 0,
            opened: shape.usable_rows * shape.planes,
            counters: Counters::default(),
        };
        element.fill(shape);
        for plane in 0..shape.planes {
            element.found(shape, plane);
        }
        element
    }

    /// Every exported block is full of its first pages.
    fn fill(&mut self, shape: &Shape) {
        for plane in 0..shape.planes {
            for row in 0..shape.usable_rows {
                self.blocks[(plane * shape.rows + row) as usize] = Block {
                    opened: row * shape.planes + plane + 1,
                    valid: shape.data_pages as u16,
                    state: State::Sealed,
                };
            }
        }
        let last = (shape.planes - 1) * shape.rows + shape.usable_rows - 1;
        self.blocks[last as usize].state = State::Held;
    }

    /// The first reserved row of a plane is open, the others are free.
    fn found(&mut self, shape: &Shape, plane: u32) {
        let open_block = plane * shape.rows + shape.usable_rows;
        let free_blocks = shape.rows - shape.usable_rows - 1;
        self.opened += 1;
        self.blocks[open_block as usize] = Block {
            opened: self.opened,
            valid: 0,
            state: State::Open,
        };
        self.planes.push(Plane {
            open_block,
            opened: self.opened,
            position: 0,
            free_blocks,
            room: (free_blocks + 1) * shape.pages_per_block,
        });
    }

    /// What happened here.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Erasures of each block, plane by plane.
    #[must_use]
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Something of the block of a physical page: only asked for so that the processor fetches it.
    #[inline]
    pub(super) fn peek(&self, shape: &Shape, physical: u32) -> u32 {
        self.blocks[shape.block_of(physical) as usize].opened
    }

    /// Whether there is something to read.
    #[inline]
    pub(super) fn read(&mut self, shape: &Shape, pages: &Pages<'_>, local: u32) -> bool {
        let there = pages.home(shape, local).is_some();
        self.counters.read_pages += u64::from(there);
        there
    }

    pub(super) fn trim(&mut self, shape: &Shape, pages: &mut Pages<'_>, local: u32) {
        if let Some(physical) = pages.home(shape, local) {
            self.blocks[shape.block_of(physical) as usize].valid -= 1;
            pages.discard(local);
            self.counters.trimmed_pages += 1;
        }
    }

    /// Programs a logical page; returns for how long, `None` when no block is left.
    #[inline]
    pub(super) fn write(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        local: u32,
    ) -> Option<u64> {
        let old = pages.home(shape, local);
        let plane = self.plane_for(shape, old, |_| true)?;
        self.put(shape, pages, costs, plane, local, old)
            .or_else(|| self.write_in_need(shape, pages, costs, local))
    }

    /// As `write`, where no place was found.
    #[cold]
    fn write_in_need(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        local: u32,
    ) -> Option<u64> {
        let plane = self.plane_in_need(|_| true)?;
        let old = pages.home(shape, local); // cleaning in vain may have moved it
        self.put(shape, pages, costs, plane, local, old)
    }

    /// The plane for a page whose own plane has no place left and cannot make one: its blocks are
    /// full of valid pages, or dead. Then the order of blocks must stand back.
    #[cold]
    pub(super) fn plane_in_need(&self, allowed: impl Fn(u32) -> bool) -> Option<u32> {
        (0..)
            .zip(&self.planes)
            // The last page of a plane's room is a summary's.
            .filter(|(number, plane)| plane.room > 1 && allowed(*number))
            .max_by_key(|(_, plane)| plane.room)
            .map(|(number, _)| number)
    }

    /// The plane for a page whose old copy is `old`, among those that are allowed.
    ///
    /// A plane may take it if its open block is the one with the old copy or a younger one: then
    /// the summary pages, read in the order in which blocks were opened, find the newest copy last.
    #[inline]
    pub(super) fn plane_for(
        &mut self,
        shape: &Shape,
        old: Option<u32>,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let Some(physical) = old else {
            return self.roomiest(0, allowed);
        };
        let block = shape.block_of(physical);
        match shape.pool {
            Pool::Plane => Some(shape.plane_of(block)).filter(|&plane| allowed(plane)),
            Pool::Element => self.roomiest(self.blocks[block as usize].opened, allowed),
        }
    }

    /// Programs a logical page, whose old copy is `old`, in the plane that is for it; returns for
    /// how long, `None` when no block is left.
    #[inline]
    pub(super) fn put(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        plane: u32,
        local: u32,
        mut old: Option<u32>,
    ) -> Option<u64> {
        self.next_plane = if plane + 1 == shape.planes {
            0
        } else {
            plane + 1
        };
        let mut cost_ps = costs.write;
        if self.planes[plane as usize].position == shape.data_pages {
            cost_ps += self.make_room(shape, pages, costs, plane)?;
            old = pages.home(shape, local); // making room may have moved it
        }
        if let Some(physical) = old {
            self.blocks[shape.block_of(physical) as usize].valid -= 1;
        }
        self.counters.written_pages += 1;
        Some(cost_ps + self.append(shape, pages, costs, plane, local))
    }

    /// Among the allowed planes whose open block is at least as young as `opened`, the one with
    /// most room, beginning with the plane whose turn it is.
    ///
    /// Mostly that is the plane whose turn it is, because none has more: `most_room` tells so
    /// without a look at the others.
    #[inline]
    pub(super) fn roomiest(&mut self, opened: u32, allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let next = &self.planes[self.next_plane as usize];
        if next.room >= self.most_room && next.opened >= opened && allowed(self.next_plane) {
            return Some(self.next_plane);
        }
        self.roomiest_of_all(opened, allowed)
    }

    fn roomiest_of_all(&mut self, opened: u32, allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let (before, from) = self.planes.split_at(self.next_plane as usize);
        let (mut best, mut room, mut most_room) = (None, 0, 0);
        for (number, plane) in (self.next_plane..).zip(from).chain((0..).zip(before)) {
            most_room = plane.room.max(most_room);
            // Without any room at all the first one has to do; it cleans.
            let better = plane.room > room || best.is_none();
            if better && plane.opened >= opened && allowed(number) {
                best = Some(number);
                room = plane.room;
            }
        }
        self.most_room = most_room;
        best
    }

    /// Opens a block in a plane whose open block is full; returns the time for it. Almost always
    /// that is none: only a plane that is the only one allowed and has run out of blocks cleans.
    fn make_room(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        plane: u32,
    ) -> Option<u64> {
        let mut cost_ps = 0;
        if self.planes[plane as usize].free_blocks == 0 {
            cost_ps = self.clean_in_need(shape, pages, costs, plane)?;
        }
        if self.planes[plane as usize].position == shape.data_pages {
            self.open(shape, plane)?;
        }
        Some(cost_ps)
    }

    /// Writes a page to the plane's open block, which has one; returns the time beyond the page's
    /// own: of the summary page, where it filled the block.
    #[inline]
    pub(super) fn append(
        &mut self,
        shape: &Shape,
        pages: &mut Pages<'_>,
        costs: &Costs,
        plane: u32,
        local: u32,
    ) -> u64 {
        let target = &mut self.planes[plane as usize];
        let physical = target.open_block * shape.pages_per_block + target.position;
        target.position += 1;
        target.room -= 1;
        let block = &mut self.blocks[target.open_block as usize];
        block.valid += 1;
        pages.place(local, physical);
        if target.position < shape.data_pages {
            return 0;
        }
        block.state = State::Sealed;
        self.counters.summary_pages += 1;
        costs.summary
    }

    /// Opens a free block of the plane; `None` when there is none.
    pub(super) fn open(&mut self, shape: &Shape, plane: u32) -> Option<()> {
        let block = self.next_free(shape, plane)?;
        self.opened += 1;
        self.blocks[block as usize] = Block {
            opened: self.opened,
            valid: 0,
            state: State::Open,
        };
        let target = &mut self.planes[plane as usize];
        target.open_block = block;
        target.opened = self.opened;
        target.position = 0;
        target.room -= 1; // the summary page of the block before
        target.free_blocks -= 1;
        self.low_planes += u32::from(target.free_blocks == shape.low);
        Some(())
    }

    /// The next free row after the open one, or the least erased free block.
    fn next_free(&self, shape: &Shape, plane: u32) -> Option<u32> {
        let first = plane * shape.rows;
        let current = self.planes[plane as usize].open_block - first;
        let rows = (current + 1..shape.rows).chain(0..=current);
        let mut free = rows
            .map(|row| first + row)
            .filter(|&block| self.blocks[block as usize].state == State::Free);
        if shape.wear_levelling == WearLevelling::Off {
            free.next()
        } else {
            free.min_by_key(|&block| self.erases[block as usize])
        }
    }

    /// Erases a block that holds nothing valid; its plane can use it again, unless it is worn out.
    pub(super) fn erase(&mut self, shape: &Shape, block: u32) {
        let plane = &mut self.planes[shape.plane_of(block) as usize];
        self.erases[block as usize] += 1;
        self.counters.erases += 1;
        if shape.endurance > 0 && self.erases[block as usize] >= shape.endurance {
            self.blocks[block as usize].state = State::Dead;
            self.counters.dead_blocks += 1;
            return;
        }
        self.blocks[block as usize].state = State::Free;
        self.low_planes -= u32::from(plane.free_blocks == shape.low);
        plane.free_blocks += 1;
        plane.room += shape.pages_per_block;
        self.most_room = self.most_room.max(plane.room);
    }

    /// Whether some plane has to be cleaned.
    #[inline]
    pub(super) fn is_low(&self) -> bool {
        self.low_planes > 0
    }

    /// Takes a page out of the block where it lies, because it is moved.
    pub(super) fn lift(&mut self, block: u32) {
        self.blocks[block as usize].valid -= 1;
    }
}
