//! A write buffer inside the drive: a write completes when its pages have slots there.
//!
//! An evicted page keeps its slot until it is programmed. So a write waits while all slots are taken,
//! by pages held and by pages being programmed; waiting writes are served in order. A waiting page
//! already belongs to the policy, which has chosen the victim for it.

use std::collections::{BTreeMap, VecDeque};

use super::tally::Tally;
use super::write_behind::Destager;
use super::{BufferMode, WriteBuffer};
use crate::policy::{Access, Action, DriveState, Eviction, Page, Policy};
use crate::state::Stored;

/// A written page that has no slot yet.
#[derive(serde::Serialize, serde::Deserialize)]
struct WaitingWrite {
    request: u32,
    page: Page,
    /// Whether it overwrites a page that waits too, and shares that page's slot.
    overwrite: bool,
}

pub(super) struct InlineBuffer {
    policy: Box<dyn Policy + Send>,
    pub pad_reads: bool,
    destager: Option<Destager>,
    /// Pages that are being programmed, each with the number of its copies under way.
    programming: BTreeMap<Page, u32>,
    programming_pages: usize,
    /// Written pages without a slot, in order of arrival.
    waiting: VecDeque<WaitingWrite>,
    /// Slots that waiting pages need; an overwrite needs none of its own.
    missing_slots: usize,
    /// Evictions that the caller has to issue.
    pub evicted: Vec<Eviction>,
}

impl InlineBuffer {
    pub fn new(buffer: WriteBuffer) -> Self {
        Self {
            policy: buffer.policy,
            pad_reads: buffer.pad_reads,
            destager: buffer.destager,
            programming: BTreeMap::new(),
            programming_pages: 0,
            waiting: VecDeque::new(),
            missing_slots: 0,
            evicted: Vec::new(),
        }
    }

    /// The buffer with its pages.
    pub fn into_buffer(self) -> WriteBuffer {
        WriteBuffer {
            policy: self.policy,
            mode: BufferMode::Inline,
            pad_reads: self.pad_reads,
            destager: self.destager,
        }
    }

    /// All of its state, in the order in which it is saved.
    pub fn parts(&mut self) -> [&mut dyn Stored; 7] {
        [
            &mut *self.policy,
            &mut self.destager,
            &mut self.programming,
            &mut self.programming_pages,
            &mut self.waiting,
            &mut self.missing_slots,
            &mut self.evicted,
        ]
    }

    /// The clock begins at 0, with nothing in progress.
    pub fn begin(&mut self, service_ps: u64) {
        self.policy.begin(service_ps);
    }

    pub fn held_pages(&self) -> u64 {
        self.policy.len() as u64
    }

    pub fn capacity_pages(&self) -> u64 {
        self.policy.capacity() as u64
    }

    /// A page of a request is written. Returns true for a hit, which needs no slot; any other page
    /// waits until `pop_placed` returns its request.
    pub fn write(&mut self, request: u32, page: Page, drive_state: &DriveState<'_>, tally: &mut Tally) -> bool {
        tally.buffered_writes += 1;
        let before = self.evicted.len();
        let access = self.policy.write(page, drive_state, &mut self.evicted);
        if access == Access::Hit {
            tally.write_hits += 1;
            if !self.waiting.iter().any(|waiting| waiting.page == page) {
                return true;
            }
        }
        self.start_programming(before, tally);
        let overwrite = access == Access::Hit;
        self.missing_slots += usize::from(!overwrite);
        self.waiting.push_back(WaitingWrite { request, page, overwrite });
        false
    }

    /// Lets the policy evict ahead of need, as far as the watermarks and the elements allow.
    #[inline]
    pub fn destage(&mut self, drive_state: &DriveState<'_>, tally: &mut Tally) {
        let held = self.policy.len();
        let evicted = &self.evicted;
        let Some(destager) = &mut self.destager else {
            return;
        };
        if destager.begin(held, drive_state, evicted) {
            self.destage_pages(drive_state, tally);
        }
    }

    fn destage_pages(&mut self, drive_state: &DriveState<'_>, tally: &mut Tally) {
        while let Some(destager) = &mut self.destager {
            if !destager.wants_page(self.policy.len()) {
                return;
            }
            let before = self.evicted.len();
            let targets = destager.targets(drive_state);
            if !self.policy.destage(&targets, &mut self.evicted) {
                return;
            }
            self.start_programming(before, tally);
        }
    }

    pub fn drain(&mut self, tally: &mut Tally) {
        let before = self.evicted.len();
        self.policy.drain(&mut self.evicted);
        self.start_programming(before, tally);
    }

    fn start_programming(&mut self, from: usize, tally: &mut Tally) {
        for eviction in &self.evicted[from..] {
            tally.count_eviction(eviction);
            if eviction.action == Action::Write {
                self.programming_pages += eviction.pages as usize;
                for page in eviction.first..eviction.first + eviction.pages {
                    *self.programming.entry(page).or_default() += 1;
                    if let Some(destager) = &mut self.destager {
                        destager.on_evicted(page);
                    }
                }
            }
        }
    }

    /// An evicted page is programmed.
    pub fn on_programmed(&mut self, page: Page) {
        if let Some(times) = self.programming.get_mut(&page) {
            self.programming_pages -= 1;
            if let Some(destager) = &mut self.destager {
                destager.on_programmed(page);
            }
            *times -= 1;
            if *times == 0 {
                self.programming.remove(&page);
            }
        }
    }

    /// The request of the page that has waited longest, if that page has a slot now.
    pub fn pop_placed(&mut self) -> Option<u32> {
        let first = self.waiting.front()?;
        if !first.overwrite {
            let placed = (self.policy.len() + self.programming_pages).saturating_sub(self.missing_slots);
            if placed >= self.policy.capacity() {
                return None;
            }
            self.missing_slots -= 1;
        }
        self.waiting.pop_front().map(|waiting| waiting.request)
    }

    /// Counts the read of a page; returns true if the buffer serves it.
    pub fn read(&mut self, page: Page, tally: &mut Tally) -> bool {
        let hit = self.contains(page);
        tally.buffered_reads += 1;
        tally.read_hits += u64::from(hit);
        hit
    }

    /// Discards a page; returns true if the buffer held it.
    pub fn discard(&mut self, page: Page) -> bool {
        self.policy.discard(page)
    }

    /// Whether the buffer can serve a read of the page. Counts nothing.
    pub fn contains(&self, page: Page) -> bool {
        self.policy.holds(page) || self.programming.contains_key(&page)
    }

    /// Power loss: all content is gone, unwritten.
    pub fn clear(&mut self) {
        self.policy.drain(&mut self.evicted);
        self.evicted.clear();
        self.programming.clear();
        self.programming_pages = 0;
        self.waiting.clear();
        self.missing_slots = 0;
        if let Some(destager) = &mut self.destager {
            destager.clear();
        }
    }
}
