//! The options of a server, and its report when the drive is ready. Values are checked where a drive is made of them.

use std::path::PathBuf;

use ioassay_sim::{BufferOptions, Preconditioned};
use serde::{Deserialize, Serialize};

use crate::faults::Fault;
use crate::geometry::Geometry;
use crate::zones::{ZoneCounts, ZoneOptions};

/// Whether the thread that serves may sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Poll {
    /// Never: no answer waits until it is woken.
    Always,
    /// When there was no command for `idle_ms`: the first one then takes longer, by what waking takes.
    Adaptive,
}

/// What is served and how. Read from JSON; absent keys are as in [`Options::default`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(clippy::struct_excessive_bools)] // what a user may want or not
pub struct Options {
    /// Size of the drive; without it that of the backing file.
    pub size_bytes: Option<u64>,
    /// Sizes of its namespaces, numbers 1 and up; empty for one that is the whole drive. Without a size,
    /// the drive is as large as all of them.
    pub namespaces_bytes: Vec<u64>,
    /// Bytes of a logical block, 512 or 4096.
    pub block_bytes: u32,
    /// Name of the model, one of [`MODELS`](crate::model::MODELS).
    pub model: String,
    /// Name of the description from which the changes come, if they come from one.
    pub profile: Option<String>,
    pub geometry: Geometry,
    /// The write buffer within the drive.
    pub buffer: BufferOptions,
    /// Share of the drive that is overwritten at random first, in the model alone.
    pub precondition: f64,
    /// The zones of a zoned drive.
    pub zones: Option<ZoneOptions>,
    pub backing_file: Option<PathBuf>,
    /// Whether the drive refuses writes.
    pub read_only: bool,
    /// Ways to reach it, such as `nbd:unix:drive.sock`; see [`TRANSPORTS`](crate::transport::TRANSPORTS).
    pub transports: Vec<String>,
    pub pin: Option<u32>,
    /// Whether all other processors are kept awake, by threads that run when nothing else does. Halted processors take
    /// long to wake, in a virtual machine most of all; but other programs are disturbed, and it costs power.
    pub keep_awake: bool,
    /// Whether the thread that serves runs before all programs of the usual scheduling class.
    pub realtime: bool,
    /// Whether the thread that serves may sleep.
    pub poll: Poll,
    /// Time without a command after which it does.
    pub idle_ms: u64,
    /// Whether the transports' overhead is measured and subtracted from the model's time.
    pub calibrate: bool,
    /// Unix socket for statistics and control.
    pub stats_socket: Option<PathBuf>,
    /// Whether all memory is taken at the start: that takes some tenths of a second for each GiB, and
    /// no first write of a page waits for the system later.
    pub prefault: bool,
    /// Memory that the drive may take; without it what the system has left.
    pub available_bytes: Option<u64>,
    pub serial: String,
    /// Faults that it has from the time on when it is ready.
    pub faults: Vec<Fault>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size_bytes: None,
            namespaces_bytes: Vec::new(),
            block_bytes: 512,
            model: "reference".into(),
            profile: None,
            geometry: Geometry::default(),
            buffer: BufferOptions::default(),
            precondition: 0.0,
            zones: None,
            backing_file: None,
            read_only: false,
            transports: Vec::new(),
            pin: None,
            keep_awake: false,
            realtime: false,
            poll: Poll::Adaptive,
            idle_ms: 200,
            calibrate: true,
            stats_socket: None,
            prefault: false,
            available_bytes: None,
            serial: "IOASSAY1".into(),
            faults: Vec::new(),
        }
    }
}

/// One transport, by which clients reach the drive.
#[derive(Debug, Clone, Serialize)]
pub struct TransportReport {
    pub transport: &'static str,
    pub address: String,
    /// The qualified name of its NVMe subsystem, where it has one.
    pub nqn: Option<String>,
    /// Its overhead at queue depth 1, nanoseconds, which is subtracted from the model's time.
    pub floor_ns: Option<u64>,
    /// Its overhead when the answer takes as long as a read of the model, so that the client may sleep. It
    /// is subtracted where a command is the only one in flight.
    pub alone_ns: Option<u64>,
    pub connections: usize,
}

/// A warning for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub kind: &'static str,
    /// The problem and its remedy.
    pub text: String,
}

/// How a drive was preconditioned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PreconditioningReport {
    /// Pages that were overwritten at random.
    pub written_pages: u64,
    /// Rounds that took, each of half of the pages in question.
    pub rounds: usize,
    /// Write amplification of the last round.
    pub write_amplification: Option<f64>,
    /// Whether the last rounds agreed: the drive is in its steady state.
    pub settled: bool,
}

impl From<&Preconditioned> for PreconditioningReport {
    fn from(done: &Preconditioned) -> Self {
        Self {
            written_pages: done.pages,
            rounds: done.write_amplification.len(),
            write_amplification: done.write_amplification.last().copied(),
            settled: done.settled,
        }
    }
}

/// A namespace of a drive that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NamespaceSize {
    pub id: u32,
    pub size_bytes: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Ready {
    #[serde(rename = "ways")]
    pub transports: Vec<TransportReport>,
    /// Socket for statistics and control.
    pub stats: Option<PathBuf>,
    pub size_bytes: u64,
    pub namespaces: Vec<NamespaceSize>,
    /// Memory that it takes at most: its content, tables, and what connections have under way.
    pub memory_bytes: u64,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    pub read_only: bool,
    pub model: String,
    /// Name of the description of its model, if it has one.
    pub profile: Option<String>,
    /// Bytes that the model has, which may be more than are served.
    pub model_bytes: Option<u64>,
    /// Bytes of a flash page, the unit of `flash` and `buffer` in its report.
    pub page_bytes: Option<u64>,
    pub policy: String,
    pub buffer_pages: u64,
    /// What was done to it first; absent for a drive that is new.
    pub preconditioned: Option<PreconditioningReport>,
    /// Its zones, if it is zoned.
    pub zones: Option<ZoneCounts>,
    pub faults: usize,
    pub warnings: Vec<Warning>,
}
