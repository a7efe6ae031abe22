//! What the drive tells of itself, as JSON. Every key carries its unit.

use ioassay_sim::drive::Counters;
use ioassay_sim::engine::OnlineDrive;
use ioassay_stats::Histogram;
use serde::Serialize;

use crate::command::Facts;
use crate::counters::{Figures, OpFigures};

/// The write buffer.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Buffered {
    /// Pages that it can hold.
    pub capacity_pages: u64,
    /// Pages that it holds.
    pub held_pages: u64,
    /// Pages written to it.
    pub written_pages: u64,
    /// Among them those that were in it.
    pub write_hits: u64,
    /// Pages read.
    pub read_pages: u64,
    /// Among them those that it had.
    pub read_hits: u64,
}

impl Buffered {
    /// That of a drive; all is 0 where it has none.
    #[must_use]
    pub fn of(drive: &OnlineDrive) -> Self {
        let [(written_pages, write_hits), (read_pages, read_hits)] = drive.buffer_hits();
        Self {
            capacity_pages: drive.buffer_capacity_pages(),
            held_pages: drive.buffered_pages(),
            written_pages,
            write_hits,
            read_pages,
            read_hits,
        }
    }
}

/// What was seen at one moment: quick to take, so that nobody waits; [`Snapshot::statistics`] makes
/// something to read of it, elsewhere.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The drive.
    pub facts: Facts,
    /// Since it was started, picoseconds.
    pub served_ps: u64,
    /// Since the figures were set back, picoseconds.
    pub counted_ps: u64,
    /// The commands.
    pub figures: Figures,
    /// Commands in flight.
    pub depth: u64,
    /// What flash did, where there is a model.
    pub flash: Option<Counters>,
    /// What the buffer did, where there is a model.
    pub buffer: Option<Buffered>,
    /// Pages that a power cut would touch.
    pub volatile_pages: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Pages whose content they changed.
    pub lost_pages: u64,
    /// Why the drive can only be read.
    pub worn_out: Option<String>,
}

/// A distribution.
#[derive(Debug, Clone, Serialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// The least.
    pub min: Option<u64>,
    /// Their mean.
    pub mean: Option<f64>,
    /// Half are no more.
    pub p50: Option<f64>,
    /// 90 % are no more.
    pub p90: Option<f64>,
    /// 99 % are no more.
    pub p99: Option<f64>,
    /// 99.9 % are no more.
    pub p999: Option<f64>,
    /// The most.
    pub max: Option<u64>,
    /// Values and how often each occurred, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Vec<(u64, u64)>>,
}

impl Distribution {
    fn of(histogram: &Histogram, buckets: bool) -> Self {
        let at = |q| histogram.value_at_quantile(q).ok();
        let pairs = || histogram.buckets().map(|one| (one.value, one.count));
        Self {
            count: histogram.count(),
            min: histogram.moments().min(),
            mean: histogram.moments().mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.moments().max(),
            buckets: buckets.then(|| pairs().collect()),
        }
    }
}

/// Commands of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct OpStatistics {
    /// Answered as they were wanted.
    pub commands: u64,
    /// Bytes of their ranges.
    pub bytes: u64,
    /// Answered with an error.
    pub errors: u64,
    /// From arrival to answer.
    pub latency_ns: Distribution,
}

impl OpStatistics {
    fn of(figures: &OpFigures, buckets: bool) -> Self {
        Self {
            commands: figures.commands,
            bytes: figures.bytes,
            errors: figures.errors,
            latency_ns: Distribution::of(&figures.latency_ns, buckets),
        }
    }
}

/// What flash did.
#[derive(Debug, Clone, Serialize)]
pub struct Flash {
    /// Pages that the host, or the buffer, had written.
    pub written_pages: u64,
    /// Pages read.
    pub read_pages: u64,
    /// Pages discarded.
    pub trimmed_pages: u64,
    /// Valid pages that cleaning moved.
    pub moved_pages: u64,
    /// Blocks cleaned.
    pub cleanings: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks that are dead.
    pub dead_blocks: u32,
    /// Pages programmed for each page written.
    pub write_amplification: Option<f64>,
}

impl From<Counters> for Flash {
    fn from(counters: Counters) -> Self {
        Self {
            written_pages: counters.written_pages,
            read_pages: counters.read_pages,
            trimmed_pages: counters.trimmed_pages,
            moved_pages: counters.moved_pages,
            cleanings: counters.collected_blocks,
            erases: counters.erases,
            dead_blocks: counters.dead_blocks,
            write_amplification: counters.write_amplification(),
        }
    }
}

/// What the drive tells of itself.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// Version of these keys.
    pub schema: u32,
    /// Bytes of the drive.
    pub size_bytes: u64,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Since it was started.
    pub served_s: f64,
    /// Since the figures were set back.
    pub counted_s: f64,
    /// Of that, with commands in flight.
    pub busy_s: f64,
    /// Reads.
    pub reads: OpStatistics,
    /// Writes.
    pub writes: OpStatistics,
    /// Trims and zeroes.
    pub trims: OpStatistics,
    /// Flushes.
    pub flushes: OpStatistics,
    /// Of each answer how much later than its deadline it left.
    pub late_ns: Distribution,
    /// Commands in flight.
    pub depth_now: u64,
    /// Commands in flight whenever one came, itself included.
    pub depth: Distribution,
    /// The write buffer; absent without a model.
    pub buffer: Option<Buffered>,
    /// Flash; absent without a model.
    pub flash: Option<Flash>,
    /// Pages that a power cut would touch.
    pub volatile_pages: u64,
    /// Power cuts since it was started.
    pub power_cuts: u64,
    /// Pages whose content they changed.
    pub lost_pages: u64,
    /// Why it can only be read.
    pub worn_out: Option<String>,
}

impl Snapshot {
    /// What it says, with the histograms' buckets or without.
    #[must_use]
    pub fn statistics(&self, buckets: bool) -> Statistics {
        let (figures, s) = (&self.figures, |ps: u64| ps as f64 / 1e12);
        Statistics {
            schema: 1,
            size_bytes: self.facts.size_bytes,
            block_bytes: self.facts.block_bytes,
            read_only: self.facts.read_only,
            served_s: s(self.served_ps),
            counted_s: s(self.counted_ps),
            busy_s: s(figures.busy_ps),
            reads: OpStatistics::of(&figures.reads, buckets),
            writes: OpStatistics::of(&figures.writes, buckets),
            trims: OpStatistics::of(&figures.trims, buckets),
            flushes: OpStatistics::of(&figures.flushes, buckets),
            late_ns: Distribution::of(&figures.late_ns, buckets),
            depth_now: self.depth,
            depth: Distribution::of(&figures.depth, buckets),
            buffer: self.buffer,
            flash: self.flash.map(Flash::from),
            volatile_pages: self.volatile_pages,
            power_cuts: self.power_cuts,
            lost_pages: self.lost_pages,
            worn_out: self.worn_out.clone(),
        }
    }
}
