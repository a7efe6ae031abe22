//! What happened inside a drive.

/// Counts since the drive was made, or since they were taken last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Pages that the host, or its buffer, had written.
    pub written_pages: u64,
    /// Pages that were read from flash.
    pub read_pages: u64,
    /// Pages that were discarded.
    pub trimmed_pages: u64,
    /// Valid pages that cleaning moved.
    pub moved_pages: u64,
    /// Summary pages that were programmed when a block was full.
    pub summary_pages: u64,
    /// Blocks that were cleaned.
    pub cleanings: u64,
    /// Blocks that were erased.
    pub erases: u64,
    /// Blocks that were cleaned to spread erasures, among `cleanings`.
    pub levellings: u64,
    /// Blocks that are dead.
    pub dead_blocks: u32,
}

impl Counters {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            written_pages: self.written_pages + other.written_pages,
            read_pages: self.read_pages + other.read_pages,
            trimmed_pages: self.trimmed_pages + other.trimmed_pages,
            moved_pages: self.moved_pages + other.moved_pages,
            summary_pages: self.summary_pages + other.summary_pages,
            cleanings: self.cleanings + other.cleanings,
            erases: self.erases + other.erases,
            levellings: self.levellings + other.levellings,
            dead_blocks: self.dead_blocks + other.dead_blocks,
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            written_pages: self.written_pages - earlier.written_pages,
            read_pages: self.read_pages - earlier.read_pages,
            trimmed_pages: self.trimmed_pages - earlier.trimmed_pages,
            moved_pages: self.moved_pages - earlier.moved_pages,
            summary_pages: self.summary_pages - earlier.summary_pages,
            cleanings: self.cleanings - earlier.cleanings,
            erases: self.erases - earlier.erases,
            levellings: self.levellings - earlier.levellings,
            dead_blocks: self.dead_blocks - earlier.dead_blocks,
        }
    }

    /// Data pages programmed for each page that the host had written; `None` before the first.
    /// Summary pages are not counted, as is usual.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        (self.written_pages > 0)
            .then(|| (self.written_pages + self.moved_pages) as f64 / self.written_pages as f64)
    }
}
