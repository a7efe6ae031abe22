//! The SLC region of a drive with a controller: superblocks that hold one bit a cell, and the choice of those to fold.
//!
//! A superblock in SLC mode has fewer pages, in program units of its own size, in the same order as others. The host's
//! pages go there as long as one is free. The region is either set apart from the over-provisioned space, or takes free
//! superblocks while there are more than garbage collection begins at. Nothing here takes time.

use super::Drive;
use super::controller::Folding;
use super::slc_region::{Gained, SlcRegion};
use super::translation::{HOST, SLC, State, Superblock, Translation};

impl Translation {
    /// Whether a superblock is set apart for the region.
    pub(super) fn is_apart(&self, superblock: &Superblock) -> bool {
        superblock.slc && self.slc.as_ref().is_some_and(SlcRegion::is_apart)
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
                most.min(region.superblocks.saturating_sub(group.slc.used - gained.slc))
            }
            Some(_) => group.slc.free.len() as u32 + gained.slc,
            None => 0,
        }
    }

    /// The stream of the host's next unit; `None` when it waits for room in the region.
    pub(super) fn host_stream(&self, group: u32) -> Option<usize> {
        let Some(region) = &self.slc else {
            return Some(HOST);
        };
        let slc = &self.groups[group as usize].open[SLC];
        if slc.is_some() || self.slc_free(group, Gained::default()) > 0 {
            return Some(SLC);
        }
        let used = self.groups[group as usize].slc.used;
        (region.folding == Folding::Idle || used == 0).then_some(HOST)
    }

    /// Whether folding goes on in a group: the host is idle, or the region is full and no superblock
    /// of it will be free.
    fn folds(&self, group: u32, gained: Gained, idle: bool) -> bool {
        self.slc.as_ref().is_some_and(|region| {
            let when_idle = region.folding != Folding::Full;
            let when_full = region.folding != Folding::Idle;
            !self.is_low(group) && ((idle && when_idle) || (when_full && self.slc_free(group, gained) == 0))
        })
    }

    /// The superblock of the region that was opened first and can be folded.
    fn oldest_slc(&self, group: u32) -> Option<u32> {
        let first = group * self.group_superblocks;
        let sealed = (first..first + self.group_superblocks).filter(|&number| {
            let superblock = &self.superblocks[number as usize];
            superblock.slc && superblock.state == State::Sealed
        });
        sealed.min_by_key(|&number| self.superblocks[number as usize].opened)
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
    /// The superblocks that become free by the erasure of one.
    pub(crate) fn gain_of(&self, superblock: u32) -> Gained {
        self.layer().gain_of(superblock)
    }

    /// Whether folding in progress goes on in a group, with what it gains.
    pub(crate) fn folds(&self, group: u32, gained: Gained, idle: bool) -> bool {
        self.layer().folds(group, gained, idle)
    }

    /// Whether a superblock of a group is to be folded.
    pub(crate) fn needs_folding(&self, group: u32, gained: Gained, idle: bool) -> bool {
        let layer = self.layer();
        layer.groups[group as usize].slc.sealed > 0 && layer.folds(group, gained, idle)
    }

    /// Takes the superblock of a group that is folded next.
    pub(crate) fn take_folded(&mut self, group: u32) -> Option<u32> {
        let oldest = self.layer().oldest_slc(group)?;
        self.layer_mut().begin_collection(oldest);
        Some(oldest)
    }

    /// Whether the host waits until a superblock of the region is free.
    pub(crate) fn waits_for_folding(&self, group: u32) -> bool {
        self.layer().host_stream(group).is_none()
    }

    /// Gives up the collection of a superblock.
    pub(crate) fn release_victim(&mut self, superblock: u32) {
        self.layer_mut().release_victim(superblock);
    }

    /// Share of the SLC region that can be written now; `None` without a region.
    pub fn slc_free_share(&self) -> Option<f64> {
        let (most, free) = self.translation.as_ref()?.slc_pages()?;
        Some(free as f64 / most as f64)
    }
}
