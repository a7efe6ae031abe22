//! In which order a pass visits the records of a file.

use crate::mt19937::Mt19937;

/// Records from the one to the next of a strided pass.
pub const STRIDE: u64 = 17;

/// Every record exactly once, shuffled: each place is swapped with one drawn modulo the number.
#[must_use]
pub fn shuffled(records: u64, key: &[u64]) -> Vec<u64> {
    let mut order: Vec<u64> = (0..records).collect();
    let mut generator = Mt19937::from_key(key);
    for place in 0..order.len() {
        let other = (generator.draw() % records) as usize;
        order.swap(place, other);
    }
    order
}

/// Every record exactly once: `STRIDE` apart, and past the end on from a start one record further.
#[must_use]
pub fn strided(records: u64) -> Vec<u64> {
    let starts = 0..STRIDE.min(records);
    starts
        .flat_map(|start| (start..records).step_by(STRIDE as usize))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{shuffled, strided};
    use crate::mt19937::USUAL_SEED;

    fn is_whole(order: &[u64]) -> bool {
        let mut seen = order.to_vec();
        seen.sort_unstable();
        seen.iter()
            .enumerate()
            .all(|(i, &record)| i as u64 == record)
    }

    #[test]
    fn every_order_has_each_record_once() {
        for records in [1, 2, 16, 17, 18, 100, 3840] {
            for order in [shuffled(records, &USUAL_SEED), strided(records)] {
                assert_eq!(order.len() as u64, records);
                assert!(is_whole(&order), "{records} records: {order:?}");
            }
        }
    }

    #[test]
    fn a_seed_decides_the_shuffled_order() {
        assert_eq!(shuffled(100, &[1]), shuffled(100, &[1]));
        assert_ne!(shuffled(100, &[1]), shuffled(100, &[2]));
        assert_eq!(shuffled(1, &USUAL_SEED), [0]);
    }

    #[test]
    fn a_stride_ends_one_record_after_its_last_start() {
        let order = strided(40);
        assert_eq!(order[..6], [0, 17, 34, 1, 18, 35]);
        assert_eq!(order[39], 33);
        assert_eq!(strided(3), [0, 1, 2]);
    }
}
