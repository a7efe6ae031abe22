//! A write buffer inside the drive: a page that is written completes when it has a place there.
//!
//! A page that leaves keeps its place until flash has it. So a write waits while all places are
//! taken, by pages held and by pages that are being programmed; those that wait are served in the
//! order in which they came. A page that waits already belongs to the policy, which has decided
//! what leaves for it.

use std::collections::{BTreeMap, VecDeque};

use super::WriteBuffer;
use super::tally::Tally;
use crate::policy::{Access, Action, Eviction, Outlook, Page, Policy};

/// A written page that has no place yet.
struct Waiting {
    request: u32,
    page: Page,
    /// Whether it is written again, and has the place of the one before it.
    again: bool,
}

pub(super) struct Buffer {
    policy: Box<dyn Policy + Send>,
    pub pad_reads: bool,
    /// Pages that are being programmed, and how often at once.
    leaving: BTreeMap<Page, u32>,
    leaving_pages: usize,
    /// Written pages that have no place yet, in the order in which they came.
    waiting: VecDeque<Waiting>,
    /// Places that they lack: one written again meanwhile lacks no second one.
    lacking: usize,
    /// What is to be carried out: the caller takes it.
    pub evicted: Vec<Eviction>,
}

impl Buffer {
    pub fn new(buffer: WriteBuffer) -> Self {
        Self {
            policy: buffer.policy,
            pad_reads: buffer.pad_reads,
            leaving: BTreeMap::new(),
            leaving_pages: 0,
            waiting: VecDeque::new(),
            lacking: 0,
            evicted: Vec::new(),
        }
    }

    pub fn watches_elements(&self) -> bool {
        self.policy.watches_elements()
    }

    pub fn held(&self) -> u64 {
        self.policy.len() as u64
    }

    pub fn capacity(&self) -> u64 {
        self.policy.capacity() as u64
    }

    /// A page of a request is written. It waits for its place, if only until `settled` is asked;
    /// one that is already there needs none, and true is returned.
    pub fn write(
        &mut self,
        request: u32,
        page: Page,
        outlook: &Outlook<'_>,
        tally: &mut Tally,
    ) -> bool {
        tally.buffered_writes += 1;
        let before = self.evicted.len();
        let access = self.policy.write(page, outlook, &mut self.evicted);
        if access == Access::Hit {
            tally.write_hits += 1;
            if !self.waiting.iter().any(|waiting| waiting.page == page) {
                return true;
            }
        }
        self.depart(before, tally);
        let again = access == Access::Hit;
        self.lacking += usize::from(!again);
        self.waiting.push_back(Waiting {
            request,
            page,
            again,
        });
        false
    }

    /// Evicts ahead of need, if the policy wants to.
    pub fn write_back(&mut self, outlook: &Outlook<'_>, tally: &mut Tally) {
        let before = self.evicted.len();
        self.policy.write_back(outlook, &mut self.evicted);
        self.depart(before, tally);
    }

    /// Evicts all.
    pub fn drain(&mut self, tally: &mut Tally) {
        let before = self.evicted.len();
        self.policy.drain(&mut self.evicted);
        self.depart(before, tally);
    }

    fn depart(&mut self, from: usize, tally: &mut Tally) {
        for eviction in &self.evicted[from..] {
            tally.count_eviction(eviction);
            if eviction.action == Action::Write {
                self.leaving_pages += eviction.pages as usize;
                for page in eviction.first..eviction.first + eviction.pages {
                    *self.leaving.entry(page).or_default() += 1;
                }
            }
        }
    }

    /// Flash has a page that left.
    pub fn departed(&mut self, page: Page) {
        if let Some(times) = self.leaving.get_mut(&page) {
            self.leaving_pages -= 1;
            *times -= 1;
            if *times == 0 {
                self.leaving.remove(&page);
            }
        }
    }

    /// The request whose page has waited longest and now has a place, if there is one.
    pub fn settled(&mut self) -> Option<u32> {
        let first = self.waiting.front()?;
        if !first.again {
            let placed = (self.policy.len() + self.leaving_pages).saturating_sub(self.lacking);
            if placed >= self.policy.capacity() {
                return None;
            }
            self.lacking -= 1;
        }
        self.waiting.pop_front().map(|waiting| waiting.request)
    }

    /// Whether a read needs no flash.
    pub fn read(&mut self, page: Page, tally: &mut Tally) -> bool {
        self.policy.read(page);
        let hit = self.has(page);
        tally.buffered_reads += 1;
        tally.read_hits += u64::from(hit);
        hit
    }

    /// Whether it was there.
    pub fn discard(&mut self, page: Page) -> bool {
        self.policy.discard(page)
    }

    /// Whether a read needs no flash; counts nothing.
    pub fn has(&self, page: Page) -> bool {
        self.policy.holds(page) || self.leaving.contains_key(&page)
    }

    /// All is gone, unwritten.
    pub fn forget(&mut self) {
        self.policy.drain(&mut self.evicted);
        self.evicted.clear();
        self.leaving.clear();
        self.leaving_pages = 0;
        self.waiting.clear();
        self.lacking = 0;
    }
}
