//! Reuse distances of the references to some pages.
//!
//! A Fenwick tree has a mark at the time of each page's last reference: the marks behind a time are the
//! pages since (F. Olken, "Efficient Methods for Calculating the Success Function of Fixed Space
//! Replacement Policies", LBL-12370, 1981; P. M. Fenwick, "A New Data Structure for Cumulative
//! Frequency Tables", Software: Practice and Experience 24(3), 1994). When it is full, times are
//! counted again from 1, so that it is never longer than four times the number of pages.

use std::collections::{BTreeMap, BinaryHeap};

use super::page_table::{Entry, PageTable};

const FEWEST_TIMES: usize = 4096;

pub(super) struct Distances {
    table: PageTable,
    /// Marks of times, as a Fenwick tree; entry 0 is unused.
    marks: Vec<u32>,
    time: u64,
    /// Pages that are kept, at most.
    most_pages: usize,
    /// Those with the largest hashes first, where there is a limit.
    largest: BinaryHeap<(u64, u64, u32)>,
    /// Scaled distance -> references that it stands for.
    counts: BTreeMap<u64, f64>,
    /// References that were looked at.
    pub references: u64,
    /// First references of pages, as many as they stand for.
    cold: f64,
    /// Different pages that are kept.
    pub pages: usize,
}

impl Distances {
    pub fn new(most_pages: usize) -> Self {
        Self {
            table: PageTable::new(),
            marks: vec![0; FEWEST_TIMES],
            time: 0,
            most_pages,
            largest: BinaryHeap::new(),
            counts: BTreeMap::new(),
            references: 0,
            cold: 0.0,
            pages: 0,
        }
    }

    /// A reference to a page, in a sample of this rate.
    pub fn refer(&mut self, page: u64, device: u32, hash: u64, rate: f64) {
        if self.time as usize + 1 >= self.marks.len() {
            self.renumber();
        }
        self.time += 1;
        self.references += 1;
        let before = self.table.set(Entry { page, device, hash: hash as u32, time: self.time });
        if before == 0 {
            self.cold += 1.0 / rate;
            if self.most_pages < usize::MAX {
                self.largest.push((hash, page, device));
            }
        } else {
            let since = self.table.len() as u64 - self.up_to(before);
            *self.counts.entry((since as f64 / rate) as u64).or_default() += 1.0 / rate;
            self.mark(before, false);
        }
        self.mark(self.time, true);
        self.pages = self.table.len();
    }

    fn mark(&mut self, time: u64, set: bool) {
        let mut at = time as usize;
        while at < self.marks.len() {
            self.marks[at] = if set { self.marks[at] + 1 } else { self.marks[at] - 1 };
            at += at & at.wrapping_neg();
        }
    }

    /// Marks up to a time.
    fn up_to(&self, time: u64) -> u64 {
        let (mut at, mut sum) = (time as usize, 0);
        while at > 0 {
            sum += u64::from(self.marks[at]);
            at &= at - 1;
        }
        sum
    }

    fn renumber(&mut self) {
        let mut entries: Vec<&mut Entry> = self.table.iter_mut().collect();
        entries.sort_unstable_by_key(|entry| entry.time);
        self.time = 0;
        for entry in entries {
            self.time += 1;
            entry.time = self.time;
        }
        let length = (4 * self.time as usize).max(FEWEST_TIMES);
        self.marks.clear();
        self.marks.resize(length, 0);
        for time in 1..=self.time {
            self.mark(time, true);
        }
    }

    /// Removes the pages with the largest hash if there are too many; returns that hash, which is the new threshold.
    pub fn shrink(&mut self) -> Option<u64> {
        if self.table.len() <= self.most_pages {
            return None;
        }
        let &(threshold, ..) = self.largest.peek()?;
        while let Some(&(hash, page, device)) = self.largest.peek() {
            if hash < threshold {
                break;
            }
            self.largest.pop();
            self.remove(page, device);
        }
        Some(threshold)
    }

    /// Removes the pages whose hash is not below a threshold.
    pub fn shrink_to(&mut self, threshold: u64) {
        let mut gone = Vec::new();
        for entry in self.table.iter_mut() {
            if u64::from(entry.hash) >= threshold {
                gone.push((entry.page, entry.device));
            }
        }
        for (page, device) in gone {
            self.remove(page, device);
        }
    }

    fn remove(&mut self, page: u64, device: u32) {
        let time = self.table.remove(page, device);
        if time > 0 {
            self.mark(time, false);
        }
        self.pages = self.table.len();
    }

    /// Distances with their references, in ascending order; those of the first references come last,
    /// at a distance without end. What a sample has too few of all references are hits.
    pub fn adjusted(&self, references: f64) -> Vec<(u64, f64)> {
        let counted: f64 = self.counts.values().sum::<f64>() + self.cold;
        let mut all = vec![(0, references - counted)];
        all.extend(self.counts.iter().map(|(&distance, &count)| (distance, count)));
        all.push((u64::MAX, self.cold));
        all
    }
}
