//! The layout of the one region with registers, BAR 0, and the page of it that the client maps.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use super::mapping::Mapping;

/// I/O queues of a controller.
pub const MOST_QUEUES: u16 = 32;

/// Where doorbells are: the page that is shared.
pub const DOORBELLS_AT: usize = 0x1000;
pub const DOORBELLS_BYTES: usize = 0x1000;
/// Where the table of interrupt vectors is. It is kept and not used: interrupts are descriptors.
pub const VECTOR_TABLE_AT: usize = 0x2000;
/// Where the bits of pending interrupts are, which are never set.
pub const PENDING_BITS_AT: usize = 0x3000;
pub const BAR_BYTES: usize = 0x4000;

/// Registers of a controller that lies on a bus (NVM Express Base Specification 2.0, section 3.1.3).
pub mod register {
    pub const INTMS: usize = 0x0c;
    pub const INTMC: usize = 0x10;
    pub const CC: usize = 0x14;
    pub const AQA: usize = 0x24;
    pub const ASQ: usize = 0x28;
    pub const ACQ: usize = 0x30;
    pub const END: usize = 0x40;

    /// Those that keep what hosts write, and which of their bits: queues begin with a page.
    pub const KEPT: [(usize, u32); 5] =
        [(AQA, 0x0fff_0fff), (ASQ, !0xfff), (ASQ + 4, !0), (ACQ, !0xfff), (ACQ + 4, !0)];
}

/// The doorbells: a page that the client maps, or writes by messages. Every client gets a new one, so that
/// none can ring those of a later one.
#[derive(Debug)]
pub struct Doorbells {
    pub file: OwnedFd,
    pub page: Mapping,
}

impl Doorbells {
    pub fn new() -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("ioassay-doorbells", flags)?;
        // Clients map it where it is in the region.
        rustix::fs::ftruncate(&file, (DOORBELLS_AT + DOORBELLS_BYTES) as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let page = Mapping::new(&file, DOORBELLS_AT as u64, DOORBELLS_BYTES as u64, true)?;
        Ok(Self { file, page })
    }

    /// How far a client filled a submission queue.
    pub fn tail(&self, queue: u16) -> u32 {
        self.page.load(tail_at(queue)).unwrap_or(0)
    }

    /// How far a client read a completion queue.
    pub fn head(&self, queue: u16) -> u32 {
        self.page.load(head_at(queue)).unwrap_or(0)
    }
}

/// Where the doorbell of a submission queue is in the page, and that of a completion queue.
pub fn tail_at(queue: u16) -> usize {
    8 * usize::from(queue)
}

pub fn head_at(queue: u16) -> usize {
    tail_at(queue) + 4
}
