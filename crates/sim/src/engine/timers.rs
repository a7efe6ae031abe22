//! A fixed number of timers, ordered by when they fire.

/// The time of a timer that is not set.
pub(super) const NEVER: u64 = u64::MAX;

/// The end of something that takes `cost_ps`; a time behind the latest one of a run where it would leave 64 bits.
#[inline]
pub(super) fn after(now_ps: u64, cost_ps: u64) -> u64 {
    now_ps.saturating_add(cost_ps).min(NEVER - 1)
}

/// The timers that are set, in the order in which they fire. Mostly a timer that is set is the last to fire, or near
/// it: pages take about the same time. Of several that fire at the same time, the one that was set first does: that is
/// the reference's order, and it decides which of two reads crosses the channel first.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Timers {
    /// Time and timer, ascending from `first` on.
    order: Vec<(u64, u32)>,
    first: usize,
    is_set: Vec<bool>,
}

impl Timers {
    pub fn new(timers: usize) -> Self {
        Self { order: Vec::with_capacity(2 * timers), first: 0, is_set: vec![false; timers] }
    }

    /// When the next timer fires, and which; `NEVER` if none is set.
    #[inline]
    pub fn next(&self) -> (u64, u32) {
        self.order.get(self.first).copied().unwrap_or((NEVER, 0))
    }

    #[inline]
    pub fn set(&mut self, timer: u32, at_ps: u64) {
        if self.next().1 == timer && self.is_set[timer as usize] {
            self.first += 1;
        } else if self.is_set[timer as usize] {
            self.withdraw(timer);
        }
        self.is_set[timer as usize] = at_ps < NEVER;
        if at_ps < NEVER {
            self.insert(timer, at_ps);
        }
    }

    #[inline]
    fn insert(&mut self, timer: u32, at_ps: u64) {
        if self.order.len() == self.order.capacity() {
            self.order.drain(..self.first);
            self.first = 0;
        }
        let mut place = self.order.len();
        self.order.push((at_ps, timer));
        while place > self.first && self.order[place - 1].0 > at_ps {
            self.order[place] = self.order[place - 1];
            place -= 1;
        }
        self.order[place] = (at_ps, timer);
    }

    #[cold]
    fn withdraw(&mut self, timer: u32) {
        let mut number = 0..;
        let first = self.first;
        self.order.retain(|&(_, other)| number.next() < Some(first) || other != timer);
    }
}
