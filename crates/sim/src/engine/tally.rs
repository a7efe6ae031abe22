//! Counts of requests and pages during a run. The counts of flash operations are the drive's own.

use ioassay_block::Kind;
use ioassay_stats::Histogram;

/// Response times that are recorded together: one pass over many is cheaper than many over one.
const BATCH: usize = 512;

/// Response times and transfers of one kind of request.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Responses {
    /// From issue to completion, nanoseconds.
    pub response_ns: Histogram,
    pub response_ps: u128,
    /// From dispatch to completion, summed up, picoseconds.
    pub device_ps: u128,
    pub sectors: u64,
    recent_ns: Vec<u64>,
}

impl Responses {
    #[inline]
    fn record(&mut self, response_ps: u64, device_ps: u64, sectors: u32) {
        self.response_ps += u128::from(response_ps);
        self.device_ps += u128::from(device_ps);
        self.sectors += u64::from(sectors);
        self.record_response(response_ps);
    }

    /// Records a response time, but not in the sums.
    #[inline]
    pub(super) fn record_response(&mut self, response_ps: u64) {
        self.recent_ns.push((response_ps + 500) / 1000);
        if self.recent_ns.len() >= BATCH {
            self.record_recent();
        }
    }

    #[inline(never)]
    pub(super) fn record_recent(&mut self) {
        self.response_ns.record_all(&self.recent_ns);
        self.recent_ns.clear();
    }

    pub fn count(&self) -> u64 {
        self.response_ns.count()
    }

    /// Mean response time, picoseconds; `None` without a request.
    pub fn mean_response_ps(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.response_ps as f64 / self.count() as f64)
    }

    /// Mean time in the drive, without the wait in the host's queue, picoseconds.
    pub fn mean_device_ps(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.device_ps as f64 / self.count() as f64)
    }

    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.response_ns.merge(&other.response_ns);
        sum.response_ps += other.response_ps;
        sum.device_ps += other.device_ps;
        sum.sectors += other.sectors;
        sum
    }
}

#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    pub reads: Responses,
    pub writes: Responses,
    /// Trims and flushes that completed.
    pub others: Responses,
    pub issued: u64,
    /// Requests issued that did not complete before the end.
    pub unfinished: u64,
    /// Whether the run was given up because too many were outstanding.
    pub gave_up: bool,
    /// When the last request was issued, picoseconds after the first.
    pub last_issue_ps: u64,
    pub last_completion_ps: u64,
    /// Page writes to the buffer.
    pub buffered_writes: u64,
    pub write_hits: u64,
    /// Page reads that looked in the buffer.
    pub buffered_reads: u64,
    pub read_hits: u64,
    /// Pages evicted by the buffer.
    pub evicted_pages: u64,
    /// Pages read to pad blocks.
    pub pad_reads: u64,
    /// Pages written to pad blocks.
    pub pad_writes: u64,
    /// Pages in the buffer at the end.
    pub buffered_at_end: u64,
    /// Pages that waited for room in the write cache of a controller.
    pub cache_waits: u64,
    /// Program and erase operations that reads suspended.
    pub suspensions: u64,
    /// Pages read whose entry the mapping cache had.
    pub mapping_hits: u64,
    /// Pages read whose entry it had not.
    pub mapping_misses: u64,
    pub translation_reads: u64,
    pub translation_writes: u64,
    /// Busy time of each element, picoseconds.
    pub busy_ps: Vec<u64>,
    /// The response time of each request, where they are wanted one by one.
    #[serde(skip)]
    pub latencies: Option<Latencies>,
}

/// Response times in order of issue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Latencies {
    /// Picoseconds; `u64::MAX` for a request that is not complete.
    pub latencies_ps: Vec<u64>,
    /// For each request in flight, by its number in the engine, its place among them.
    places: Vec<usize>,
}

impl Latencies {
    fn issue(&mut self, id: u32) {
        let id = id as usize;
        if id >= self.places.len() {
            self.places.resize(id + 1, 0);
        }
        self.places[id] = self.latencies_ps.len();
        self.latencies_ps.push(u64::MAX);
    }
}

impl Tally {
    #[inline]
    pub(super) fn issue(&mut self, id: u32) {
        if let Some(latencies) = &mut self.latencies {
            latencies.issue(id);
        }
    }

    #[inline]
    pub(super) fn record_latency(&mut self, id: u32, response_ps: u64) {
        if let Some(latencies) = &mut self.latencies {
            latencies.latencies_ps[latencies.places[id as usize]] = response_ps;
        }
    }

    #[inline]
    pub(super) fn complete(&mut self, kind: Kind, response_ps: u64, device_ps: u64, sectors: u32) {
        let responses = match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
            Kind::Trim | Kind::Flush => &mut self.others,
        };
        responses.record(response_ps, device_ps, sectors);
    }

    pub(super) fn record_recent(&mut self) {
        for responses in [&mut self.reads, &mut self.writes, &mut self.others] {
            responses.record_recent();
        }
    }

    pub fn transfers(&self) -> Responses {
        self.reads.plus(&self.writes)
    }

    /// Hit ratio of page writes; `None` without a buffer.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.buffered_writes > 0).then(|| self.write_hits as f64 / self.buffered_writes as f64)
    }
}
