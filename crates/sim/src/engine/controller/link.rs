//! The link to the host, first come, first served.

use crate::drive::{Controller, Spec};
use crate::engine::timers::after;

pub(super) struct Link {
    /// When each direction is free; one that is not duplex uses the first only.
    pub free_ps: [u64; 2],
    ps_per_sector: u64,
    to_host: usize,
}

impl Link {
    pub fn new(spec: &Spec, controller: &Controller) -> Self {
        Self {
            free_ps: [0; 2],
            ps_per_sector: controller.link_ps_per_sector.unwrap_or(spec.channel_ps_per_sector),
            to_host: usize::from(controller.link_duplex),
        }
    }

    /// When data from the host that are ready now have crossed.
    #[inline]
    pub fn receive(&mut self, now_ps: u64, sectors: u32) -> u64 {
        self.reserve(0, now_ps, sectors)
    }

    /// When data to the host that are ready now have crossed.
    #[inline]
    pub fn send(&mut self, now_ps: u64, sectors: u32) -> u64 {
        self.reserve(self.to_host, now_ps, sectors)
    }

    #[inline]
    fn reserve(&mut self, direction: usize, now_ps: u64, sectors: u32) -> u64 {
        let free_ps = &mut self.free_ps[direction];
        let took_ps = u64::from(sectors) * self.ps_per_sector;
        *free_ps = after(now_ps.max(*free_ps), took_ps);
        *free_ps
    }
}
