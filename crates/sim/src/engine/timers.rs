//! A fixed number of timers, and which of them fires next.

/// The time of a timer that is not set.
pub(super) const NEVER: u64 = u64::MAX;

/// Timers that are compared together: a power of two that fits a cache line.
const GROUP: usize = 8;

/// Timers in groups, with the earliest time of each group: setting a timer scans its group, and
/// finding the next one scans the groups. For the dozens of elements of a drive that takes a few
/// comparisons without a branch. Of several that fire at the same time, the first wins.
pub(super) struct Timers {
    times: Vec<u64>,
    /// The earliest time of each group.
    earliest: Vec<u64>,
    /// When the next timer fires, and which.
    next: (u64, u32),
}

impl Timers {
    pub fn new(timers: usize) -> Self {
        let groups = timers.div_ceil(GROUP).max(1);
        Self {
            times: vec![NEVER; groups * GROUP],
            earliest: vec![NEVER; groups],
            next: (NEVER, 0),
        }
    }

    /// When the next timer fires, and which; `NEVER` if none is set.
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

    /// Sets a timer.
    #[inline]
    pub fn set(&mut self, timer: u32, at_ps: u64) {
        let timer = timer as usize;
        self.times[timer] = at_ps;
        let group = timer / GROUP;
        let of_group = &self.times[group * GROUP..(group + 1) * GROUP];
        self.earliest[group] = of_group
            .iter()
            .fold(NEVER, |earliest, &at| earliest.min(at));
        let set = (at_ps, timer as u32);
        if set < self.next {
            self.next = set;
        } else if set.1 == self.next.1 {
            self.next = self.earliest();
        }
    }
}
