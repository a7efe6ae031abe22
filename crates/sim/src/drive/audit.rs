//! A consistency check of the tables and counters of a drive. Only tests and fuzz targets call it; it changes nothing.

use super::Drive;
use super::element::{Element, Plane, State};
use super::shape::Shape;
use super::translation::{Group, State as SuperblockState, Superblock, Translation};

impl Drive {
    /// Checks that every logical page that is not discarded has a physical page of its own, and that
    /// all counters agree with the tables.
    #[doc(hidden)]
    pub fn audit(&self) -> Result<(), String> {
        if let Some(translation) = &self.translation {
            return translation.audit();
        }
        for (number, element) in (0..).zip(&self.elements) {
            element.audit(&self.shape).map_err(|fault| format!("element {number}: {fault}"))?;
        }
        Ok(())
    }

    /// Element and physical page of a logical page; `None` for a discarded page.
    #[doc(hidden)]
    pub fn physical_page(&self, page: u32) -> Option<(u32, u32)> {
        if let Some(translation) = &self.translation {
            let physical = translation.physical(page)?;
            return Some((translation.position(physical).element, physical));
        }
        let place = self.place(page);
        Some((place.element, self.elements[place.element as usize].physical_page(&self.shape, place.local)?))
    }
}

fn same<T: Copy + PartialEq + std::fmt::Display>(what: &str, recorded: T, counted: T) -> Result<(), String> {
    if recorded == counted {
        return Ok(());
    }
    Err(format!("{what}: {recorded} in the tables, {counted} counted"))
}

impl Element {
    fn audit(&self, shape: &Shape) -> Result<(), String> {
        self.audit_pages(shape)?;
        for number in 0..shape.spec.planes {
            self.audit_plane(shape, number).map_err(|fault| format!("plane {number}: {fault}"))?;
        }
        self.audit_erases(shape)?;
        let low = |plane: &&Plane| plane.free_blocks <= shape.low;
        let counted = self.planes.iter().filter(low).count();
        same("low planes", self.low_planes as usize, counted)
    }

    /// Checks that both tables agree for every page, so that no two pages share a physical page.
    fn audit_pages(&self, shape: &Shape) -> Result<(), String> {
        let mut valid = vec![0_u16; self.blocks.len()];
        for local in 0..shape.local_pages {
            let Some(physical) = self.physical_page(shape, local) else {
                continue;
            };
            let block = shape.block_of(physical);
            let position = physical - block * shape.spec.pages_per_block;
            if block >= shape.blocks() || position >= shape.data_pages {
                return Err(format!("page {local} at {physical}, which holds no data"));
            }
            same("owner of a page", self.logical_page(shape, physical), local)?;
            let plane = &self.planes[shape.plane_of(block) as usize];
            let written = match self.blocks[block as usize].state {
                State::Free | State::Dead => false,
                State::Open => plane.open_block == block && position < plane.position,
                State::Sealed | State::Pinned => true,
            };
            if !written {
                return Err(format!("page {local} at {physical}, which is not written"));
            }
            valid[block as usize] += 1;
        }
        for (block, &counted) in self.blocks.iter().zip(&valid) {
            same("valid pages of a block", block.valid, counted)?;
        }
        Ok(())
    }

    fn audit_plane(&self, shape: &Shape, number: u32) -> Result<(), String> {
        let plane = &self.planes[number as usize];
        let rows = number * shape.spec.blocks_per_plane..(number + 1) * shape.spec.blocks_per_plane;
        let count = |state: State| {
            let of = |block: &u32| self.blocks[*block as usize].state == state;
            rows.clone().filter(of).count()
        };
        same("free blocks", plane.free_blocks as usize, count(State::Free))?;
        let open = usize::from(plane.position < shape.data_pages);
        same("open blocks", open, count(State::Open))?;
        let room = plane.free_blocks * shape.spec.pages_per_block + shape.spec.pages_per_block;
        same("room", plane.room + plane.position, room)?;
        if !rows.contains(&plane.open_block) {
            return Err(format!("its open block is {}", plane.open_block));
        }
        let state = self.blocks[plane.open_block as usize].state;
        if open == 1 && state != State::Open {
            return Err(format!("its open block is {state:?}"));
        }
        Ok(())
    }

    fn audit_erases(&self, shape: &Shape) -> Result<(), String> {
        let erases: u64 = self.erases.iter().map(|&erases| u64::from(erases)).sum();
        same("erasures", self.counters.erases, erases)?;
        same("cleanings", self.counters.collected_blocks, erases)?;
        let dead = |block: &super::element::Block| block.state == State::Dead;
        let counted = self.blocks.iter().filter(|block| dead(block)).count();
        same("dead blocks", self.counters.dead_blocks as usize, counted)?;
        for (block, &erases) in self.blocks.iter().zip(&self.erases) {
            let worn = shape.spec.endurance > 0 && erases >= shape.spec.endurance;
            same("whether a block is dead", dead(block), worn)?;
            if block.opened > self.opened {
                return Err(format!("a block opened as number {}", block.opened));
            }
        }
        Ok(())
    }
}

impl Translation {
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
            same(&format!("valid pages of superblock {number}"), superblock.valid, counted)?;
            if counted > 0 && matches!(superblock.state, SuperblockState::Free | SuperblockState::Dead) {
                return Err(format!("superblock {number} is erased and holds pages"));
            }
        }
        let per_group = self.group_superblocks as usize;
        let groups = self.groups.iter().zip(self.superblocks.chunks(per_group)).zip(valid.chunks(per_group));
        for (number, ((group, own), valid)) in groups.enumerate() {
            let counted = valid.iter().map(|&valid| u64::from(valid)).sum();
            same("valid pages", group.valid, counted)
                .and_then(|()| self.audit_group(group, own))
                .map_err(|fault| format!("group {number}: {fault}"))?;
        }
        Ok(())
    }

    /// Checks that the superblocks of a group are where their state says, and their number in SLC mode.
    fn audit_group(&self, group: &Group, own: &[Superblock]) -> Result<(), String> {
        let count = |is_such: &dyn Fn(&Superblock) -> bool| own.iter().filter(|each| is_such(each)).count();
        let in_state = |state: SuperblockState| count(&|each| each.state == state);
        let used = |each: &Superblock| !matches!(each.state, SuperblockState::Free | SuperblockState::Dead);
        let sealed = |each: &Superblock| each.slc && each.state == SuperblockState::Sealed;
        same("free superblocks", group.free.len() + group.slc_free.len(), in_state(SuperblockState::Free))?;
        same("open superblocks", group.open.iter().flatten().count(), in_state(SuperblockState::Open))?;
        same("SLC superblocks", group.slc_used as usize, count(&|each| each.slc && used(each)))?;
        same("sealed SLC superblocks", group.slc_sealed as usize, count(&sealed))?;
        let free = |&row: &u32| own.get(row as usize).is_some_and(|each| each.state == SuperblockState::Free);
        if !group.free.iter().chain(&group.slc_free).all(free) {
            return Err("a superblock is listed as free that is not".to_owned());
        }
        let most = self.slc.as_ref().map_or(0, |region| region.rows * region.unit_pages * self.span);
        if own.iter().any(|each| each.slc && each.valid > most) {
            return Err("too many pages in SLC mode".to_owned());
        }
        Ok(())
    }
}
