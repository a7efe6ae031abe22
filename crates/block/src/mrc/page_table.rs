//! Pages and when they were referred to last: open addressing with linear probing, at most half full.
//! Removal shifts the entries behind it back (Knuth, TAOCP vol. 3, 6.4, Algorithm R).

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub page: u64,
    pub device: u32,
    /// Upper half of the page's mixed number, which samples.
    pub hash: u32,
    /// Time of the last reference; 0: no page.
    pub time: u64,
}

const EMPTY: Entry = Entry { page: 0, device: 0, hash: 0, time: 0 };

pub(super) struct PageTable {
    entries: Vec<Entry>,
    pages: usize,
}

impl PageTable {
    pub fn new() -> Self {
        Self { entries: vec![EMPTY; 1024], pages: 0 }
    }

    pub fn len(&self) -> usize {
        self.pages
    }

    /// Spread by a multiplication with 2^64 / golden ratio (Knuth 6.4): samples have similar hashes.
    fn home(&self, page: u64, device: u32) -> usize {
        let mixed = (page ^ (u64::from(device) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.entries.len() - 1)
    }

    fn seek(&self, page: u64, device: u32) -> usize {
        let mut at = self.home(page, device);
        loop {
            let entry = &self.entries[at];
            if entry.time == 0 || (entry.page == page && entry.device == device) {
                return at;
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// Sets the time of a page; returns the one before, 0 for a new page.
    pub fn set(&mut self, entry: Entry) -> u64 {
        if 2 * (self.pages + 1) > self.entries.len() {
            self.grow();
        }
        let at = self.seek(entry.page, entry.device);
        let before = self.entries[at].time;
        self.entries[at] = entry;
        self.pages += usize::from(before == 0);
        before
    }

    fn grow(&mut self) {
        let larger = vec![EMPTY; 2 * self.entries.len()];
        for entry in std::mem::replace(&mut self.entries, larger) {
            if entry.time > 0 {
                let at = self.seek(entry.page, entry.device);
                self.entries[at] = entry;
            }
        }
    }

    /// Removes a page; returns the time of its last reference, 0 if it is not there.
    pub fn remove(&mut self, page: u64, device: u32) -> u64 {
        let mask = self.entries.len() - 1;
        let mut hole = self.seek(page, device);
        let time = self.entries[hole].time;
        if time == 0 {
            return 0;
        }
        self.pages -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry.time == 0 {
                self.entries[hole] = EMPTY;
                return time;
            }
            let from_home = at.wrapping_sub(self.home(entry.page, entry.device)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = entry;
                hole = at;
            }
        }
    }

    /// All pages, in no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().filter(|entry| entry.time > 0)
    }
}
