//! Which of a fixed number of clocks strikes next.

/// The time of a clock that is not set.
pub(super) const NEVER: u64 = u64::MAX;

/// A tournament over clocks: setting one costs a comparison for each doubling of their number.
/// Of several that strike together, the first one wins.
pub(super) struct Tree {
    /// Number of leaves, a power of two.
    width: usize,
    /// Node `i` holds the earlier of nodes `2i` and `2i + 1`; the leaves stand at `width..`.
    times: Vec<u64>,
    winners: Vec<u32>,
}

impl Tree {
    pub fn new(clocks: usize) -> Self {
        let width = clocks.max(2).next_power_of_two();
        let mut winners = vec![0; 2 * width];
        for (leaf, clock) in (width..2 * width).zip(0..) {
            winners[leaf] = clock;
        }
        for node in (1..width).rev() {
            winners[node] = winners[2 * node];
        }
        Self {
            width,
            times: vec![NEVER; 2 * width],
            winners,
        }
    }

    /// The next time, and whose it is; `NEVER` if no clock is set.
    #[inline]
    pub fn next(&self) -> (u64, u32) {
        (self.times[1], self.winners[1])
    }

    /// Sets one clock.
    #[inline]
    pub fn set(&mut self, clock: u32, at_ps: u64) {
        let mut node = self.width + clock as usize;
        self.times[node] = at_ps;
        while node > 1 {
            node /= 2;
            let (left, right) = (2 * node, 2 * node + 1);
            let winner = if self.times[right] < self.times[left] {
                right
            } else {
                left
            };
            self.times[node] = self.times[winner];
            self.winners[node] = self.winners[winner];
        }
    }
}
