//! The counters of a drive.

/// Counts since the drive was made, or since they were taken last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Pages written by the host, or evicted by its write buffer.
    pub written_pages: u64,
    pub read_pages: u64,
    pub trimmed_pages: u64,
    /// Valid pages moved by garbage collection.
    pub moved_pages: u64,
    /// Summary pages, each programmed as the last page of a full block.
    pub summary_pages: u64,
    /// Blocks collected, each with one erasure.
    #[serde(rename = "cleanings")]
    pub collected_blocks: u64,
    pub erases: u64,
    /// Blocks collected for static wear levelling, among `collected_blocks`.
    pub levellings: u64,
    pub dead_blocks: u32,
    /// Pages of the host written to the SLC region, among `written_pages`.
    pub slc_pages: u64,
    /// Pages moved from there, among `moved_pages`.
    pub folded_pages: u64,
}

/// Adds or subtracts two sets of counters, each by each.
macro_rules! each_by_each {
    ($left:ident $operator:tt $right:ident) => {
        Counters {
            written_pages: $left.written_pages $operator $right.written_pages,
            read_pages: $left.read_pages $operator $right.read_pages,
            trimmed_pages: $left.trimmed_pages $operator $right.trimmed_pages,
            moved_pages: $left.moved_pages $operator $right.moved_pages,
            summary_pages: $left.summary_pages $operator $right.summary_pages,
            collected_blocks: $left.collected_blocks $operator $right.collected_blocks,
            erases: $left.erases $operator $right.erases,
            levellings: $left.levellings $operator $right.levellings,
            dead_blocks: $left.dead_blocks $operator $right.dead_blocks,
            slc_pages: $left.slc_pages $operator $right.slc_pages,
            folded_pages: $left.folded_pages $operator $right.folded_pages,
        }
    };
}

impl Counters {
    pub fn plus(self, other: Self) -> Self {
        each_by_each!(self + other)
    }

    /// The counts since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        each_by_each!(self - earlier)
    }

    /// Write amplification: data pages programmed per page written by the host; `None` before the
    /// first write. Summary pages are not counted, as usual.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.written_pages > 0).then(|| (self.written_pages + self.moved_pages) as f64 / self.written_pages as f64)
    }
}
