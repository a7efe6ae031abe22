//! One flash element (die or package; `DiskSim`'s term): a page-mapped log over its planes.
//!
//! Initially every logical page is mapped, block by block, the planes in turn, and every exported
//! block is full.

use super::costs::Costs;
use super::counters::Counters;
use super::shape::Shape;
use super::spec::{Pool, WearLevelling};

/// In the map: the page was discarded.
const DISCARDED: u32 = u32::MAX;

/// The state of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) enum State {
    #[default]
    Free,
    Open,
    /// Full, so that it may be a victim of garbage collection.
    Sealed,
    /// Full, and never a victim: the reference model pins the block that is mapped last at first.
    Pinned,
    Dead,
}

#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Block {
    /// When it was opened, counted in blocks of the element.
    pub opened: u32,
    pub valid: u16,
    pub state: State,
}

/// The open block of a plane, and the plane's room for further pages.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(super) struct Plane {
    pub open_block: u32,
    pub opened: u32,
    /// Position of its next page.
    pub position: u32,
    pub free_blocks: u32,
    /// Pages that can still be written, including one summary page per block.
    pub room: u32,
}

/// A flash element (die or package).
///
/// In its tables of pages zero means "as initially", and the system grants each of them page by page when it is written:
/// so a new drive of any size starts at once.
#[derive(Default, Clone, serde::Serialize, serde::Deserialize)]
pub struct Element {
    /// Logical page -> physical page + 1; 0: as initially.
    map: Vec<u32>,
    /// Physical page -> logical page + 1; 0: as initially.
    reverse_map: Vec<u32>,
    pub(super) blocks: Vec<Block>,
    pub(super) erases: Vec<u32>,
    pub(super) planes: Vec<Plane>,
    /// The first candidate for the next page.
    next_plane: u32,
    /// Upper bound of the planes' room.
    most_room: u32,
    /// The first candidate for garbage collection.
    pub(super) next_collected: u32,
    /// Planes with so few free blocks that they need garbage collection.
    pub(super) low_planes: u32,
    pub(super) opened: u32,
    pub(super) counters: Counters,
}

impl Element {
    pub(super) fn new(shape: &Shape) -> Self {
        let mut element = Self {
            map: vec![0; shape.local_pages as usize],
            reverse_map: vec![0; (shape.blocks() * shape.spec.pages_per_block) as usize],
            blocks: vec![Block::default(); shape.blocks() as usize],
            erases: vec![0; shape.blocks() as usize],
            planes: Vec::with_capacity(shape.spec.planes as usize),
            most_room: u32::MAX,
            opened: shape.usable_rows * shape.spec.planes,
            ..Self::default()
        };
        element.fill(shape);
        for plane in 0..shape.spec.planes {
            element.open_reserve_block(shape, plane);
        }
        element
    }

    /// An element of a drive with a controller: only its counters and erasures are here.
    pub(super) fn of_controller(shape: &Shape) -> Self {
        Self { erases: vec![0; shape.blocks() as usize], ..Self::default() }
    }

    /// Fills every exported block with the pages that it holds initially.
    fn fill(&mut self, shape: &Shape) {
        for plane in 0..shape.spec.planes {
            for row in 0..shape.usable_rows {
                self.blocks[(plane * shape.spec.blocks_per_plane + row) as usize] = Block {
                    opened: row * shape.spec.planes + plane + 1,
                    valid: shape.data_pages as u16,
                    state: State::Sealed,
                };
            }
        }
        let last = (shape.spec.planes - 1) * shape.spec.blocks_per_plane + shape.usable_rows - 1;
        self.blocks[last as usize].state = State::Pinned;
    }

    /// Opens the first block of a plane's over-provisioned reserve; the others are free.
    fn open_reserve_block(&mut self, shape: &Shape, plane: u32) {
        let open_block = plane * shape.spec.blocks_per_plane + shape.usable_rows;
        let free_blocks = shape.spec.blocks_per_plane - shape.usable_rows - 1;
        self.opened += 1;
        self.blocks[open_block as usize] = Block { opened: self.opened, valid: 0, state: State::Open };
        self.planes.push(Plane {
            open_block,
            opened: self.opened,
            position: 0,
            free_blocks,
            room: (free_blocks + 1) * shape.spec.pages_per_block,
        });
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Erase count of each block, plane by plane.
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Whether some plane needs garbage collection.
    #[inline]
    pub(super) fn is_low(&self) -> bool {
        self.low_planes > 0
    }

    /// Reads the entry of a logical page, so that the processor fetches it.
    #[inline]
    pub(super) fn touch_page(&self, local: u32) -> u32 {
        self.map[local as usize]
    }

    /// Reads the entry of a logical page's block, so that the processor fetches it.
    #[inline]
    pub(super) fn touch_block(&self, shape: &Shape, local: u32) -> u32 {
        self.physical_page(shape, local).map_or(0, |physical| self.blocks[shape.block_of(physical) as usize].opened)
    }

    /// The physical page of a logical one; `None` when it is discarded.
    #[inline(always)]
    pub(super) fn physical_page(&self, shape: &Shape, local: u32) -> Option<u32> {
        match self.map[local as usize] {
            0 => Some(shape.initial_physical_page(local)),
            DISCARDED => None,
            entry => Some(entry - 1),
        }
    }

    /// The logical page that was written to a physical one.
    pub(super) fn logical_page(&self, shape: &Shape, physical: u32) -> u32 {
        match self.reverse_map[physical as usize] {
            0 => shape.initial_logical_page(physical),
            entry => entry - 1,
        }
    }
}

/// An element, and what all of them share.
pub(crate) struct ElementPart<'a> {
    pub(super) shape: &'a Shape,
    pub(super) costs: &'a Costs,
    pub(super) element: &'a mut Element,
}

