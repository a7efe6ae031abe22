//! What a trace is like: one pass, in memory that does not grow with it.
//!
//! A [`Survey`] takes requests and gives [`Info`]; [`Info::warnings`] says what makes a trace
//! implausible. It deliberately judges no workload: a trace of writes alone may be what was wanted.

mod pages;
mod plausibility;

pub use plausibility::TraceWarning;

use std::collections::BTreeMap;

use ioassay_stats::Histogram;

use crate::{Kind, Request};
use pages::Pages;

/// Devices that are told apart; what real traces of whole clouds have is a few thousand.
const MOST_DEVICES: usize = 1 << 16;
const SECTOR_BYTES: u64 = 512;
const DAY_NS: u64 = 86_400_000_000_000;
/// Longer requests are doubted: kernels split at far less.
const LONG_BYTES: u64 = 64 << 20;

/// Requests and bytes of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub requests: u64,
    pub bytes: u128,
}

/// What a trace is like.
#[derive(Debug, Clone)]
pub struct Info {
    pub reads: Amount,
    pub writes: Amount,
    pub trims: Amount,
    pub flushes: Amount,
    pub first_ns: u64,
    pub last_ns: u64,
    /// Lengths of all but flushes.
    pub sizes_bytes: Histogram,
    /// Times between one request and the next, where they do not go back.
    pub gaps_ns: Histogram,
    /// Gaps of more than a day.
    pub long_gaps: u64,
    /// How often a time stamp is earlier than the one before.
    pub backward: u64,
    /// Different time stamps, if they do not go back (else runs of equal ones).
    pub distinct_times: u64,
    /// Most requests with one time stamp, one after the other.
    pub largest_burst: u64,
    /// Where the request that reaches furthest ends.
    pub end_bytes: u64,
    /// The largest power of two of which all offsets are multiples; 0 where all are 0.
    pub offset_align_bytes: u64,
    /// The largest power of two of which all lengths are multiples; 0 where all are 0.
    pub length_align_bytes: u64,
    /// Requests of no bytes that are no flush.
    pub empty: u64,
    /// Requests whose length is no multiple of 512 bytes.
    pub odd_sizes: u64,
    /// Requests longer than 64 MiB.
    pub long_requests: u64,
    /// Requests that begin where the one before on the same device ended.
    pub sequential: u64,
    /// Number of devices; 65,536 means at least as many.
    pub devices: u64,
    /// Bytes of a page, for the counts that follow.
    pub page_bytes: u64,
    pub distinct_pages: u64,
    /// Whether that is a count; otherwise it is an estimate, to about 0.1 %.
    pub pages_exact: bool,
    /// Share of the accesses to pages that went to the hottest 1 % of the pages touched.
    pub hottest_1_percent: Option<f64>,
    /// The same of the hottest 20 %.
    pub hottest_20_percent: Option<f64>,
}

impl Info {
    pub fn requests(&self) -> u64 {
        let kinds = [self.reads, self.writes, self.trims, self.flushes];
        kinds.iter().map(|kind| kind.requests).sum()
    }

    /// From the first to the last time stamp.
    pub fn span_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }

    /// Gaps over span: requests a second. Nothing where the span is 0.
    pub fn requests_per_second(&self) -> Option<f64> {
        let span_s = self.span_ns() as f64 / 1e9;
        (span_s > 0.0).then(|| (self.requests() - 1) as f64 / span_s)
    }

    /// What makes the trace implausible.
    pub fn warnings(&self) -> Vec<TraceWarning> {
        TraceWarning::of(self)
    }
}

/// Takes the requests of a trace in.
pub struct Survey {
    info: Info,
    pages: Pages,
    /// Where the last request on each device ended.
    ends: BTreeMap<u32, u64>,
    offsets: u64,
    lengths: u64,
    previous_ns: Option<u64>,
    burst: u64,
    /// Requests of which only the first pages were looked at.
    truncated: bool,
}

