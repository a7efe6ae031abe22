//! In which order a pass visits the records of a file.

use rand_mt::Mt64;

/// Records from one to the next of a strided pass, where none are asked for.
pub const STRIDE: u64 = 17;

/// Key of a shuffled order, where none is given: that of IOzone.
pub const USUAL_KEY: [u64; 4] = [0x12345, 0x23456, 0x34567, 0x45678];

/// How a shuffled order is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shuffle {
    /// From the first place on, each is swapped with one drawn among all: IOzone 3.471.
    Swap,
    /// From the last place on, each is swapped with one drawn among those up to it: IOzone 3.489. All orders are equally
    /// probable (Durstenfeld, Communications of the ACM 7, 1964).
    Durstenfeld,
}

/// Every record exactly once, shuffled by the Mersenne Twister MT19937-64, as IOzone does.
pub fn shuffled(records: u64, key: &[u64], shuffle: Shuffle) -> Vec<u64> {
    let mut order: Vec<u64> = (0..records).collect();
    let mut generator = Mt64::new_with_key(key.iter().copied());
    let mut drawn = |number: u64| (generator.next_u64() % number) as usize;
    match shuffle {
        Shuffle::Swap => (0..order.len()).for_each(|place| order.swap(place, drawn(records))),
        Shuffle::Durstenfeld => {
            for place in (1..order.len()).rev() {
                order.swap(place, drawn(place as u64 + 1));
            }
        }
    }
    order
}

/// Records `stride` apart, as IOzone 3.471 and 3.489 visit them; the last entry is where the final seek goes.
///
/// A step that would reach one of the last two records goes back instead, to a start one record further than
/// before. A file of no more than `stride` records has no second start: its record 0 is visited each time.
pub fn strided(records: u64, stride: u64) -> Vec<u64> {
    if records <= stride {
        return vec![0; records as usize + 1];
    }
    let mut start = 0;
    std::iter::successors(Some(0), |&record| {
        let next = record + stride;
        if next + 2 < records {
            return Some(next);
        }
        start += 1;
        Some(start)
    })
    .take(records as usize + 1)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{STRIDE, Shuffle, USUAL_KEY, shuffled, strided};

    fn is_whole(order: &[u64]) -> bool {
        let mut seen = order.to_vec();
        seen.sort_unstable();
        seen.iter().enumerate().all(|(i, &record)| i as u64 == record)
    }

    #[test]
    fn a_shuffled_order_has_each_record_once() {
        for records in [1, 2, 16, 17, 18, 100, 3840] {
            for shuffle in [Shuffle::Swap, Shuffle::Durstenfeld] {
                let order = shuffled(records, &USUAL_KEY, shuffle);
                assert_eq!(order.len() as u64, records);
                assert!(is_whole(&order), "{records} records: {order:?}");
            }
        }
    }

    #[test]
    fn a_seed_decides_the_shuffled_order() {
        let of = |key| shuffled(100, &[key], Shuffle::Swap);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn each_version_has_its_order() {
        let of = |shuffle| shuffled(8, &USUAL_KEY, shuffle);
        assert_eq!(of(Shuffle::Durstenfeld), [3, 1, 5, 2, 0, 4, 6, 7], "traced of 3.489");
        assert_eq!(of(Shuffle::Swap), [3, 7, 2, 5, 6, 1, 0, 4]);
    }

    #[test]
    fn a_file_of_no_more_records_than_the_stride_is_read_at_its_first() {
        for (records, stride) in [(1, 1), (8, 17), (15, 17), (17, 17), (25, 31)] {
            assert_eq!(strided(records, stride), vec![0; records as usize + 1]);
        }
    }

    #[test]
    fn a_stride_turns_back_two_records_before_the_end() {
        let first_sweep = strided(256, STRIDE);
        assert_eq!(first_sweep[13..17], [221, 238, 1, 18], "record 255 is not read");
        assert_eq!(strided(5, 1), [0, 1, 2, 1, 2, 2]);
        assert_eq!(strided(4, 1), [0, 1, 1, 2, 3]);
        assert_eq!(strided(20, STRIDE)[..5], [0, 17, 1, 2, 3]);
        assert_eq!(strided(18, STRIDE)[..18], (0..18).collect::<Vec<_>>());
    }

    #[test]
    fn no_stride_leaves_the_file() {
        for records in 1..200 {
            for stride in 1..40 {
                let order = strided(records, stride);
                assert!(order[..records as usize].iter().all(|&at| at < records), "{records} records, every {stride}");
            }
        }
    }
}
