//! A fixed number of timers, and which of them fires next.

/// The time of a timer that is not set.
pub(super) const NEVER: u64 = u64::MAX;

/// Timers that are compared together: a power of two that fits a cache line.
const GROUP: usize = 8;

/// Timers in groups, with the earliest time of each group: setting a timer scans its group, and
/// finding the next one scans the groups. For the dozens of elements of a drive that takes a few
/// comparisons without a branch. Of several that fire at the same time, the one that was set first
/// does: that is the reference's order, and it decides which of two reads crosses the channel first.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Timers {
    times: Vec<u64>,
    /// When each was set, counted in calls of `set`.
    turns: Vec<u64>,
    turn: u64,
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
            turns: vec![0; groups * GROUP],
            turn: 0,
            earliest: vec![NEVER; groups],
            next: (NEVER, 0),
        }
    }

    /// When the next timer fires, and which; `NEVER` if none is set.
    #[inline]
    pub fn next(&self) -> (u64, u32) {
        self.next
    }

    #[inline]
    fn earliest(&self) -> (u64, u32) {
        let (mut time, mut group, mut equals) = (NEVER, 0, 0);
        for (number, &earliest) in self.earliest.iter().enumerate() {
            let earlier = earliest < time;
            equals = if earlier {
                0
            } else {
                equals + usize::from(earliest == time)
            };
            group = if earlier { number } else { group };
            time = if earlier { earliest } else { time };
        }
        let first = group * GROUP;
        let of_group = &self.times[first..first + GROUP];
        equals += of_group.iter().filter(|&&at| at == time).count();
        if equals > 1 && time < NEVER {
            return (time, self.first_set(time));
        }
        let within = of_group.iter().position(|&at| at == time).unwrap_or(0);
        (time, (first + within) as u32)
    }

    /// Of the timers that fire at `time`, the one that was set first.
    #[cold]
    fn first_set(&self, time: u64) -> u32 {
        let at = (0..).zip(&self.times).filter(|(_, at)| **at == time);
        let first = at.min_by_key(|&(timer, _)| self.turns[timer as usize]);
        first.map_or(0, |(timer, _)| timer)
    }

    /// Sets a timer.
    #[inline]
    pub fn set(&mut self, timer: u32, at_ps: u64) {
        let timer = timer as usize;
        self.times[timer] = at_ps;
        self.turn += 1;
        self.turns[timer] = self.turn;
        let group = timer / GROUP;
        let of_group = &self.times[group * GROUP..(group + 1) * GROUP];
        self.earliest[group] = of_group
            .iter()
            .fold(NEVER, |earliest, &at| earliest.min(at));
        if at_ps < self.next.0 {
            self.next = (at_ps, timer as u32);
        } else if timer as u32 == self.next.1 {
            self.next = self.earliest();
        }
    }
}
