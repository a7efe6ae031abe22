//! Requests as the engine sees them: to be issued, and in flight.

use ioassay_block::Kind;

use crate::policy::Page;

/// A request as the drive sees it, in its own pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct DriveRequest {
    /// Time of issue, in an open loop.
    pub at_ps: u64,
    pub first: Page,
    pub pages: u32,
    pub sectors: u32,
    /// Sectors of the first page in front of it.
    pub skip: u32,
    pub kind: Kind,
    /// A write that bypasses the buffer: it completes when it is programmed.
    pub bypass: bool,
    /// The number of its flow. Flows are not saved.
    #[serde(skip)]
    pub flow: u16,
}

impl DriveRequest {
    /// Sectors that it covers of its page number `index`.
    pub fn sectors_of(&self, index: u32, page_sectors: u32) -> u32 {
        let begin = if index == 0 { self.skip } else { 0 };
        let behind = u64::from(self.skip) + u64::from(self.sectors);
        let end = behind.saturating_sub(u64::from(index) * u64::from(page_sectors));
        (end.min(u64::from(page_sectors)) as u32).saturating_sub(begin)
    }
}

/// A request that is issued and not complete.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(in crate::engine) struct InFlight {
    pub request: DriveRequest,
    pub issued_ps: u64,
    /// When it left the host's queue.
    pub dispatched_ps: u64,
    /// Pages, or transfers, that are not done yet.
    pub parts: u32,
}

/// Requests in flight by small numbers, which are reused.
#[derive(Default, serde::Serialize, serde::Deserialize)]
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
