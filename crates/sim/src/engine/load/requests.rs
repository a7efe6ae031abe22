//! Requests that have been issued and are not complete.

use ioassay_block::Kind;

use crate::policy::Page;

/// A request as the drive sees it, in its own pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fed {
    /// When it is issued, where the feeding goes by the clock.
    pub at_ps: u64,
    pub first: Page,
    pub pages: u32,
    /// Sectors that it moves.
    pub sectors: u32,
    /// Sectors of the first page that lie before it.
    pub skip: u32,
    pub kind: Kind,
    /// Of a write: it passes the buffer by, and completes when flash has it.
    pub through: bool,
}

impl Fed {
    /// How many sectors of its page number `index` it wants.
    pub fn sectors_of(&self, index: u32, page_sectors: u32) -> u32 {
        let begin = if index == 0 { self.skip } else { 0 };
        let behind = u64::from(self.skip) + u64::from(self.sectors);
        let end = behind.saturating_sub(u64::from(index) * u64::from(page_sectors));
        (end.min(u64::from(page_sectors)) as u32).saturating_sub(begin)
    }
}

/// One that is on its way.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct InFlight {
    pub fed: Fed,
    /// When it was issued.
    pub issued_ps: u64,
    /// When it left the host's queue.
    pub dispatched_ps: u64,
    /// Pages, or transfers, that are still to be done.
    pub left: u32,
}

/// Requests under small numbers that are used again.
#[derive(Default)]
pub(in crate::engine) struct Slab {
    entries: Vec<InFlight>,
    free: Vec<u32>,
}

impl Slab {
    #[inline]
    pub fn insert(&mut self, request: InFlight) -> u32 {
        if let Some(id) = self.free.pop() {
            self.entries[id as usize] = request;
            return id;
        }
        self.entries.push(request);
        (self.entries.len() - 1) as u32
    }

    #[inline]
    pub fn get(&mut self, id: u32) -> &mut InFlight {
        &mut self.entries[id as usize]
    }

    #[inline]
    pub fn remove(&mut self, id: u32) -> InFlight {
        self.free.push(id);
        self.entries[id as usize]
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