impl ElementPart<'_> {
    /// The physical page of a page; `None` when it is discarded.
    #[inline(always)]
    pub(super) fn physical_page(&self, local: u32) -> Option<u32> {
        self.element.physical_page(self.shape, local)
    }

    pub fn counters(&self) -> Counters {
        self.element.counters()
    }

    /// Collects garbage if that is due, then programs a page; returns the time of both together, `None`
    /// when no block is left.
    #[inline]
    pub fn collect_and_write(&mut self, local: u32) -> Option<u64> {
        Some(self.collect_if_low() + self.write(local)?)
    }

    /// Collects garbage until no plane is low, as the element does before it serves a page; returns the time it takes.
    #[inline]
    pub(super) fn collect_if_low(&mut self) -> u64 {
        if self.element.is_low() { self.collect_while_low() } else { 0 }
    }

    /// Prefetches the table entries of pages that will be written soon. Without it, each write waits
    /// for memory about twice.
    #[inline]
    pub fn prefetch(&self, locals: impl Iterator<Item = u32> + Clone) {
        let seen = locals.clone().fold(0, |seen, local| seen ^ self.element.touch_page(local));
        std::hint::black_box(seen);
        let seen = locals.fold(0, |seen, local| seen ^ self.element.touch_block(self.shape, local));
        std::hint::black_box(seen);
    }

    /// Counts a read; returns false for a discarded page.
    #[inline(always)]
    pub(super) fn read(&mut self, local: u32) -> bool {
        let there = self.physical_page(local).is_some();
        self.element.counters.read_pages += u64::from(there);
        there
    }

    pub(super) fn trim(&mut self, local: u32) {
        if let Some(physical) = self.physical_page(local) {
            self.element.blocks[self.shape.block_of(physical) as usize].valid -= 1;
            self.element.map[local as usize] = DISCARDED;
            self.element.counters.trimmed_pages += 1;
        }
    }

    /// Programs a logical page; returns the time it takes, `None` when no block is left.
    #[inline]
    pub(super) fn write(&mut self, local: u32) -> Option<u64> {
        let old = self.physical_page(local);
        let plane = self.plane_for(old, |_| true)?;
        self.program(plane, local, old).or_else(|| self.write_to_last_resort(local))
    }

    /// As `write`, where the page's own plane has no place.
    #[cold]
    fn write_to_last_resort(&mut self, local: u32) -> Option<u64> {
        let plane = self.plane_of_last_resort(|_| true)?;
        let old = self.physical_page(local); // garbage collection may have moved it
        self.program(plane, local, old)
    }

    /// The plane for a page whose own plane has no place left and can free none: its blocks are full
    /// of valid pages, or dead. Then the order of blocks is given up.
    #[cold]
    pub(super) fn plane_of_last_resort(&self, allowed: impl Fn(u32) -> bool) -> Option<u32> {
        (0..)
            .zip(&self.element.planes)
            // The last page of a plane's room is for a summary page.
            .filter(|(number, plane)| plane.room > 1 && allowed(*number))
            .max_by_key(|(_, plane)| plane.room)
            .map(|(number, _)| number)
    }

    /// The plane for a page whose old copy is `old`, among those allowed.
    ///
    /// A plane qualifies if its open block has the old copy or is younger: then the summary pages,
    /// read in the order in which blocks were opened, end with the newest copy.
    #[inline]
    pub(super) fn plane_for(&mut self, old: Option<u32>, allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let Some(physical) = old else {
            return self.roomiest(0, allowed);
        };
        let block = self.shape.block_of(physical);
        match self.shape.spec.pool {
            Pool::Plane => Some(self.shape.plane_of(block)).filter(|&plane| allowed(plane)),
            Pool::Element => self.roomiest(self.element.blocks[block as usize].opened, allowed),
        }
    }

    /// Programs a logical page, whose old copy is `old`, in a plane; returns the time it takes, `None`
    /// when no block is left.
    #[inline]
    pub(super) fn program(&mut self, plane: u32, local: u32, mut old: Option<u32>) -> Option<u64> {
        self.element.next_plane = if plane + 1 == self.shape.spec.planes { 0 } else { plane + 1 };
        let mut cost_ps = self.costs.write;
        if self.element.planes[plane as usize].position == self.shape.data_pages {
            cost_ps += self.make_room(plane)?;
            old = self.physical_page(local); // making room may have moved it
        }
        if let Some(physical) = old {
            self.element.blocks[self.shape.block_of(physical) as usize].valid -= 1;
        }
        self.element.counters.written_pages += 1;
        Some(cost_ps + self.append(plane, local))
    }

    /// Among the allowed planes whose open block is at least as young as `opened`, the one with the
    /// most room, in round-robin order among equals.
    ///
    /// Mostly that is the next plane in turn, because none has more room: `most_room` says so, mostly
    /// without a look at the others.
    #[inline]
    pub(super) fn roomiest(&mut self, opened: u32, allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let next = &self.element.planes[self.element.next_plane as usize];
        if next.room < self.element.most_room {
            let rooms = self.element.planes.iter().map(|plane| plane.room);
            self.element.most_room = rooms.fold(0, u32::max);
        }
        if next.room >= self.element.most_room && next.opened >= opened && allowed(self.element.next_plane) {
            return Some(self.element.next_plane);
        }
        self.roomiest_of_all(opened, allowed)
    }

    fn roomiest_of_all(&self, opened: u32, allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let (before, from) = self.element.planes.split_at(self.element.next_plane as usize);
        let (mut best, mut room) = (None, 0);
        for (number, plane) in (self.element.next_plane..).zip(from).chain((0..).zip(before)) {
            // Without any room at all the first one has to do: it collects garbage.
            let better = plane.room > room || best.is_none();
            if better && plane.opened >= opened && allowed(number) {
                best = Some(number);
                room = plane.room;
            }
        }
        best
    }

    /// Opens a block in a plane whose open block is full; returns the time it takes. Almost always that
    /// is 0: only a plane that is the only one allowed and has no free block collects garbage.
    fn make_room(&mut self, plane: u32) -> Option<u64> {
        let mut cost_ps = 0;
        if self.element.planes[plane as usize].free_blocks == 0 {
            cost_ps = self.collect_for_write(plane)?;
        }
        if self.element.planes[plane as usize].position == self.shape.data_pages {
            self.open(plane)?;
        }
        Some(cost_ps)
    }

    /// Appends a page to the plane's open block, which has room. Returns the time beyond the page's
    /// own: that of the summary page, if the block is full now.
    #[inline(always)]
    pub(super) fn append(&mut self, plane: u32, local: u32) -> u64 {
        let target = &mut self.element.planes[plane as usize];
        let physical = target.open_block * self.shape.spec.pages_per_block + target.position;
        target.position += 1;
        target.room -= 1;
        let block = &mut self.element.blocks[target.open_block as usize];
        block.valid += 1;
        self.element.map[local as usize] = physical + 1;
        self.element.reverse_map[physical as usize] = local + 1;
        if target.position < self.shape.data_pages {
            return 0;
        }
        block.state = State::Sealed;
        self.element.counters.summary_pages += 1;
        self.costs.summary
    }

    /// Opens a free block of the plane; `None` without one.
    pub(super) fn open(&mut self, plane: u32) -> Option<()> {
        let block = self.next_free(plane)?;
        self.element.opened += 1;
        self.element.blocks[block as usize] = Block { opened: self.element.opened, valid: 0, state: State::Open };
        let target = &mut self.element.planes[plane as usize];
        target.open_block = block;
        target.opened = self.element.opened;
        target.position = 0;
        target.room -= 1; // the summary page of the block before
        target.free_blocks -= 1;
        self.element.low_planes += u32::from(target.free_blocks == self.shape.low);
        Some(())
    }

    /// The next free row after the open one, or the least erased free block.
    fn next_free(&self, plane: u32) -> Option<u32> {
        let first = plane * self.shape.spec.blocks_per_plane;
        let current = self.element.planes[plane as usize].open_block - first;
        let rows = (current + 1..self.shape.spec.blocks_per_plane).chain(0..=current);
        let mut free =
            rows.map(|row| first + row).filter(|&block| self.element.blocks[block as usize].state == State::Free);
        if self.shape.spec.wear_levelling == WearLevelling::Off {
            free.next()
        } else {
            free.min_by_key(|&block| self.element.erases[block as usize])
        }
    }

    /// Erases a block without valid pages, which is free then, or dead if it is worn out.
    pub(super) fn erase(&mut self, block: u32) {
        let plane = &mut self.element.planes[self.shape.plane_of(block) as usize];
        self.element.erases[block as usize] += 1;
        self.element.counters.erases += 1;
        if self.shape.spec.endurance > 0 && self.element.erases[block as usize] >= self.shape.spec.endurance {
            self.element.blocks[block as usize].state = State::Dead;
            self.element.counters.dead_blocks += 1;
            return;
        }
        self.element.blocks[block as usize].state = State::Free;
        self.element.low_planes -= u32::from(plane.free_blocks == self.shape.low);
        plane.free_blocks += 1;
        plane.room += self.shape.spec.pages_per_block;
        self.element.most_room = self.element.most_room.max(plane.room);
    }
}
