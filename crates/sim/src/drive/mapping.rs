//! The mapping between logical and physical pages: two tables over all elements.
//!
//! Zero means "as initially", and each table is one allocation, which the system grants page by page
//! when it is written: so a new drive of any size starts at once.

use super::shape::Shape;

/// In the map: the page was discarded.
const DISCARDED: u32 = u32::MAX;

#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct MappingTables {
    /// Logical page -> physical page + 1; 0: as initially.
    map: Vec<u32>,
    /// Physical page -> logical page + 1; 0: as initially.
    reverse_map: Vec<u32>,
    local_pages: usize,
    physical_pages: usize,
}

/// The mapping of one element.
pub(super) struct ElementMapping<'a> {
    map: &'a mut [u32],
    reverse_map: &'a mut [u32],
}

impl MappingTables {
    pub fn new(shape: &Shape, elements: u32) -> Self {
        let local_pages = shape.local_pages as usize;
        let physical_pages = (shape.blocks() * shape.pages_per_block) as usize;
        Self {
            map: vec![0; local_pages * elements as usize],
            reverse_map: vec![0; physical_pages * elements as usize],
            local_pages,
            physical_pages,
        }
    }

    #[inline]
    pub fn of(&mut self, element: u32) -> ElementMapping<'_> {
        let (logical, physical) = (self.local_pages * element as usize, self.physical_pages * element as usize);
        ElementMapping {
            map: &mut self.map[logical..logical + self.local_pages],
            reverse_map: &mut self.reverse_map[physical..physical + self.physical_pages],
        }
    }

    /// The mapping of each element.
    pub fn parts(&mut self) -> impl Iterator<Item = ElementMapping<'_>> {
        let maps = self.map.chunks_exact_mut(self.local_pages);
        let reverse_maps = self.reverse_map.chunks_exact_mut(self.physical_pages);
        maps.zip(reverse_maps).map(|(map, reverse_map)| ElementMapping { map, reverse_map })
    }

    /// Reads the entry of a logical page, so that the processor fetches it.
    #[inline]
    pub fn touch_entry(&self, element: u32, local: u32) -> u32 {
        self.map[self.local_pages * element as usize + local as usize]
    }

    /// The logical page that was written to a physical one.
    pub fn logical_page(&self, shape: &Shape, element: u32, physical: u32) -> u32 {
        let entry = self.reverse_map[self.physical_pages * element as usize + physical as usize];
        decode_logical_page(shape, physical, entry)
    }

    /// The physical page of a logical one; `None` when it is discarded.
    #[inline]
    pub fn physical_page(&self, shape: &Shape, element: u32, local: u32) -> Option<u32> {
        decode_physical_page(shape, local, self.touch_entry(element, local))
    }
}

#[inline]
fn decode_physical_page(shape: &Shape, local: u32, entry: u32) -> Option<u32> {
    match entry {
        0 => Some(shape.initial_physical_page(local)),
        DISCARDED => None,
        entry => Some(entry - 1),
    }
}

fn decode_logical_page(shape: &Shape, physical: u32, entry: u32) -> u32 {
    match entry {
        0 => shape.initial_logical_page(physical),
        entry => entry - 1,
    }
}

impl ElementMapping<'_> {
    /// Reads the entry of a logical page, so that the processor fetches it.
    #[inline]
    pub fn touch_entry(&self, local: u32) -> u32 {
        self.map[local as usize]
    }

    /// The physical page of a logical one; `None` when it is discarded.
    #[inline]
    pub fn physical_page(&self, shape: &Shape, local: u32) -> Option<u32> {
        decode_physical_page(shape, local, self.map[local as usize])
    }

    /// The logical page that was written to a physical one.
    pub fn logical_page(&self, shape: &Shape, physical: u32) -> u32 {
        decode_logical_page(shape, physical, self.reverse_map[physical as usize])
    }

    #[inline]
    pub fn place(&mut self, local: u32, physical: u32) {
        self.map[local as usize] = physical + 1;
        self.reverse_map[physical as usize] = local + 1;
    }

    pub fn discard(&mut self, local: u32) {
        self.map[local as usize] = DISCARDED;
    }
}
