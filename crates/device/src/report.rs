//! The drive's report on itself, as JSON. Every key carries its unit. Tables and sentences are made of it elsewhere.

use ioassay_sim::drive::Counters;
use ioassay_sim::engine::OnlineDrive;
use ioassay_stats::Histogram;
use serde::Serialize;

use crate::counters::{CommandCounters, NamespaceCounters};
use crate::faults::FaultReport;
use crate::namespace::Namespace;
use crate::zones::ZoneCounts;

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
#[derive(Debug, Clone, Copy, Serialize)]
pub struct NamespaceReport {
    pub id: u32,
    pub size_bytes: u64,
    #[serde(flatten)]
    pub counters: NamespaceCounters,
}

impl NamespaceReport {
    pub fn of(namespace: Namespace<'_>, counters: &NamespaceCounters) -> Self {
        Self { id: namespace.id, size_bytes: namespace.facts.size_bytes, counters: *counters }
    }
}

/// All counters at one time, with histograms: quick to take, so that no command waits. Another thread makes the
/// [`Report`] of it.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot<D = Histogram> {
    #[serde(flatten)]
    pub state: DriveState,
    #[serde(flatten)]
    pub counters: CommandCounters<D>,
}

/// A snapshot as clients get it.
pub type Report = Snapshot<Distribution>;

impl Snapshot {
    /// Makes the report, with the histograms' buckets if wanted.
    pub fn report(&self, buckets: bool) -> Report {
        let counters = self.counters.map(|histogram| Distribution::of(histogram, buckets));
        Snapshot { state: self.state.clone(), counters }
    }
}

/// All that a report says in addition to the commands of all namespaces.
#[derive(Debug, Clone, Serialize)]
pub struct DriveState {
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
}

#[derive(Debug, Clone, Serialize)]
pub struct Distribution {
    pub count: u64,
    pub min: Option<u64>,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub max: Option<u64>,
    /// Values with their counts, where requested.
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

/// What flash did since the counters were reset.
#[derive(Debug, Clone, Serialize)]
pub struct FlashReport {
    #[serde(flatten)]
    pub counters: Counters,
    /// Pages programmed for each page written.
    pub write_amplification: Option<f64>,
}

impl From<Counters> for FlashReport {
    fn from(counters: Counters) -> Self {
        Self { counters, write_amplification: counters.write_amplification() }
    }
}
