//! One request to a block device.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    #[default]
    Read,
    Write,
    /// The range is discarded (TRIM, UNMAP, DISCARD).
    Trim,
    /// What was written before is to be durable; has no range.
    Flush,
}

/// The longest read or write: Linux counts the bytes of one in 32 bits (`bi_size` of `struct
/// bvec_iter`, include/linux/bvec.h).
pub const MOST_REQUEST_BYTES: u64 = u32::MAX as u64;

/// One request to a block device, as a trace knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Request {
    /// When it was issued, nanoseconds since the beginning of the trace's own clock.
    pub at_ns: u64,
    /// First byte of the range.
    pub offset_bytes: u64,
    /// Length of the range; 0 for a flush.
    pub length_bytes: u64,
    /// Device, volume or ASU within the trace, 0 where the format knows none.
    pub device: u32,
    pub kind: Kind,
}

impl Request {
    /// The byte behind the range; `None` where it does not fit into 64 bits.
    pub fn end_bytes(&self) -> Option<u64> {
        self.offset_bytes.checked_add(self.length_bytes)
    }
}
