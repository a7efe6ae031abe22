//! A fixed number of timers, ordered by when they fire, and the queue that keeps such an order.

/// The time of a timer that is not set.
pub(super) const NEVER: u64 = u64::MAX;

/// The end of something that takes `cost_ps`; a time behind the latest one of a run where it would leave 64 bits.
#[inline]
pub(super) fn after(now_ps: u64, cost_ps: u64) -> u64 {
    now_ps.saturating_add(cost_ps).min(NEVER - 1)
}

/// What comes at one end, or near it, and goes at the other: a deque in one piece.
#[derive(Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Passing<T> {
    pub items: Vec<T>,
    /// How many of them went.
    pub gone: usize,
}

impl<T: Copy> Passing<T> {
    #[inline]
    pub fn get(&self, place: usize) -> Option<&T> {
        self.items.get(self.gone + place)
    }

    /// Inserts one behind all of which `is_later` does not hold.
    #[inline]
    pub fn insert(&mut self, item: T, is_later: impl Fn(&T) -> bool) {
        if self.items.len() == self.items.capacity() && 2 * self.gone >= self.items.len() {
            self.items.drain(..self.gone);
            self.gone = 0;
        }
        let mut place = self.items.len();
        self.items.push(item);
        while place > self.gone && is_later(&self.items[place - 1]) {
            self.items[place] = self.items[place - 1];
            place -= 1;
        }
        self.items[place] = item;
    }
}

/// The timers that are set, in the order in which they fire. Mostly a timer that is set is the last to fire, or near
/// it: pages take about the same time. Of several that fire at the same time, the one that was set first does: that is
/// the reference's order, and it decides which of two reads crosses the channel first.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Timers {
    /// Time and timer, ascending.
    order: Passing<(u64, u32)>,
    is_set: Vec<bool>,
}

impl Timers {
    pub fn new(timers: usize) -> Self {
        let order = Passing { items: Vec::with_capacity(2 * timers), gone: 0 };
        Self { order, is_set: vec![false; timers] }
    }

    /// When the next timer fires, and which; `NEVER` if none is set.
    #[inline]
    pub fn next(&self) -> (u64, u32) {
        self.order.get(0).copied().unwrap_or((NEVER, 0))
    }

    #[inline]
    pub fn set(&mut self, timer: u32, at_ps: u64) {
        if self.next().1 == timer && self.is_set[timer as usize] {
            self.order.gone += 1;
        } else if self.is_set[timer as usize] {
            self.withdraw(timer);
        }
        self.is_set[timer as usize] = at_ps < NEVER;
        if at_ps < NEVER {
            self.order.insert((at_ps, timer), |&(other_ps, _)| other_ps > at_ps);
        }
    }

    #[cold]
    fn withdraw(&mut self, timer: u32) {
        let mut number = 0..;
        let first = self.order.gone;
        self.order.items.retain(|&(_, other)| number.next() < Some(first) || other != timer);
    }
}
