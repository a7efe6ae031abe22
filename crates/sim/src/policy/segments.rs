//! Pages in several queues, of which two hold pages and the others only remember their numbers: what
//! `s3-fifo` and `arc` share.

use super::{DestageTargets, Page, destage::SEARCH_PAGES, list::Lists, slots::Slots};

/// The first queue that only remembers numbers.
const GHOSTS: u8 = 2;

/// Queues of page numbers that share a fixed number of slots; a page is in one of them at most.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Segments {
    slots: Slots,
    lists: Lists,
    /// The queue of each taken slot.
    queues: Box<[u8]>,
    lengths: Box<[usize]>,
}

impl Segments {
    /// `queues` empty queues that share `slots`.
    pub(super) fn new(slots: usize, queues: u8) -> Self {
        Self {
            slots: Slots::new(slots),
            lists: Lists::new(slots, queues.into()),
            queues: vec![0; slots].into_boxed_slice(),
            lengths: vec![0; queues.into()].into_boxed_slice(),
        }
    }

    /// The slot of a page, and the queue in which it is.
    #[inline]
    pub(super) fn find(&self, page: Page) -> Option<(u32, u8)> {
        let slot = self.slots.find(page)?;
        Some((slot, self.queues[slot as usize]))
    }

    /// The slot of a page that is held.
    #[inline]
    pub(super) fn find_held(&self, page: Page) -> Option<u32> {
        self.find(page).filter(|&(_, queue)| queue < GHOSTS).map(|(slot, _)| slot)
    }

    /// Pages that are held.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.lengths[0] + self.lengths[1]
    }

    /// Takes a page out, if it is held.
    pub(super) fn discard(&mut self, page: Page) -> bool {
        let found = self.find_held(page);
        if let Some(slot) = found {
            self.remove(slot);
        }
        found.is_some()
    }

    /// The page in a taken slot.
    #[inline]
    pub(super) fn page(&self, slot: u32) -> Page {
        self.slots.key(slot)
    }

    #[inline]
    pub(super) fn len(&self, queue: u8) -> usize {
        self.lengths[queue as usize]
    }

    /// The oldest slot of a queue.
    #[inline]
    pub(super) fn oldest(&self, queue: u8) -> Option<u32> {
        self.lists.back(queue.into())
    }

    /// The oldest slot of a queue whose page goes to a ready element, of those that are looked at.
    pub(super) fn oldest_ready(&self, queue: u8, targets: &DestageTargets<'_>) -> Option<u32> {
        let mut slots = self.lists.oldest_first(queue.into()).take(SEARCH_PAGES);
        slots.find(|&slot| targets.accepts(self.slots.key(slot)))
    }

    /// Puts a page that is in no queue at the front of one. `None`: no slot is free.
    #[inline]
    pub(super) fn insert(&mut self, page: Page, queue: u8) -> Option<u32> {
        let slot = self.slots.insert(page)?;
        self.lists.push_front(queue.into(), slot);
        self.queues[slot as usize] = queue;
        self.lengths[queue as usize] += 1;
        Some(slot)
    }

    /// Moves a taken slot to the front of a queue.
    #[inline]
    pub(super) fn renew(&mut self, slot: u32, queue: u8) {
        let before = std::mem::replace(&mut self.queues[slot as usize], queue);
        self.lengths[before as usize] -= 1;
        self.lengths[queue as usize] += 1;
        self.lists.renew(queue.into(), slot);
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        self.lists.unlink(slot);
        self.lengths[self.queues[slot as usize] as usize] -= 1;
        self.slots.remove(slot);
    }
}
