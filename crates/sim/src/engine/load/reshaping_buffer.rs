//! A write buffer before the drive: what it evicts is the load.

use ioassay_block::Kind;

use crate::engine::WriteBuffer;
use crate::engine::load::requests::Fed;
use crate::engine::tally::Tally;
use crate::policy::{Access, Action, Eviction, Outlook, Policy};

pub(in crate::engine) struct Reshape {
    policy: Box<dyn Policy + Send>,
    pad_reads: bool,
    evicted: Vec<Eviction>,
    page_sectors: u32,
}

impl Reshape {
    pub fn new(buffer: WriteBuffer, page_sectors: u32) -> Self {
        Self {
            policy: buffer.policy,
            pad_reads: buffer.pad_reads,
            evicted: Vec::new(),
            page_sectors,
        }
    }

    pub fn held(&self) -> u64 {
        self.policy.len() as u64
    }

    /// Takes one request of the trace, page by page; what goes to the drive is appended to `out`,
    /// at the request's own time.
    #[inline]
    pub fn take(
        &mut self,
        fed: &Fed,
        outlook: &Outlook<'_>,
        out: &mut Vec<Fed>,
        tally: &mut Tally,
    ) {
        match fed.kind {
            Kind::Write => {
                tally.buffered_writes += u64::from(fed.pages);
                for page in fed.first..fed.first + fed.pages {
                    let access = self.policy.write(page, outlook, &mut self.evicted);
                    tally.write_hits += u64::from(access == Access::Hit);
                }
                self.pass_on(fed.at_ps, out, tally);
            }
            Kind::Read => self.read(fed, out, tally),
            Kind::Trim => {
                for page in fed.first..fed.first + fed.pages {
                    self.policy.discard(page);
                }
                out.push(*fed);
            }
            Kind::Flush => {
                self.policy.drain(&mut self.evicted);
                self.pass_on(fed.at_ps, out, tally);
            }
        }
    }

    /// Pages that are in the buffer need no flash; the others are read from the drive.
    fn read(&mut self, fed: &Fed, out: &mut Vec<Fed>, tally: &mut Tally) {
        tally.buffered_reads += u64::from(fed.pages);
        for (page, index) in (fed.first..).zip(0..fed.pages) {
            self.policy.read(page);
            if self.policy.holds(page) {
                tally.read_hits += 1;
                continue;
            }
            out.push(Fed {
                first: page,
                pages: 1,
                sectors: fed.sectors_of(index, self.page_sectors),
                skip: if index == 0 { fed.skip } else { 0 },
                ..*fed
            });
        }
    }

    #[inline]
    fn pass_on(&mut self, at_ps: u64, out: &mut Vec<Fed>, tally: &mut Tally) {
        // Mostly one page leaves when one comes.
        if let [eviction] = self.evicted[..] {
            if eviction.action == Action::Write {
                self.evicted.clear();
                tally.evicted_pages += u64::from(eviction.pages);
                out.push(self.fed(at_ps, &eviction));
            }
        }
        if !self.evicted.is_empty() {
            self.pass_all_on(at_ps, out, tally);
        }
    }

    #[inline]
    fn fed(&self, at_ps: u64, eviction: &Eviction) -> Fed {
        Fed {
            at_ps,
            first: eviction.first,
            pages: eviction.pages,
            sectors: eviction.pages * self.page_sectors,
            skip: 0,
            kind: if eviction.action == Action::PadRead {
                Kind::Read
            } else {
                Kind::Write
            },
            through: false,
        }
    }

    fn pass_all_on(&mut self, at_ps: u64, out: &mut Vec<Fed>, tally: &mut Tally) {
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
                _ => out.push(self.fed(at_ps, &eviction)),
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