impl Survey {
    /// Of pages of so many bytes, at least 1.
    pub fn new(page_bytes: u64) -> Self {
        Self {
            info: Info {
                reads: Amount::default(),
                writes: Amount::default(),
                trims: Amount::default(),
                flushes: Amount::default(),
                first_ns: u64::MAX,
                last_ns: 0,
                sizes_bytes: Histogram::new(),
                gaps_ns: Histogram::new(),
                long_gaps: 0,
                backward: 0,
                distinct_times: 0,
                largest_burst: 0,
                end_bytes: 0,
                offset_align_bytes: 0,
                length_align_bytes: 0,
                empty: 0,
                odd_sizes: 0,
                long_requests: 0,
                sequential: 0,
                devices: 0,
                page_bytes: page_bytes.max(1),
                distinct_pages: 0,
                pages_exact: true,
                hottest_1_percent: None,
                hottest_20_percent: None,
            },
            pages: Pages::new(),
            ends: BTreeMap::new(),
            offsets: 0,
            lengths: 0,
            previous_ns: None,
            burst: 0,
            truncated: false,
        }
    }

    /// Takes requests in, in the order of the trace.
    pub fn take(&mut self, requests: &[Request]) {
        for request in requests {
            self.take_time(request.at_ns);
            let amount = match request.kind {
                Kind::Read => &mut self.info.reads,
                Kind::Write => &mut self.info.writes,
                Kind::Trim => &mut self.info.trims,
                Kind::Flush => &mut self.info.flushes,
            };
            amount.requests += 1;
            amount.bytes += u128::from(request.length_bytes);
            if request.kind == Kind::Flush {
                continue;
            }
            self.take_size(request.length_bytes);
            self.take_place(request);
            self.take_pages(request);
        }
    }

    fn take_time(&mut self, at_ns: u64) {
        let info = &mut self.info;
        info.first_ns = info.first_ns.min(at_ns);
        info.last_ns = info.last_ns.max(at_ns);
        match self.previous_ns.map(|previous| at_ns.checked_sub(previous)) {
            None => self.burst = 0,
            Some(None) => {
                info.backward += 1;
                self.burst = 0;
            }
            Some(Some(gap_ns)) => {
                info.gaps_ns.record(gap_ns);
                info.long_gaps += u64::from(gap_ns > DAY_NS);
                if gap_ns > 0 {
                    self.burst = 0;
                }
            }
        }
        info.distinct_times += u64::from(self.burst == 0);
        self.burst += 1;
        info.largest_burst = info.largest_burst.max(self.burst);
        self.previous_ns = Some(at_ns);
    }

    fn take_size(&mut self, length_bytes: u64) {
        let info = &mut self.info;
        info.sizes_bytes.record(length_bytes);
        info.empty += u64::from(length_bytes == 0);
        info.odd_sizes += u64::from(length_bytes % SECTOR_BYTES != 0);
        info.long_requests += u64::from(length_bytes > LONG_BYTES);
        self.lengths |= length_bytes;
    }

    fn take_place(&mut self, request: &Request) {
        let end_bytes = request.end_bytes().unwrap_or(u64::MAX);
        self.offsets |= request.offset_bytes;
        self.info.end_bytes = self.info.end_bytes.max(end_bytes);
        if let Some(end) = self.ends.get_mut(&request.device) {
            self.info.sequential += u64::from(*end == request.offset_bytes);
            *end = end_bytes;
        } else if self.ends.len() < MOST_DEVICES {
            self.ends.insert(request.device, end_bytes);
        }
    }

    fn take_pages(&mut self, request: &Request) {
        let Some(last_byte) = request.length_bytes.checked_sub(1) else {
            return;
        };
        let page_bytes = self.info.page_bytes;
        let first = request.offset_bytes / page_bytes;
        let last = request.offset_bytes.saturating_add(last_byte) / page_bytes;
        let upto = last.min(first.saturating_add(pages::MOST_PAGES - 1));
        self.truncated |= upto < last;
        for page in first..=upto {
            self.pages.touch(request.device, page);
        }
    }

    /// What all that was taken in is like.
    pub fn finish(self) -> Info {
        let mut info = self.info;
        info.first_ns = info.first_ns.min(info.last_ns); // of nothing it is the largest number
        info.offset_align_bytes = alignment_of(self.offsets);
        info.length_align_bytes = alignment_of(self.lengths);
        info.devices = self.ends.len() as u64;
        info.distinct_pages = self.pages.distinct();
        info.pages_exact = self.pages.exact() && !self.truncated;
        info.hottest_1_percent = self.pages.hottest(0.01);
        info.hottest_20_percent = self.pages.hottest(0.2);
        info
    }
}

/// The largest power of two of which all numbers are multiples that together have these bits.
fn alignment_of(bits: u64) -> u64 {
    1_u64.checked_shl(bits.trailing_zeros()).unwrap_or(0)
}
