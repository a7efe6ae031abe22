//! The SLC region of a drive with a controller: superblocks that hold one bit a cell, and the choice of those to fold.
//!
//! A superblock in SLC mode has fewer pages, in program units of its own size, in the same order as others. The host's
//! pages go there as long as one is free. The region is either set apart from the over-provisioned space, or takes free
//! superblocks while there are more than garbage collection begins at. Nothing here takes time.

use super::Drive;
use super::controller::Folding;
use super::translation::{Gained, HOST, SLC, State, Superblock, Translation};

impl Translation {
    /// Whether a superblock is set apart for the region.
    pub(super) fn is_apart(&self, superblock: &Superblock) -> bool {
        superblock.slc && self.slc.as_ref().is_some_and(|region| !region.dynamic)
    }

    /// The superblocks that become free by the erasure of one.
    pub fn gain_of(&self, superblock: u32) -> Gained {
        let entry = &self.superblocks[superblock as usize];
        Gained { free: u32::from(!self.is_apart(entry)), slc: u32::from(entry.slc) }
    }

    /// Superblocks of a group that can be opened in SLC mode, with those that it gains.
    pub(super) fn slc_free(&self, group: u32, gained: Gained) -> u32 {
        let group = &self.groups[group as usize];
        match &self.slc {
            Some(region) if region.dynamic => {
                let free = group.free.len() as u32 + gained.free;
                let most = free.saturating_sub(self.background as u32 + 1);
                most.min(region.superblocks.saturating_sub(group.slc_used - gained.slc))
            }
            Some(_) => group.slc_free.len() as u32 + gained.slc,
            None => 0,
        }
    }

    /// The stream of the host's next unit; `None` when it waits for room in the region.
    pub fn host_stream(&self, group: u32) -> Option<usize> {
        let Some(region) = &self.slc else {
            return Some(HOST);
        };
        let slc = &self.groups[group as usize].open[SLC];
        if slc.is_some() || self.slc_free(group, Gained::default()) > 0 {
            return Some(SLC);
        }
        let used = self.groups[group as usize].slc_used;
        (region.folding == Folding::Idle || used == 0).then_some(HOST)
    }

    /// Whether the host's next unit goes to the region.
    pub fn writes_to_slc(&self, group: u32) -> bool {
        self.host_stream(group) == Some(SLC)
    }

    /// Whether folding goes on in a group: the host is idle, or the region is full and no superblock
    /// of it will be free.
    pub fn folds(&self, group: u32, gained: Gained, idle: bool) -> bool {
        self.slc.as_ref().is_some_and(|region| {
            let when_idle = region.folding != Folding::Full;
            let when_full = region.folding != Folding::Idle;
            !self.is_low(group) && ((idle && when_idle) || (when_full && self.slc_free(group, gained) == 0))
        })
    }

    /// Whether a superblock of a group is to be folded.
    pub fn needs_folding(&self, group: u32, gained: Gained, idle: bool) -> bool {
        self.groups[group as usize].slc_sealed > 0 && self.folds(group, gained, idle)
    }

    /// Takes the superblock of a group that is folded next: of those of the region that can be, the one that was
    /// opened first.
    pub fn take_folded(&mut self, group: u32) -> Option<u32> {
        let first = group * self.group_superblocks;
        let sealed = (first..first + self.group_superblocks).filter(|&number| {
            let superblock = &self.superblocks[number as usize];
            superblock.slc && superblock.state == State::Sealed
        });
        let oldest = sealed.min_by_key(|&number| self.superblocks[number as usize].opened)?;
        self.begin_collection(oldest);
        Some(oldest)
    }

    /// Pages of the region, at most, and those of them that can be written now.
    fn slc_pages(&self) -> Option<(u64, u64)> {
        let region = self.slc.as_ref()?;
        let superblock = u64::from(region.rows * self.span * region.unit_pages);
        let free = (0..).zip(&self.groups).map(|(number, group)| {
            let open = group.open[SLC].as_ref();
            let units = open.map_or(0, |open| open.units_left);
            u64::from(self.slc_free(number, Gained::default())) * superblock + u64::from(units * region.unit_pages)
        });
        let most = u64::from(region.superblocks) * superblock * self.groups.len() as u64;
        Some((most, free.sum()))
    }
}

impl Drive {
    /// Share of the SLC region that can be written now; `None` without a region.
    pub fn slc_free_share(&self) -> Option<f64> {
        let (most, free) = self.translation.as_ref()?.slc_pages()?;
        Some(free as f64 / most as f64)
    }
}
