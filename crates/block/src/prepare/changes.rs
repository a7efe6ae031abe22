//! What preparation did, counted.

/// Counts of all that was dropped or changed: nothing is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Requests taken from the source.
    pub seen: u64,
    /// Requests given, pages of split ones each counted.
    pub given: u64,
    /// Dropped: their device was not wanted.
    pub dropped_device: u64,
    /// Dropped: their kind was not wanted.
    pub dropped_kind: u64,
    pub dropped_empty: u64,
    pub dropped_beyond: u64,
    /// Left out from the beginning, as asked.
    pub skipped: u64,
    /// Moved to another device's place beside the others.
    pub folded: u64,
    /// Moved by shrinking the range.
    pub shrunk: u64,
    /// Offsets rounded down to a page.
    pub rounded: u64,
    /// Made longer, to whole pages.
    pub lengthened: u64,
    /// Made shorter, to one page.
    pub cut: u64,
    pub split: u64,
    pub wrapped: u64,
    /// Bytes of the requests taken from the source.
    pub bytes_seen: u64,
    /// Bytes of the requests that were kept, before they were changed.
    pub bytes_kept: u64,
    /// Bytes of the requests given.
    pub bytes_given: u64,
}

impl Changes {
    /// So many requests went through as they were.
    pub(super) fn pass(&mut self, requests: u64, bytes: u64) {
        self.seen += requests;
        self.given += requests;
        for sum in [&mut self.bytes_seen, &mut self.bytes_kept, &mut self.bytes_given] {
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Every count with its name, in the order above.
    pub fn counts(&self) -> [(&'static str, u64); 17] {
        [
            ("seen", self.seen),
            ("given", self.given),
            ("dropped_device", self.dropped_device),
            ("dropped_kind", self.dropped_kind),
            ("dropped_empty", self.dropped_empty),
            ("dropped_beyond", self.dropped_beyond),
            ("skipped", self.skipped),
            ("folded", self.folded),
            ("shrunk", self.shrunk),
            ("rounded", self.rounded),
            ("lengthened", self.lengthened),
            ("cut", self.cut),
            ("split", self.split),
            ("wrapped", self.wrapped),
            ("bytes_seen", self.bytes_seen),
            ("bytes_kept", self.bytes_kept),
            ("bytes_given", self.bytes_given),
        ]
    }

    /// One request was kept and became one of `given` or, split, several.
    pub(super) fn keep(&mut self, before_bytes: u64, moves: Moves, after_bytes: u64, pages: u64) {
        self.folded += u64::from(moves.folded);
        self.shrunk += u64::from(moves.shrunk);
        self.rounded += u64::from(moves.rounded);
        self.wrapped += u64::from(moves.wrapped);
        self.lengthened += u64::from(after_bytes > before_bytes);
        self.cut += u64::from(after_bytes < before_bytes);
        self.split += u64::from(pages > 1);
        self.given += pages;
        self.bytes_kept = self.bytes_kept.saturating_add(before_bytes);
        self.bytes_given = self.bytes_given.saturating_add(after_bytes);
    }
}

/// How the offset of one request was changed.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Moves {
    pub folded: bool,
    pub shrunk: bool,
    pub rounded: bool,
    pub wrapped: bool,
}
