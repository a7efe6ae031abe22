//! The times of the operations of an element, from the times of the specification.

use super::spec::{SECTOR_BYTES, Spec};

#[derive(Clone)]
pub(super) struct Costs {
    read: u64,
    transfer_per_sector: u64,
    /// A page crosses the pins.
    pub transfer: u64,
    /// A page crosses the pins and is programmed.
    pub write: u64,
    /// The summary page is programmed; a sector of it crosses the pins.
    pub summary: u64,
    pub erase: u64,
    /// A page is read and programmed again within its plane.
    pub move_within: u64,
    /// A page is read and programmed again in another plane, over the pins both ways.
    pub move_across: u64,
}

impl Costs {
    pub fn of(spec: &Spec) -> Self {
        let bytes_per_sector = u64::from(SECTOR_BYTES + spec.spare_bytes_per_sector);
        let transfer_per_sector = bytes_per_sector * spec.transfer_ps_per_byte;
        let transfer = transfer_per_sector * u64::from(spec.page_sectors());
        Self {
            read: spec.read_ps,
            transfer_per_sector,
            transfer,
            write: transfer + spec.program_ps,
            summary: transfer_per_sector + spec.program_ps,
            erase: spec.erase_ps,
            move_within: spec.read_ps + spec.program_ps,
            move_across: spec.read_ps + spec.program_ps + 2 * transfer,
        }
    }

    /// Time in which `sectors` cross the pins.
    pub fn transfer_ps(&self, sectors: u32) -> u64 {
        self.transfer_per_sector * u64::from(sectors)
    }

    #[inline]
    pub fn read_ps(&self, sectors: u32) -> u64 {
        self.read + self.transfer_per_sector * u64::from(sectors)
    }
}

impl Spec {
    /// Average time of a page write at its element, without garbage collection, picoseconds.
    pub fn mean_write_ps(&self) -> u64 {
        let costs = Costs::of(self);
        if let Some(controller) = &self.controller {
            return costs.transfer + self.program_ps / u64::from(controller.unit_pages(self));
        }
        costs.write + costs.summary / u64::from(self.data_pages())
    }
}
