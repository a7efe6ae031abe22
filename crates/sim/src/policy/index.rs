//! A map from keys to slots: the one lookup that every write pays for.
//!
//! Open addressing with linear probing in one array of 8-byte entries, at most an eighth full: a miss looks at 1.15
//! entries on average, and the processor nearly always guesses right that one look is all. At a quarter, 1.4 entries,
//! wrong guesses take a third of the speed: measured with `benches/policy.rs`. Removal shifts the entries behind it
//! back (Knuth, TAOCP vol. 3, 6.4, Algorithm R), so that there are no tombstones and the table never has to be rebuilt.
//! The table never grows: it is made for the capacity of the buffer.

/// The slot of an entry that is free; no list is that long.
const FREE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Entry {
    key: u32,
    slot: u32,
}

const EMPTY: Entry = Entry { key: 0, slot: FREE };

/// A map from page or block numbers to slots below `u32::MAX`.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Index {
    entries: Box<[Entry]>,
    shift: u32,
}

impl Index {
    /// For up to `keys` keys at once.
    pub(super) fn new(keys: usize) -> Self {
        let bits = (keys.max(1) * 8).next_power_of_two().ilog2();
        Self { entries: vec![EMPTY; 1 << bits].into_boxed_slice(), shift: 32 - bits }
    }

    #[inline]
    pub(super) fn find(&self, key: u32) -> Option<u32> {
        let entry = self.entries[self.seek(key)];
        (entry.slot != FREE).then_some(entry.slot)
    }

    /// Adds `key`, which must not be there.
    #[inline]
    pub(super) fn insert(&mut self, key: u32, slot: u32) {
        let at = self.seek(key);
        debug_assert!(self.entries[at].slot == FREE && slot != FREE);
        self.entries[at] = Entry { key, slot };
    }

    /// Takes `key` out, if it is there.
    #[inline]
    pub(super) fn remove(&mut self, key: u32) {
        let mask = self.entries.len() - 1;
        let mut hole = self.seek(key);
        let mut at = hole;
        while self.entries[at].slot != FREE {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            let from_home = at.wrapping_sub(self.home(entry.key)) & mask;
            if entry.slot == FREE {
                self.entries[hole] = EMPTY;
            } else if from_home >= at.wrapping_sub(hole) & mask {
                // Its home is not behind the hole: it is found there as well.
                self.entries[hole] = entry;
                hole = at;
            }
        }
    }

    /// Where `key` is or would be.
    #[inline]
    fn seek(&self, key: u32) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = self.home(key);
        loop {
            let entry = self.entries[at];
            if entry.slot == FREE || entry.key == key {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Where probing begins: the upper bits of a multiplication with 2^32 / golden ratio (Knuth,
    /// TAOCP vol. 3, 6.4), which spreads runs and strides, what page numbers mostly are.
    #[inline]
    fn home(&self, key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Index;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Few keys in a small table, so that runs grow, wrap around and are cut.
        #[test]
        fn it_is_a_map(keys in proptest::collection::vec((0_u32..40, any::<bool>()), 1..400),
                       stride in prop_oneof![Just(1_u32), Just(48), Just(1 << 24), Just(0x9e37_79b1)]) {
            let mut index = Index::new(16);
            let mut model = BTreeMap::new();
            for (time, (key, wanted)) in keys.into_iter().enumerate() {
                let key = key.wrapping_mul(stride);
                if !wanted {
                    index.remove(key);
                    model.remove(&key);
                } else if model.len() < 16 && !model.contains_key(&key) {
                    index.insert(key, time as u32);
                    model.insert(key, time as u32);
                }
                for key in (0..40_u32).map(|key| key.wrapping_mul(stride)) {
                    prop_assert_eq!(index.find(key), model.get(&key).copied());
                }
            }
        }
    }
}
