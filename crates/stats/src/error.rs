//! The errors of questions about a distribution.

/// A question that has no answer, with the value that made it so.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A quantile outside the closed unit interval.
    #[error("quantile is {0}, expected a number from 0 to 1 (0.99 is the 99th percentile)")]
    Quantile(f64),
    /// A confidence outside the open unit interval.
    #[error("confidence is {0}, expected a number between 0 and 1, both excluded (0.95 is usual)")]
    Confidence(f64),
    #[error("{0} of no samples, expected at least one sample")]
    Empty(&'static str),
    /// A sample that cannot be put in order.
    #[error("sample {index} is not a number, expected numbers only")]
    NotANumber {
        /// Position of the sample, counted from 0.
        index: usize,
    },
    /// Two columns that should be of one length.
    #[error("{values} bucket values but {counts} bucket counts, expected as many of each")]
    BucketColumns {
        /// Length of the column of values.
        values: usize,
        /// Length of the column of counts.
        counts: usize,
    },
    /// Bytes that are no histogram.
    #[error("bytes without {0}, expected those of a histogram as this version writes them")]
    Encoding(&'static str),
}
