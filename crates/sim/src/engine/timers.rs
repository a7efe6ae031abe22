//! Which of a fixed number of clocks strikes next.

/// The time of a clock that is not set.
pub(super) const NEVER: u64 = u64::MAX;

/// Clocks that are looked through together: as many as fill some lines of cache.
const GROUP: usize = 8;

/// Clocks in groups, of which the earliest of each is known: setting a clock looks through its
/// group, asking for the next one through the groups. For the some dozens of elements of a drive
/// that is a few comparisons that need no branch. Of several that strike together, the first wins.
pub(super) struct Clocks {
    times: Vec<u64>,
    /// The earliest time of each group.
    earliest: Vec<u64>,
    /// The clock that strikes next, and when.
    next: (u64, u32),
}

impl Clocks {
    pub fn new(clocks: usize) -> Self {
        let groups = clocks.div_ceil(GROUP).max(1);
        Self {
            times: vec![NEVER; groups * GROUP],
            earliest: vec![NEVER; groups],
            next: (NEVER, 0),
        }
    }

    /// The next time, and whose it is; `NEVER` if no clock is set.
    #[inline]
    pub fn next(&self) -> (u64, u32) {
        self.next
    }

    fn earliest(&self) -> (u64, u32) {
        let (mut time, mut group) = (NEVER, 0);
        for (number, &earliest) in self.earliest.iter().enumerate() {
            let earlier = earliest < time;
            group = if earlier { number } else { group };
            time = if earlier { earliest } else { time };
        }
        let first = group * GROUP;
        let of_group = &self.times[first..first + GROUP];
        let within = of_group.iter().position(|&at| at == time).unwrap_or(0);
        (time, (first + within) as u32)
    }

    /// Sets one clock.
    #[inline]
    pub fn set(&mut self, clock: u32, at_ps: u64) {
        let clock = clock as usize;
        self.times[clock] = at_ps;
        let group = clock / GROUP;
        let of_group = &self.times[group * GROUP..(group + 1) * GROUP];
        self.earliest[group] = of_group
            .iter()
            .fold(NEVER, |earliest, &at| earliest.min(at));
        let set = (at_ps, clock as u32);
        if set < self.next {
            self.next = set;
        } else if set.1 == self.next.1 {
            self.next = self.earliest();
        }
    }
}
