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

impl Counters {
    pub fn plus(self, other: Self) -> Self {
        Self {
            written_pages: self.written_pages + other.written_pages,
            read_pages: self.read_pages + other.read_pages,
            trimmed_pages: self.trimmed_pages + other.trimmed_pages,
            moved_pages: self.moved_pages + other.moved_pages,
            summary_pages: self.summary_pages + other.summary_pages,
            collected_blocks: self.collected_blocks + other.collected_blocks,
            erases: self.erases + other.erases,
            levellings: self.levellings + other.levellings,
            dead_blocks: self.dead_blocks + other.dead_blocks,
            slc_pages: self.slc_pages + other.slc_pages,
            folded_pages: self.folded_pages + other.folded_pages,
        }
    }

    /// The counts since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            written_pages: self.written_pages - earlier.written_pages,
            read_pages: self.read_pages - earlier.read_pages,
            trimmed_pages: self.trimmed_pages - earlier.trimmed_pages,
            moved_pages: self.moved_pages - earlier.moved_pages,
            summary_pages: self.summary_pages - earlier.summary_pages,
            collected_blocks: self.collected_blocks - earlier.collected_blocks,
            erases: self.erases - earlier.erases,
            levellings: self.levellings - earlier.levellings,
            dead_blocks: self.dead_blocks - earlier.dead_blocks,
            slc_pages: self.slc_pages - earlier.slc_pages,
            folded_pages: self.folded_pages - earlier.folded_pages,
        }
    }

    /// Write amplification: data pages programmed per page written by the host; `None` before the
    /// first write. Summary pages are not counted, as usual.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.written_pages > 0).then(|| (self.written_pages + self.moved_pages) as f64 / self.written_pages as f64)
    }
}
