//! A write buffer in front of the drive: its evictions are the load.

use ioassay_block::Kind;

use crate::engine::WriteBuffer;
use crate::engine::load::requests::DriveRequest;
use crate::engine::tally::Tally;
use crate::policy::{Access, Action, DriveState, Eviction, Policy};

pub(in crate::engine) struct ReshapingBuffer {
    pub policy: Box<dyn Policy + Send>,
    pub pad_reads: bool,
    evicted: Vec<Eviction>,
    page_sectors: u32,
}

impl ReshapingBuffer {
    pub fn new(buffer: WriteBuffer, page_sectors: u32) -> Self {
        Self { policy: buffer.policy, pad_reads: buffer.pad_reads, evicted: Vec::new(), page_sectors }
    }

    pub fn held_pages(&self) -> u64 {
        self.policy.len() as u64
    }

    /// Applies one request of the trace, page by page. Requests for the drive are appended to `out`,
    /// at the time of this request.
    #[inline]
    pub fn apply(
        &mut self,
        request: &DriveRequest,
        drive_state: &DriveState<'_>,
        out: &mut Vec<DriveRequest>,
        tally: &mut Tally,
    ) {
        match request.kind {
            Kind::Write => {
                tally.buffered_writes += u64::from(request.pages);
                for page in request.first..request.first + request.pages {
                    let access = self.policy.write(page, drive_state, &mut self.evicted);
                    tally.write_hits += u64::from(access == Access::Hit);
                }
                self.emit(request.at_ps, out, tally);
            }
            Kind::Read => self.read(request, out, tally),
            Kind::Trim => {
                for page in request.first..request.first + request.pages {
                    self.policy.discard(page);
                }
                out.push(*request);
            }
            Kind::Flush => {
                self.policy.drain(&mut self.evicted);
                self.emit_all(request.at_ps, out, tally);
            }
        }
    }

    /// Pages that the buffer holds need no flash; the others are read from the drive.
    fn read(&mut self, request: &DriveRequest, out: &mut Vec<DriveRequest>, tally: &mut Tally) {
        tally.buffered_reads += u64::from(request.pages);
        for (page, index) in (request.first..).zip(0..request.pages) {
            if self.policy.holds(page) {
                tally.read_hits += 1;
                continue;
            }
            out.push(DriveRequest {
                first: page,
                pages: 1,
                sectors: request.sectors_of(index, self.page_sectors),
                skip: if index == 0 { request.skip } else { 0 },
                ..*request
            });
        }
    }

    #[inline]
    fn emit(&mut self, at_ps: u64, out: &mut Vec<DriveRequest>, tally: &mut Tally) {
        // Mostly one page is evicted for each that is written.
        if let [eviction] = self.evicted[..] {
            if eviction.action == Action::Write {
                self.evicted.clear();
                tally.evicted_pages += u64::from(eviction.pages);
                out.push(self.drive_request(at_ps, &eviction));
            }
        }
        if !self.evicted.is_empty() {
            self.emit_all(at_ps, out, tally);
        }
    }

    #[inline]
    fn drive_request(&self, at_ps: u64, eviction: &Eviction) -> DriveRequest {
        DriveRequest {
            at_ps,
            first: eviction.first,
            pages: eviction.pages,
            sectors: eviction.pages * self.page_sectors,
            skip: 0,
            kind: if eviction.action == Action::PadRead { Kind::Read } else { Kind::Write },
            bypass: false,
            flow: 0,
        }
    }

    fn emit_all(&mut self, at_ps: u64, out: &mut Vec<DriveRequest>, tally: &mut Tally) {
        let mut evicted = std::mem::take(&mut self.evicted);
        for eviction in evicted.drain(..) {
            tally.count_eviction(&eviction);
            if eviction.action == Action::PadRead && !self.pad_reads {
                continue;
            }
            match out.last_mut() {
                Some(last) if eviction.joined => {
                    last.pages += eviction.pages;
                    last.sectors += eviction.pages * self.page_sectors;
                }
                _ => out.push(self.drive_request(at_ps, &eviction)),
            }
        }
        self.evicted = evicted;
    }
}

impl Tally {
    pub(in crate::engine) fn count_eviction(&mut self, eviction: &Eviction) {
        let pages = u64::from(eviction.pages);
        match eviction.action {
            Action::Write => self.evicted_pages += pages,
            Action::PadRead => self.pad_reads += pages,
            Action::PadWrite => self.pad_writes += pages,
        }
    }
}
