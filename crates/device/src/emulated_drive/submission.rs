//! Carries out commands when they arrive: changes the content, and submits the parts that take time to the model.

use std::ops::Range;

use ioassay_block::Kind;

use super::EmulatedDrive;
use crate::command::{Command, Op, Status};

impl EmulatedDrive {
    /// Carries a command out as far as it can be at once; what is left are its parts.
    pub(super) fn submit_command(
        &mut self,
        slot: usize,
        command: &Command,
        data: &[u8],
        now_ps: u64,
    ) -> Result<(), Status> {
        let range = (command.offset_bytes, command.length_bytes);
        if command.length_bytes == 0 && command.op != Op::Flush {
            return Ok(());
        }
        self.in_flight[slot].syncs = command.op == Op::Flush || (command.op != Op::Read && command.fua);
        if matches!(command.op, Op::Write | Op::WriteZeroes) {
            self.settle_trims(range.0..range.0 + range.1, now_ps)?;
        }
        match command.op {
            Op::Read => {
                self.store.load(range.0, range.1)?;
                self.store.fetch(range.0, range.1);
                self.submit_part(slot, Kind::Read, range, now_ps).map(drop)
            }
            Op::Write => self.write(slot, range, Some(data), now_ps),
            Op::Trim | Op::WriteZeroes => self.trim(slot, range, now_ps),
            Op::Zone(action, all) => self.manage_zones(slot, action, (!all).then_some(range.0), now_ps),
            Op::Flush => self.submit_part(slot, Kind::Flush, (0, 0), now_ps).map(drop),
        }
    }

    /// Submits a part of a command to the model; returns its number, `None` without a model. Data that have to be durable
    /// pass the buffer by.
    pub(super) fn submit_part(
        &mut self,
        slot: usize,
        kind: Kind,
        range: (u64, u64),
        now_ps: u64,
    ) -> Result<Option<u64>, Status> {
        let Some(model) = self.model.as_mut().filter(|_| self.fixed_latency_ps.is_none()) else {
            return Ok(None);
        };
        let state = &mut self.in_flight[slot];
        // The model refuses only ranges beyond the drive, which were refused before.
        let request =
            model.submit(now_ps, kind, range, kind == Kind::Write && state.syncs).map_err(|_| Status::Failed)?;
        self.by_request.insert(request, slot);
        state.parts += 1;
        Ok(Some(request))
    }

    /// Writes data, or zeroes. The durable content of each page is kept until the model has programmed
    /// the new one; without a model it is durable at once.
    pub(super) fn write(
        &mut self,
        slot: usize,
        range: (u64, u64),
        data: Option<&[u8]>,
        now_ps: u64,
    ) -> Result<(), Status> {
        let (offset, length) = range;
        self.store.load_ends(offset, length)?;
        let modelled = self.model.is_some() && self.fixed_latency_ps.is_none();
        if modelled {
            let pages = self.pages(range);
            let (from, (last, bytes)) = (self.page(pages.start).0, self.page(pages.end - 1));
            self.store.load(from, last + bytes - from)?;
        }
        if let Some(request) = self.submit_part(slot, Kind::Write, range, now_ps)? {
            for page in self.pages(range) {
                let (from, bytes) = self.page(page);
                let present = self.store.present(from, bytes);
                self.write_cache.write(page, request, present);
            }
        }
        self.note_change(offset..offset + length);
        match data {
            Some(data) => self.store.write(offset, data),
            None => self.store.zero(offset, length),
        }
        if modelled { Ok(()) } else { self.store.write_back(offset, length) }
    }

    pub(super) fn page_bytes(&self) -> u64 {
        self.model.as_ref().map_or(4096, |model| model.page_bytes)
    }

    /// Numbers of the model's pages that a range touches.
    pub(super) fn pages(&self, (offset, length): (u64, u64)) -> Range<u32> {
        let page_bytes = self.page_bytes();
        (offset / page_bytes) as u32..(offset + length).div_ceil(page_bytes) as u32
    }

    /// A page's range within the drive.
    pub(super) fn page(&self, page: u32) -> (u64, u64) {
        let page_bytes = self.page_bytes();
        let from = u64::from(page) * page_bytes;
        (from, page_bytes.min(self.facts.size_bytes - from))
    }
}
