//! Ghost list: the numbers of recently evicted pages, without their data.
//!
//! A direct-mapped table, written over where two pages meet: it forgets a few early, never grows, and costs one memory
//! access. Eight bytes a page, at least twice as many entries as are remembered.

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Entry {
    page: u32,
    /// Number of the departure, times two, plus the mark.
    left: u32,
}

/// Remembers the last departures, as many as the buffer has slots, each with a mark.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Ghost {
    entries: Box<[Entry]>,
    shift: u32,
    departures: u32,
    window: u32,
}

impl Ghost {
    pub(super) fn new(window: usize) -> Self {
        let bits = (window.max(1) * 2).next_power_of_two().ilog2();
        let window = window as u32;
        Self {
            entries: vec![Entry { page: 0, left: 0 }; 1 << bits].into_boxed_slice(),
            shift: 32 - bits,
            // As if the empty entries were older than the window.
            departures: window + 1,
            window,
        }
    }

    #[inline]
    fn at(&self, page: u32) -> usize {
        (page.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    #[inline]
    pub(super) fn remember(&mut self, page: u32, mark: bool) {
        // 31 bits that wrap: after two thousand million departures an entry that nothing has
        // overwritten may be believed once more, which costs a misjudged page.
        self.departures = (self.departures + 1) & (u32::MAX >> 1);
        let left = (self.departures << 1) | u32::from(mark);
        let at = self.at(page);
        self.entries[at] = Entry { page, left };
    }

    /// The mark of a page that left not long ago. Forgets it.
    #[inline]
    pub(super) fn recall(&mut self, page: u32) -> Option<bool> {
        let at = self.at(page);
        let entry = &mut self.entries[at];
        let age = self.departures.wrapping_sub(entry.left >> 1) & (u32::MAX >> 1);
        if entry.page != page || age > self.window {
            return None;
        }
        let mark = entry.left & 1 == 1;
        // Out of the window at once, and for as long as an empty entry.
        entry.left = (self.departures.wrapping_sub(self.window + 1)) << 1;
        Some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::Ghost;

    #[test]
    fn it_remembers_a_window_and_each_page_once() {
        let mut ghost = Ghost::new(4);
        assert_eq!(ghost.recall(0), None, "an empty entry is no page");
        ghost.remember(7, true);
        ghost.remember(8, false);
        assert_eq!(ghost.recall(7), Some(true));
        assert_eq!(ghost.recall(7), None);
        assert_eq!(ghost.recall(8), Some(false));
        ghost.remember(9, false);
        // Pages of a stride of the table's size never meet page 9's entry twice.
        for page in 100..105 {
            ghost.remember(page, false);
        }
        assert_eq!(ghost.recall(9), None, "five left since");
    }
}
