//! Trims, and zeroes, which are trims to the model: no data cross its channel, and flash has nothing
//! to do.
//!
//! Large ones are carried out a stretch at a time, between other commands: a file system trims a
//! whole drive at once, and nobody is to wait for that.

use ioassay_block::Kind;

use super::Served;
use crate::command::Status;

/// Bytes that are trimmed in one turn: a few milliseconds of work at worst.
const STRETCH_BYTES: u64 = 16 << 20;

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
        self.trim_stretch(&mut left, now_ps)?;
        if left.from < left.end {
            self.slots.get(slot).parts += 1;
            self.trims.push_back(left);
        }
        Ok(())
    }

    /// Goes on with the trim that came first.
    pub(super) fn go_on_trimming(&mut self, now_ps: u64) {
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

    fn trim_stretch(&mut self, left: &mut Trimming, now_ps: u64) -> Result<(), Status> {
        let stretch_bytes = STRETCH_BYTES.next_multiple_of(self.page_bytes());
        let length = (left.end - left.from).min(stretch_bytes);
        let range = (left.from, length);
        left.from += length;
        self.store.load_ends(range.0, range.1)?;
        self.ask(left.slot, Kind::Trim, range, false, now_ps)?;
        self.volatile.trim(self.pages(range));
        self.store.zero(range.0, range.1);
        self.store.keep_zeroes(range.0, range.1)
    }
}
