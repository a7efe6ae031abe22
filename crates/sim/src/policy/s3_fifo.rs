//! `s3-fifo`: three queues, first in, first out (J. Yang, Y. Zhang, Z. Qiu, Y. Yue, R. Vinayak,
//! "FIFO queues are all you need for cache eviction", SOSP 2023).
//!
//! New pages pass a small queue of a tenth of the buffer. Those that were written twice more there
//! move to the main queue, the others leave, and their numbers are remembered for as long as the main
//! queue has pages. A page that returns while it is remembered goes straight to the main queue. There a
//! page that was written since goes round once more for each write, three times at most.
//!
//! Memory: numbers of nine tenths as many pages as are held; 155 to 280 bytes a page in all.

use super::{Access, DestageTargets, DriveState, Eviction, Page, Policy, Settings, segments::Segments};

const SMALL: u8 = 0;
const MAIN: u8 = 1;
/// Numbers of pages that left the small queue.
const GHOST: u8 = 2;

/// Writes since a page came to its queue are counted up to this number.
const MOST_WRITES: u8 = 3;
/// The number of writes that moves a page from the small queue to the main one.
const ENOUGH_WRITES: u8 = 2;

#[derive(serde::Serialize, serde::Deserialize)]
struct S3Fifo {
    segments: Segments,
    writes: Box<[u8]>,
    capacity: usize,
    /// Pages of the small queue, from which on the victim is one of them.
    small_share: usize,
    ghosts: usize,
}

pub(super) fn make(settings: &Settings) -> Box<dyn Policy + Send> {
    let capacity = settings.capacity_pages;
    let ghosts = capacity * 9 / 10;
    Box::new(S3Fifo {
        segments: Segments::new(capacity + ghosts, 3),
        writes: vec![0; capacity + ghosts].into_boxed_slice(),
        capacity,
        small_share: capacity / 10,
        ghosts,
    })
}

impl S3Fifo {
    /// The queues that are looked at for a victim. What leaves the small one may be in the main one only then.
    fn turn(&self) -> &'static [u8] {
        if self.segments.len(SMALL) >= self.small_share { &[SMALL, MAIN] } else { &[MAIN, SMALL, MAIN] }
    }

    /// Looks at pages of a queue, as `next` names them, until one leaves.
    fn evict(&mut self, queue: u8, next: impl Fn(&Segments) -> Option<u32>, evicted: &mut Vec<Eviction>) -> bool {
        while let Some(slot) = next(&self.segments) {
            let writes = &mut self.writes[slot as usize];
            if queue == MAIN && *writes > 0 {
                *writes -= 1;
                self.segments.renew(slot, MAIN);
            } else if queue == SMALL && *writes >= ENOUGH_WRITES {
                *writes = 0;
                self.segments.renew(slot, MAIN);
            } else {
                evicted.push(Eviction::of(self.segments.page(slot)));
                if queue == SMALL {
                    self.remember(slot);
                } else {
                    self.segments.remove(slot);
                }
                return true;
            }
        }
        false
    }

    /// Keeps only the number of a page, and forgets the oldest one if there are too many.
    fn remember(&mut self, slot: u32) {
        self.segments.renew(slot, GHOST);
        let oldest = self.segments.oldest(GHOST);
        if let Some(oldest) = oldest.filter(|_| self.segments.len(GHOST) > self.ghosts) {
            self.segments.remove(oldest);
        }
    }

    fn evict_oldest(&mut self, evicted: &mut Vec<Eviction>) {
        for &queue in self.turn() {
            if self.evict(queue, |segments| segments.oldest(queue), evicted) {
                return;
            }
        }
    }
}

impl Policy for S3Fifo {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        let queue = match self.segments.find(page) {
            None => SMALL,
            Some((slot, GHOST)) => {
                self.segments.remove(slot);
                MAIN
            }
            Some((slot, _)) => {
                let writes = &mut self.writes[slot as usize];
                *writes = MOST_WRITES.min(*writes + 1);
                return Access::Hit;
            }
        };
        if self.len() == self.capacity {
            self.evict_oldest(evicted);
        }
        if let Some(slot) = self.segments.insert(page, queue) {
            self.writes[slot as usize] = 0;
        }
        Access::Miss
    }

    fn holds(&self, page: Page) -> bool {
        self.segments.find_held(page).is_some()
    }

    fn discard(&mut self, page: Page) -> bool {
        self.segments.discard(page)
    }

    fn len(&self) -> usize {
        self.segments.held()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    /// Pages of elements that are not ready keep their places and their counts.
    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool {
        self.turn().iter().any(|&queue| {
            let next = |segments: &Segments| segments.oldest_ready(queue, targets);
            self.evict(queue, next, evicted)
        })
    }

    fn drain(&mut self, evicted: &mut Vec<Eviction>) {
        while !self.is_empty() {
            self.evict_oldest(evicted);
        }
    }
}
