//! The slots of a buffer: which page is in which slot, and which slots are free.

use super::{Page, index::Index};

/// A fixed number of slots, each free or taken by one key: a page, or a block of pages.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Slots {
    index: Index,
    keys: Box<[u32]>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            index: Index::new(slots),
            keys: vec![0; slots].into_boxed_slice(),
            free: (0..slots as u32).rev().collect(),
        }
    }

    /// The slot of a key.
    #[inline]
    pub(super) fn find(&self, key: u32) -> Option<u32> {
        self.index.find(key)
    }

    /// The key in a taken slot.
    #[inline]
    pub(super) fn key(&self, slot: u32) -> Page {
        self.keys[slot as usize]
    }

    /// Gives a free slot to a key that has none. `None`: no slot is free.
    #[inline]
    pub(super) fn insert(&mut self, key: u32) -> Option<u32> {
        let slot = self.free.pop()?;
        self.index.insert(key, slot);
        self.keys[slot as usize] = key;
        Some(slot)
    }

    /// Frees a taken slot; returns its key.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> u32 {
        let key = self.keys[slot as usize];
        self.index.remove(key);
        self.free.push(slot);
        key
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.keys.len() - self.free.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.keys.len()
    }

    /// Whether no slot is free.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }
}
