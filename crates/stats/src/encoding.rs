//! A histogram as bytes, and back: exact, moments included. It passes histograms between processes.
//! What is kept for years is kept as buckets, which any tool can read.

use crate::{Error, ExactMoments, Histogram};

const MARK: &[u8; 4] = b"ioh1";
const BUCKET_BYTES: usize = 12;

impl Histogram {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        bytes.extend(self.moments().to_bytes());
        for (index, count) in self.filled() {
            bytes.extend((index as u32).to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
        bytes
    }

    /// The histogram that [`to_bytes`](Self::to_bytes) wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let rest = bytes.strip_prefix(MARK).ok_or(Error::Encoding("a mark"))?;
        let (moments, buckets) = rest.split_first_chunk().ok_or(Error::Encoding("its moments"))?;
        let moments = ExactMoments::from_bytes(moments);
        if buckets.len() % BUCKET_BYTES != 0 {
            return Err(Error::Encoding("whole buckets"));
        }
        let filled = buckets.chunks_exact(BUCKET_BYTES).map(|bucket| {
            let (index, count) = bucket.split_at(4);
            (little_endian(index) as usize, little_endian(count) as u64)
        });
        Self::from_filled(filled, moments).ok_or(Error::Encoding("buckets that add up"))
    }
}

/// The number of at most 16 bytes, the lowest one first.
pub(crate) fn little_endian(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u128::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_make_the_same_histogram_again(values: Vec<u64>) {
            let mut histogram = Histogram::new();
            histogram.record_all(&values);
            prop_assert_eq!(Histogram::from_bytes(&histogram.to_bytes()), Ok(histogram));
        }

        #[test]
        fn other_bytes_are_an_error(mut bytes: Vec<u8>, values in prop::collection::vec(1_u64..9, 1..9)) {
            prop_assert!(Histogram::from_bytes(&bytes).is_err());
            bytes.splice(..0, *MARK);
            prop_assert!(Histogram::from_bytes(&bytes).is_err() || bytes.len() == 84);
            let mut histogram = Histogram::new();
            histogram.record_all(&values);
            let whole = histogram.to_bytes();
            prop_assert!(Histogram::from_bytes(&whole[..whole.len() - 1]).is_err());
            prop_assert!(Histogram::from_bytes(&whole[..whole.len() - BUCKET_BYTES]).is_err());
        }
    }
}
