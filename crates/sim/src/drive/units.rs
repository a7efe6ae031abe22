//! A drive with a controller: program units are written, superblocks collected, reads located.

use super::Drive;
use super::translation::{HOST, Position, Translation, UnitPlace};
use crate::Error;
use crate::policy::Page;

impl Drive {
    /// The flash translation layer of a drive that has one: the caller serves drives with a controller alone.
    pub(crate) fn layer(&self) -> &Translation {
        self.translation.as_ref().expect("a drive with a controller")
    }

    pub(crate) fn layer_mut(&mut self) -> &mut Translation {
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
        let layer = self.layer_mut();
        let stream = layer.host_stream(layer.group_of(element))?;
        self.write_to(element, stream, pages)
    }

    fn write_to(&mut self, element: u32, stream: usize, pages: &[Page]) -> Option<UnitPlace> {
        let layer = self.layer_mut();
        let unit = layer.next_unit(element, stream)?;
        for (&page, physical) in pages.iter().zip(unit.first..) {
            layer.write(page, physical);
        }
        let counters = &mut self.elements[element as usize].counters;
        counters.written_pages += pages.len() as u64;
        counters.slc_pages += if unit.slc { pages.len() as u64 } else { 0 };
        Some(UnitPlace { pages: pages.len() as u32, ..unit })
    }

    /// Moves what is still valid at physical pages to the next unit of an element of the group; `None` without a place.
    pub(crate) fn move_unit(&mut self, group: u32, sources: &[u32]) -> Option<UnitPlace> {
        let layer = self.layer_mut();
        let element = layer.element_for_moved(group)?;
        let unit = layer.next_unit(element, layer.moved_stream)?;
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
        Some(UnitPlace { pages: moved, ..unit })
    }

    /// Takes a group's best superblock as its victim.
    pub(crate) fn take_victim(&mut self, group: u32) -> Result<u32, Error> {
        let element = group * self.layer().span;
        self.layer_mut().take_victim(group).ok_or_else(|| self.worn_out(element))
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
        let elements = self.shape.spec.elements;
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
            self.write_to(element, HOST, unit);
        }
        Ok(true)
    }

    /// Collects garbage in a group until it is no longer low.
    fn collect_untimed(&mut self, group: u32) -> Result<(), Error> {
        let mut read: Vec<u32> = Vec::new();
        let mut emptied: Vec<u32> = Vec::new();
        while self.layer().needs_collection(group, emptied.len(), !read.is_empty()) {
            let victim = self.take_victim(group)?;
            let mut offset = 0;
            while let Some(physical) = self.layer().next_valid(victim, &mut offset) {
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

    /// Pages of the smallest unit of the host.
    pub(crate) fn least_unit_pages(&self) -> usize {
        self.layer().slc.as_ref().map_or(self.unit_pages(), |region| region.unit_pages as usize)
    }

    /// Pages of a program unit; 1 for the reference drive.
    pub(crate) fn unit_pages(&self) -> usize {
        self.translation.as_ref().map_or(1, |layer| layer.unit_pages as usize)
    }
}
