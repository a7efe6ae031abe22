//! Doubly linked lists over slots, in one slab.
//!
//! A slot is in one list at most. Each list is a ring through a sentinel of its own, which lies
//! behind the slots: linking and unlinking have no special cases, hence no branches.

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Link {
    newer: u32,
    older: u32,
}

/// Lists of slots. The front is where slots come in (newest), the back where they leave (oldest).
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Lists {
    links: Box<[Link]>,
    slots: u32,
}

impl Lists {
    /// `lists` empty lists that share the slots below `slots`.
    pub(crate) fn new(slots: usize, lists: usize) -> Self {
        let alone = |at| Link { newer: at, older: at };
        Self { links: (0..(slots + lists) as u32).map(alone).collect(), slots: slots as u32 }
    }

    /// Puts a slot that is in no list at the front of `list`.
    #[inline]
    pub(crate) fn push_front(&mut self, list: u32, slot: u32) {
        let sentinel = self.slots + list;
        let older = self.links[sentinel as usize].older;
        self.links[slot as usize] = Link { newer: sentinel, older };
        self.links[older as usize].newer = slot;
        self.links[sentinel as usize].older = slot;
    }

    /// Puts a slot that is in no list at the back of `list`.
    #[inline]
    pub(crate) fn push_back(&mut self, list: u32, slot: u32) {
        let sentinel = self.slots + list;
        let newer = self.links[sentinel as usize].newer;
        self.links[slot as usize] = Link { newer, older: sentinel };
        self.links[newer as usize].older = slot;
        self.links[sentinel as usize].newer = slot;
    }

    /// Takes a slot out of its list.
    #[inline]
    pub(crate) fn unlink(&mut self, slot: u32) {
        let Link { newer, older } = self.links[slot as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }

    /// Moves a slot to the front of `list`, from wherever it was.
    #[inline]
    pub(crate) fn renew(&mut self, list: u32, slot: u32) {
        self.unlink(slot);
        self.push_front(list, slot);
    }

    /// The oldest slot of `list`.
    #[inline]
    pub(crate) fn back(&self, list: u32) -> Option<u32> {
        let back = self.links[(self.slots + list) as usize].newer;
        (back < self.slots).then_some(back)
    }

    /// The slot of the same list that is next newer than `slot`.
    #[inline]
    pub(super) fn newer(&self, slot: u32) -> Option<u32> {
        let newer = self.links[slot as usize].newer;
        (newer < self.slots).then_some(newer)
    }

    /// The slots of `list`, from the oldest on.
    pub(crate) fn oldest_first(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.back(list), |&slot| self.newer(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::Lists;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn contents(lists: &mut Lists, list: u32) -> Vec<u32> {
        let mut found = Vec::new();
        while let Some(slot) = lists.back(list) {
            lists.unlink(slot);
            found.push(slot);
        }
        for &slot in &found {
            lists.push_front(list, slot);
        }
        found
    }

    proptest! {
        #[test]
        fn they_are_queues(steps in proptest::collection::vec((0_u32..8, 0_u32..3, any::<bool>()), 1..200)) {
            let mut lists = Lists::new(8, 3);
            let mut models = vec![VecDeque::new(); 3];
            for (slot, list, front) in steps {
                let model = models.iter_mut().find(|model| model.contains(&slot));
                if let Some(model) = model {
                    model.retain(|&other| other != slot);
                    lists.unlink(slot);
                } else if front {
                    models[list as usize].push_front(slot);
                    lists.push_front(list, slot);
                } else {
                    models[list as usize].push_back(slot);
                    lists.push_back(list, slot);
                }
                for (list, model) in (0..).zip(&models) {
                    let expected: Vec<u32> = model.iter().rev().copied().collect();
                    prop_assert_eq!(lists.back(list), model.back().copied());
                    prop_assert_eq!(lists.oldest_first(list).collect::<Vec<_>>(), expected.clone());
                    prop_assert_eq!(contents(&mut lists, list), expected);
                }
            }
        }
    }
}
