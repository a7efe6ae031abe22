//! The host's queue: requests wait in it while the drive has as many as it may have.

use std::collections::{BTreeMap, VecDeque};

use crate::options::kinds::choices;

/// In which order requests leave the host's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    Fcfs,
    /// C-LOOK: the nearest at or above the last address, then again from the lowest.
    Clook,
}

choices!(Scheduler: "clook" = Clook, "fcfs" = Fcfs);

#[derive(serde::Serialize, serde::Deserialize)]
enum Order {
    Fcfs(VecDeque<u32>),
    Clook(BTreeMap<(u64, u64), u32>),
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct HostQueue {
    order: Order,
    /// Requests that leave before all others, in their order.
    #[serde(skip)] // of flows alone, which are not saved
    urgent: VecDeque<u32>,
    /// How many the drive may have.
    window: u32,
    in_drive: u32,
    waiting: usize,
    last_sector: u64,
    sequence: u64,
}

impl HostQueue {
    pub fn new(scheduler: Scheduler, window: Option<u32>) -> Self {
        Self {
            order: match scheduler {
                Scheduler::Fcfs => Order::Fcfs(VecDeque::new()),
                Scheduler::Clook => Order::Clook(BTreeMap::new()),
            },
            urgent: VecDeque::new(),
            window: window.unwrap_or(u32::MAX),
            in_drive: 0,
            waiting: 0,
            last_sector: 0,
            sequence: 0,
        }
    }

    /// Whether a request that is issued now has to wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.in_drive >= self.window
    }

    /// A request is issued; whether it may go to the drive at once.
    #[inline]
    pub fn issue(&mut self, id: u32, sector: u64, is_urgent: bool) -> bool {
        if !self.is_full() {
            // Whenever the drive has a place, the queue is empty.
            self.in_drive += 1;
            self.last_sector = sector;
            return true;
        }
        self.sequence += 1;
        self.waiting += 1;
        match &mut self.order {
            _ if is_urgent => self.urgent.push_back(id),
            Order::Fcfs(waiting) => waiting.push_back(id),
            Order::Clook(waiting) => {
                waiting.insert((sector, self.sequence), id);
            }
        }
        false
    }

    /// The drive has completed a request; the one that takes its place.
    #[inline]
    pub fn complete(&mut self) -> Option<u32> {
        if self.waiting == 0 {
            self.in_drive -= 1;
            return None;
        }
        self.waiting -= 1;
        if let Some(id) = self.urgent.pop_front() {
            return Some(id);
        }
        match &mut self.order {
            Order::Fcfs(waiting) => waiting.pop_front(),
            Order::Clook(waiting) => {
                let above = waiting.range((self.last_sector, 0)..).next();
                let (&key, _) = above.or_else(|| waiting.iter().next())?;
                self.last_sector = key.0;
                waiting.remove(&key)
            }
        }
    }
}
