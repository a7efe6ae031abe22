//! Trims, and zeroes, which are trims to the model: no data cross its channel, and flash has nothing
//! to do.
//!
//! Large ones, and many, are carried out a stretch at a time, between other commands: a file system
//! trims a whole drive at once, and nobody is to wait for that.

use ioassay_block::Kind;

use super::Served;
use crate::command::Status;

/// Bytes that are trimmed in one turn, however many trims there are: about a millisecond of work at
/// worst, by which other answers may be late.
const TURN_BYTES: u64 = 4 << 20;

/// What a trim counts for at least: small ones take their time, too.
const LEAST_BYTES: u64 = 64 << 10;

/// What may still be trimmed in this turn.
#[derive(Debug)]
pub(super) struct Turn {
    left_bytes: u64,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            left_bytes: TURN_BYTES,
        }
    }
}

/// What is left of a trim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trimming {
    slot: u32,
    from: u64,
    end: u64,
}

impl Served {
    /// The pages within the range are discarded; what it has of others is overwritten with zeroes.
    pub(super) fn trim(
        &mut self,
        slot: u32,
        range: (u64, u64),
        fua: bool,
        now_ps: u64,
    ) -> Result<(), Status> {
        let (offset, length) = range;
        let page_bytes = self.page_bytes();
        let end = offset + length;
        let first = offset.next_multiple_of(page_bytes);
        // The drive's last page may be a part of one of the model's.
        let last = if end == self.facts.size_bytes {
            end
        } else {
            end / page_bytes * page_bytes
        };
        if first >= last {
            return self.write(slot, range, None, fua, now_ps);
        }
        if offset < first {
            self.write(slot, (offset, first - offset), None, fua, now_ps)?;
        }
        if last < end {
            self.write(slot, (last, end - last), None, fua, now_ps)?;
        }
        let mut left = Trimming {
            slot,
            from: first,
            end: last,
        };
        if self.trims.is_empty() && self.turn.left_bytes > 0 {
            self.trim_stretch(&mut left, now_ps)?;
        }
        if left.from < left.end {
            self.slots.get(slot).parts += 1;
            self.trims.push_back(left);
        }
        Ok(())
    }

    /// A turn begins: goes on with the trims that came first.
    pub(super) fn go_on_trimming(&mut self, now_ps: u64) {
        self.turn = Turn::default();
        while self.turn.left_bytes > 0 {
            let Some(mut left) = self.trims.pop_front() else {
                return;
            };
            let slot = left.slot;
            let done = self.trim_stretch(&mut left, now_ps);
            if done.is_ok() && left.from < left.end {
                self.trims.push_front(left);
                return;
            }
            if let Err(status) = done {
                self.slots.get(slot).status = status;
            }
            self.part_done(slot, now_ps);
        }
    }

    fn trim_stretch(&mut self, left: &mut Trimming, now_ps: u64) -> Result<(), Status> {
        let stretch_bytes = self.turn.left_bytes.next_multiple_of(self.page_bytes());
        let length = (left.end - left.from).min(stretch_bytes);
        let cost = length.max(LEAST_BYTES);
        self.turn.left_bytes = self.turn.left_bytes.saturating_sub(cost);
        let range = (left.from, length);
        left.from += length;
        self.store.load_ends(range.0, range.1)?;
        self.ask(left.slot, Kind::Trim, range, false, now_ps)?;
        self.volatile.trim(self.pages(range));
        self.store.zero(range.0, range.1);
        self.store.keep_zeroes(range.0, range.1)
    }
}
