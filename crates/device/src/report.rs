//! The drive's report on itself, as JSON, and the counters of commands in it. Every key carries its unit. Tables and
//! sentences are made of it elsewhere. Flash and the write buffer are counted by the simulation.

use ioassay_sim::drive::Counters;
use ioassay_sim::engine::OnlineDrive;
use ioassay_stats::Histogram;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::command::{Answer, Op, Status};
use crate::faults::FaultReport;
use crate::zones::ZoneCounts;

/// Commands of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OpCounters {
    pub commands: u64,
    pub bytes: u64,
    pub errors: u64,
}

impl OpCounters {
    fn record(&mut self, answer: &Answer) {
        if answer.status == Status::Done {
            self.commands += 1;
            self.bytes += answer.command.length_bytes;
        } else {
            self.errors += 1;
        }
    }
}

/// Commands that concern blocks, by their kinds: those of a namespace. Flushes are none: they concern the whole drive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BlockCounters<C = OpCounters> {
    pub reads: C,
    pub writes: C,
    pub trims: C,
}

impl<C> BlockCounters<C> {
    fn of(&mut self, op: Op) -> Option<&mut C> {
        match op {
            Op::Read => Some(&mut self.reads),
            Op::Write => Some(&mut self.writes),
            Op::Trim | Op::WriteZeroes | Op::Zone(..) => Some(&mut self.trims),
            Op::Flush => None,
        }
    }
}

impl BlockCounters {
    /// A command of the namespace was answered.
    pub fn record(&mut self, answer: &Answer) {
        if let Some(counters) = self.of(answer.command.op) {
            counters.record(answer);
        }
    }
}

/// Commands of one kind, and how long they took.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TimedCounters {
    #[serde(flatten)]
    pub counters: OpCounters,
    /// From arrival to answer, nanoseconds, of successful ones.
    #[serde(serialize_with = "distribution")]
    pub latency_ns: Histogram,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct CommandCounters {
    #[serde(flatten)]
    pub blocks: BlockCounters<TimedCounters>,
    pub flushes: TimedCounters,
    /// How late each answer was given to the system, after its deadline, nanoseconds.
    #[serde(serialize_with = "distribution")]
    pub late_ns: Histogram,
    /// Commands in flight at each arrival, including the new one.
    #[serde(serialize_with = "distribution")]
    pub depth: Histogram,
    /// Time with commands in flight, picoseconds.
    #[serde(skip)]
    pub busy_ps: u64,
}

impl CommandCounters {
    /// An answer was given to the system at `at_ps`.
    pub fn record(&mut self, answer: &Answer, at_ps: u64) {
        self.late_ns.record(at_ps.saturating_sub(answer.deadline_ps) / 1000);
        let timed = self.blocks.of(answer.command.op).unwrap_or(&mut self.flushes);
        timed.counters.record(answer);
        if answer.status == Status::Done {
            timed.latency_ns.record(at_ps.saturating_sub(answer.arrived_ps) / 1000);
        }
    }
}

/// Where distributions are in the JSON of [`CommandCounters`].
pub const DISTRIBUTIONS: [&str; 6] =
    ["/reads/latency_ns", "/writes/latency_ns", "/trims/latency_ns", "/flushes/latency_ns", "/late_ns", "/depth"];

/// A distribution as a report has it; `buckets` are its values with their counts.
fn distribution<S: Serializer>(histogram: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
    let at = |q| histogram.value_at_quantile(q).ok();
    let moments = histogram.moments();
    let buckets: Vec<(u64, u64)> = histogram.buckets().map(|one| (one.value, one.count)).collect();
    json!({
        "count": histogram.count(), "min": moments.min(), "mean": moments.mean(), "max": moments.max(),
        "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "buckets": buckets,
    })
    .serialize(serializer)
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct BufferReport {
    /// Pages that it can hold.
    pub capacity_pages: u64,
    pub held_pages: u64,
    pub written_pages: u64,
    /// Among them those that were in it.
    pub write_hits: u64,
    pub read_pages: u64,
    /// Among them those that it had.
    pub read_hits: u64,
}

impl BufferReport {
    /// The report on the buffer of a drive; all is 0 without a buffer.
    pub fn of(drive: &OnlineDrive) -> Self {
        let tally = drive.tally();
        Self {
            capacity_pages: drive.buffer_capacity_pages(),
            held_pages: drive.buffered_pages(),
            written_pages: tally.buffered_writes,
            write_hits: tally.write_hits,
            read_pages: tally.buffered_reads,
            read_hits: tally.read_hits,
        }
    }
}

/// The mapping cache of a drive whose memory does not hold the whole mapping.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MappingReport {
    /// Pages read whose entry was in it.
    pub hits: u64,
    /// Pages read whose entry was not.
    pub misses: u64,
    pub translation_reads: u64,
    pub translation_writes: u64,
}

impl MappingReport {
    /// The report on the mapping cache of a drive; `None` where the memory holds the whole mapping.
    pub fn of(drive: &OnlineDrive) -> Option<Self> {
        let (spec, tally) = (drive.drive().spec(), drive.tally());
        let entries = spec.controller.as_ref()?.cached_entries(spec);
        (entries > 0).then_some(Self {
            hits: tally.mapping_hits,
            misses: tally.mapping_misses,
            translation_reads: tally.translation_reads,
            translation_writes: tally.translation_writes,
        })
    }
}

/// A namespace, and the commands of it.
#[derive(Debug, Clone, Serialize)]
pub struct NamespaceReport {
    pub id: u32,
    pub size_bytes: u64,
    #[serde(flatten)]
    pub counters: BlockCounters,
}

/// All counters at one time, with histograms: quick to take, so that no command waits. Another thread makes the JSON of
/// it, with the histograms' buckets.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub schema: u32,
    pub size_bytes: u64,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    pub read_only: bool,
    pub served_s: f64,
    /// Time since the counters were reset.
    pub counted_s: f64,
    /// Of that, with commands in flight.
    pub busy_s: f64,
    /// The namespaces, and the commands of each.
    pub namespaces: Vec<NamespaceReport>,
    pub depth_now: u64,
    /// The write buffer; absent without a model.
    pub buffer: Option<BufferReport>,
    /// Flash; absent without a model.
    pub flash: Option<FlashReport>,
    /// The mapping cache; absent where the memory holds the whole mapping.
    pub mapping: Option<MappingReport>,
    /// Pages whose content a power cut would change.
    pub volatile_pages: u64,
    /// Power cuts since it was started.
    pub power_cuts: u64,
    /// Pages whose content they changed.
    pub lost_pages: u64,
    /// Why it can only be read.
    pub worn_out: Option<String>,
    /// Times that faults struck since the counters were reset, of those too that were cleared.
    pub faults_fired: u64,
    /// Its faults, each with what it says, and how often it struck since it was armed.
    pub faults: Vec<FaultReport>,
    /// Numbers of its zones by their states; absent without zones.
    pub zones: Option<ZoneCounts>,
    #[serde(flatten)]
    pub counters: CommandCounters,
}

/// What flash did since the counters were reset.
#[derive(Debug, Clone, Serialize)]
pub struct FlashReport {
    #[serde(flatten)]
    pub counters: Counters,
    /// Pages programmed for each page written.
    pub write_amplification: Option<f64>,
}

impl FlashReport {
    pub fn of(counters: Counters) -> Self {
        Self { counters, write_amplification: counters.write_amplification() }
    }
}
