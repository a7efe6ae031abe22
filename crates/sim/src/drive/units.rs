//! A drive with a controller: program units are written, superblocks collected, reads located.

use super::Drive;
use super::translation::{NextUnit, Position, Translation, UnitPlace};
use crate::Error;
use crate::policy::Page;

impl Drive {
    /// The flash translation layer; `None` for the reference drive.
    pub(crate) fn translation(&self) -> Option<&Translation> {
        self.translation.as_ref()
    }

    /// The flash translation layer of a drive that has one: the caller serves drives with a controller alone.
    pub(super) fn layer(&self) -> &Translation {
        self.translation.as_ref().expect("a drive with a controller")
    }

    pub(super) fn layer_mut(&mut self) -> &mut Translation {
        self.translation.as_mut().expect("a drive with a controller")
    }

    /// Where a page is; `None` when it is discarded.
    pub(crate) fn position(&self, page: Page) -> Option<Position> {
        Some(self.layer().position(self.layer().physical(page)?))
    }

    /// Counts pages read for the host from an element.
    pub(crate) fn count_reads(&mut self, element: u32, pages: u32) {
        self.elements[element as usize].counters.read_pages += u64::from(pages);
    }

    /// Writes pages of the host as the next unit of an element; `None` without a place.
    pub(crate) fn write_unit(&mut self, element: u32, pages: &[Page]) -> Option<UnitPlace> {
        let unit = self.layer_mut().next_host_unit(element)?;
        Some(self.write_pages(element, &unit, pages))
    }

    fn write_pages(&mut self, element: u32, unit: &NextUnit, pages: &[Page]) -> UnitPlace {
        let layer = self.layer_mut();
        for (&page, physical) in pages.iter().zip(unit.first..) {
            layer.write(page, physical);
        }
        let counters = &mut self.elements[element as usize].counters;
        counters.written_pages += pages.len() as u64;
        counters.slc_pages += if unit.slc { pages.len() as u64 } else { 0 };
        UnitPlace { element, pages: pages.len() as u32, row: unit.row, slc: unit.slc }
    }

    /// Moves what is still valid at physical pages to the next unit of an element of the group; `None` without a place.
    pub(crate) fn move_unit(&mut self, group: u32, sources: &[u32]) -> Option<UnitPlace> {
        let layer = self.layer_mut();
        let element = layer.element_for_moved(group)?;
        let unit = layer.next_moved_unit(element)?;
        let (mut moved, mut folded) = (0, 0);
        for &source in sources {
            if let Some(page) = layer.page_at(source) {
                folded += u64::from(layer.position(source).slc);
                layer.write(page, unit.first + moved);
                moved += 1;
            }
        }
        let counters = &mut self.elements[element as usize].counters;
        counters.moved_pages += u64::from(moved);
        counters.folded_pages += folded;
        Some(UnitPlace { element, pages: moved, row: unit.row, slc: unit.slc })
    }

    /// Pages of the next unit of the host on an element; `None` when it has no place for one.
    pub(crate) fn host_unit(&self, element: u32) -> Option<usize> {
        self.layer().host_unit(element).map(|unit| unit as usize)
    }

    /// Takes a group's best superblock as its victim.
    pub(crate) fn take_victim(&mut self, group: u32) -> Result<u32, Error> {
        let element = group * self.layer().span;
        self.layer_mut().take_victim(group).ok_or_else(|| self.worn_out(element))
    }

    /// Gives up the garbage collection in progress.
    pub(crate) fn release_victims(&mut self) {
        self.layer_mut().release_victims();
    }

    /// Erases a superblock whose pages are elsewhere.
    pub(crate) fn erase_superblock(&mut self, superblock: u32) {
        let layer = self.translation.as_mut().expect("a drive with a controller");
        layer.erase(superblock, &mut self.elements);
    }

    /// Overwrites pages, unit by unit over the elements in turn, with garbage collection and without
    /// time, beside the SLC region. Returns false when it is not a drive with a controller.
    pub(crate) fn overwrite(&mut self, pages: &[Page]) -> Result<bool, Error> {
        let Some(layer) = &self.translation else {
            return Ok(false);
        };
        let (unit_pages, groups) = (layer.unit_pages as usize, layer.groups());
        let elements = self.spec.elements;
        for unit in pages.chunks(unit_pages) {
            for group in 0..groups {
                self.collect_untimed(group)?;
            }
            let next = (0..elements)
                .map(|step| (self.rotation + step) % elements)
                .find(|&element| self.layer().takes_other_unit(element));
            let Some(element) = next else {
                return Err(self.worn_out(0));
            };
            self.rotation = (element + 1) % elements;
            if let Some(place) = self.layer_mut().next_other_unit(element) {
                self.write_pages(element, &place, unit);
            }
        }
        Ok(true)
    }

    /// Collects garbage in a group until it is no longer low.
    fn collect_untimed(&mut self, group: u32) -> Result<(), Error> {
        let mut read: Vec<u32> = Vec::new();
        let mut emptied: Vec<u32> = Vec::new();
        while self.needs_collection(group, emptied.len(), !read.is_empty()) {
            let victim = self.take_victim(group)?;
            let mut offset = 0;
            while let Some(physical) = self.next_valid(victim, &mut offset) {
                read.push(physical);
                if read.len() == self.unit_pages() {
                    self.move_unit(group, &read).ok_or_else(|| self.worn_out(group))?;
                    read.clear();
                    emptied.drain(..).for_each(|done| self.erase_superblock(done));
                }
            }
            emptied.push(victim);
        }
        if !read.is_empty() {
            self.move_unit(group, &read).ok_or_else(|| self.worn_out(group))?;
        }
        emptied.drain(..).for_each(|done| self.erase_superblock(done));
        Ok(())
    }

    /// Whether any of the physical pages is still valid.
    pub(crate) fn holds_any(&self, physicals: &[u32]) -> bool {
        physicals.iter().any(|&physical| self.layer().page_at(physical).is_some())
    }

    pub(crate) fn group_of_superblock(&self, superblock: u32) -> u32 {
        self.layer().group_of_superblock(superblock)
    }

    /// Whether a group needs garbage collection, with so many superblocks gained, and perhaps a rest of
    /// moved pages to be placed.
    pub(crate) fn needs_collection(&self, group: u32, gained: usize, has_rest: bool) -> bool {
        self.layer().needs_collection(group, gained, has_rest)
    }

    /// Whether a group takes no unit of the host before superblocks are free.
    pub(crate) fn is_low(&self, group: u32) -> bool {
        self.layer().is_low(group)
    }

    /// Pages of the smallest unit of the host.
    pub(crate) fn least_unit_pages(&self) -> usize {
        self.layer().slc.as_ref().map_or(self.unit_pages(), |region| region.unit_pages as usize)
    }

    /// Pages of a program unit; 1 for the reference drive.
    pub(crate) fn unit_pages(&self) -> usize {
        self.translation.as_ref().map_or(1, |layer| layer.unit_pages as usize)
    }

    /// The next valid page of a superblock from an offset on, which moves behind it.
    pub(crate) fn next_valid(&self, superblock: u32, offset: &mut u32) -> Option<u32> {
        let layer = self.layer();
        let next = layer.next_valid(superblock, *offset);
        *offset = next.map_or(layer.superblock_pages, |physical| physical - superblock * layer.superblock_pages + 1);
        next
    }
}
