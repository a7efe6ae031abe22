//! The counters of a drive.

/// Defines counters that are added and subtracted each by each.
macro_rules! counters {
    ($(#[$meta:meta])* pub struct Counters { $($(#[$field_meta:meta])* pub $field:ident: $Count:ty,)* }) => {
        $(#[$meta])*
        pub struct Counters { $($(#[$field_meta])* pub $field: $Count,)* }

        impl Counters {
            pub fn plus(self, other: Self) -> Self {
                Self { $($field: self.$field + other.$field,)* }
            }

            /// The counts since `earlier`.
            pub fn since(self, earlier: Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}

counters! {
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
}

impl Counters {
    /// Write amplification: data pages programmed per page written by the host; `None` before the
    /// first write. Summary pages are not counted, as usual.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.written_pages > 0).then(|| (self.written_pages + self.moved_pages) as f64 / self.written_pages as f64)
    }
}
