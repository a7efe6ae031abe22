//! How a trace is read and written where there is a choice. Every default refuses.

/// What to do with a request that was issued before the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutOfOrder {
    /// It is an error.
    #[default]
    Refuse,
    /// Requests are put into the order of their times, each at most so many places from where it
    /// stood; equal times keep the order of the trace. One that is later still is an error.
    Sort(usize),
    /// Requests are given as they stand.
    Keep,
}

/// What to do with a read, write or trim of no byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroLength {
    /// It is an error.
    #[default]
    Refuse,
    /// It is left out.
    Skip,
}

/// What to do with lines that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadLines {
    /// The first is an error.
    #[default]
    Refuse,
    /// So many are left out; the next is an error.
    SkipAtMost(u64),
}

/// How a trace is read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// Requests that go back in time.
    pub out_of_order: OutOfOrder,
    /// Requests of no length.
    pub zero_length: ZeroLength,
    /// Lines that cannot be read. Binary formats have none.
    pub bad_lines: BadLines,
}

/// Whether what a format cannot hold may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loss {
    /// It is an error, with the request's number.
    #[default]
    Refuse,
    /// It is lost, as the option says.
    Accept,
}

/// How a trace is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Ranges that are no whole sectors: accepted, they grow to the sectors that they touch.
    pub unaligned: Loss,
    /// Device numbers that the format does not have: accepted, they become 0.
    pub devices: Loss,
    /// Trims and flushes that the format does not have: accepted, they are left out.
    pub kinds: Loss,
}
