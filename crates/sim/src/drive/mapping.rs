//! Where the pages of a drive are: two tables over all elements.
//!
//! Zero means "as at first", and the tables are one allocation each, which the system grants page by
//! page when they are written: so a new drive of any size begins at once.

use super::shape::Shape;

/// In the map: the page was discarded.
const GONE: u32 = u32::MAX;

pub(super) struct Tables {
    /// Logical page -> physical page + 1; 0: its first home.
    map: Vec<u32>,
    /// Physical page -> logical page + 1; 0: its first owner.
    owners: Vec<u32>,
    local_pages: usize,
    physical_pages: usize,
}

/// The part of one element.
pub(super) struct Pages<'a> {
    map: &'a mut [u32],
    owners: &'a mut [u32],
}

impl Tables {
    pub fn new(shape: &Shape, elements: u32) -> Self {
        let local_pages = shape.local_pages as usize;
        let physical_pages = (shape.blocks() * shape.pages_per_block) as usize;
        Self {
            map: vec![0; local_pages * elements as usize],
            owners: vec![0; physical_pages * elements as usize],
            local_pages,
            physical_pages,
        }
    }

    #[inline]
    pub fn of(&mut self, element: u32) -> Pages<'_> {
        let (logical, physical) = (
            self.local_pages * element as usize,
            self.physical_pages * element as usize,
        );
        Pages {
            map: &mut self.map[logical..logical + self.local_pages],
            owners: &mut self.owners[physical..physical + self.physical_pages],
        }
    }

    /// The entry of a logical page: only asked for so that the processor fetches it.
    #[inline]
    pub fn peek(&self, element: u32, local: u32) -> u32 {
        self.map[self.local_pages * element as usize + local as usize]
    }

    /// The logical page that was written to a physical one.
    pub fn owner(&self, shape: &Shape, element: u32, physical: u32) -> u32 {
        let entry = self.owners[self.physical_pages * element as usize + physical as usize];
        decoded_owner(shape, physical, entry)
    }

    /// The physical page of a logical one; `None` when it was discarded.
    #[inline]
    pub fn home(&self, shape: &Shape, element: u32, local: u32) -> Option<u32> {
        decoded(shape, local, self.peek(element, local))
    }
}

#[inline]
fn decoded(shape: &Shape, local: u32, entry: u32) -> Option<u32> {
    match entry {
        0 => Some(shape.first_home(local)),
        GONE => None,
        entry => Some(entry - 1),
    }
}

fn decoded_owner(shape: &Shape, physical: u32, entry: u32) -> u32 {
    match entry {
        0 => shape.first_owner(physical),
        entry => entry - 1,
    }
}

impl Pages<'_> {
    /// The physical page of a logical one; `None` when it was discarded.
    #[inline]
    pub fn home(&self, shape: &Shape, local: u32) -> Option<u32> {
        decoded(shape, local, self.map[local as usize])
    }

    /// The logical page that was written to a physical one.
    pub fn owner(&self, shape: &Shape, physical: u32) -> u32 {
        decoded_owner(shape, physical, self.owners[physical as usize])
    }

    #[inline]
    pub fn place(&mut self, local: u32, physical: u32) {
        self.map[local as usize] = physical + 1;
        self.owners[physical as usize] = local + 1;
    }

    pub fn discard(&mut self, local: u32) {
        self.map[local as usize] = GONE;
    }
}
