//! The drive that transports see: its content and its model.
//!
//! A command changes the content when it arrives; the model says when it is answered. `submission` and `trim` have what
//! a command does, `completion` what follows later, `power_loss` what a power loss or the end leaves, `zones` what a
//! zoned drive refuses and keeps, `fault_injection` what faults change of all that.

mod completion;
mod fault_injection;
mod power_loss;
mod submission;
mod trim;
mod zones;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use ioassay_sim::drive::Counters;
use ioassay_sim::engine::Event;
use rustc_hash::FxHashMap;
use slab::Slab;

use crate::clock::Clock;
use crate::command::{Answer, Command, Drive, DriveInfo, Extent, Health, Op, Tag, Trouble};
use crate::faults::{Faults, Hold};
use crate::model::Model;
use crate::namespace::{Namespace, Namespaces};
use crate::report::{
    BlockCounters, BufferReport, CommandCounters, FlashReport, MappingReport, NamespaceReport, Report,
};
use crate::store::{Store, Syncer};
use crate::write_cache::WriteCache;
use crate::zones::Zones;
use crate::{Error, Status};
use trim::{BUDGET_BYTES, PendingTrim};
use zones::Zoned;

/// Changed ranges that are remembered; more of them become one, the whole drive.
const MOST_CHANGES: usize = 1024;

/// Requests of aborted commands that the model may have: it does them all, and a host that aborts all it
/// submits must not fill it without end.
const MOST_ABORTED: usize = 1024;

/// The overhead of a transport: the part of the latency that is not the drive's, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransportOverhead {
    /// When the drive answers at once, or other commands are in flight: the client is awake.
    pub busy_ns: u64,
    /// When the client waits for this command alone, for the model's time: it may sleep, and has to be woken.
    pub alone_ns: u64,
}

/// A command that is not answered. Its place among all in flight is used again later.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    command: Command,
    arrived_ps: u64,
    /// Parts that the model or the backing file has not done yet.
    parts: u32,
    status: Status,
    /// Whether its answer waits for a sync of the backing file.
    syncs: bool,
    /// What faults make of its answer.
    hold: Hold,
}

impl InFlight {
    fn new(command: Command, arrived_ps: u64) -> Self {
        Self { command, arrived_ps, parts: 0, status: Status::Done, syncs: false, hold: Hold::default() }
    }
}

/// A drive in real time: content, model and counters. It knows no transport.
pub struct EmulatedDrive {
    facts: DriveInfo,
    namespaces: Namespaces,
    clock: Clock,
    store: Store,
    model: Option<Model>,
    /// A fixed latency instead of the model's, while overheads are measured.
    fixed_latency_ps: Option<u64>,
    write_cache: WriteCache,
    syncer: Option<Syncer>,
    /// A sync of the backing file failed: no flush succeeds any more.
    sync_failed: bool,
    /// Incremented by power cuts and other breaks: a sync from before one answers no command.
    epoch: u32,
    /// Commands that are not answered, by their places: other lists have those.
    in_flight: Slab<InFlight>,
    /// The slot of the command that each request of the model belongs to.
    by_request: FxHashMap<u64, usize>,
    /// Requests of aborted commands that the model still has.
    aborted_requests: usize,
    /// Answers that are to leave: when, and of which slot. Of those with the same time that of the lower slot is first.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    overheads: Vec<TransportOverhead>,
    trims: VecDeque<PendingTrim>,
    /// What may still be trimmed before the next poll of the transports.
    trim_budget_bytes: u64,
    events: Vec<Event>,
    /// Durable ranges of the present content to be written back to the backing file.
    writeback: Vec<(u64, u64)>,
    /// Ranges whose content has changed since the transports were told.
    changes: Vec<Range<u64>>,
    counters: CommandCounters,
    namespace_counters: Vec<BlockCounters>,
    /// The health log when the counters were reset last.
    health: Health,
    flash_before: Counters,
    since_ps: u64,
    busy_since_ps: u64,
    lost_pages: u64,
    worn_out: Option<String>,
    faults: Faults,
    zoned: Option<Zoned>,
}

impl EmulatedDrive {
    /// A drive with this content, an optional model, and a clock.
    pub fn new(facts: DriveInfo, store: Store, model: Option<Model>, clock: Clock) -> Result<Self, Error> {
        let syncer = match store.backing() {
            Some(backing) if !facts.read_only => Some(Syncer::start(backing.file())?),
            _ => None,
        };
        Ok(Self {
            since_ps: clock.now_ps(),
            namespaces: Namespaces::whole(&facts),
            facts,
            clock,
            store,
            flash_before: model.as_ref().map(|model| model.simulation.drive().counters()).unwrap_or_default(),
            model,
            fixed_latency_ps: None,
            write_cache: WriteCache::default(),
            syncer,
            sync_failed: false,
            epoch: 0,
            in_flight: Slab::new(),
            by_request: FxHashMap::default(),
            aborted_requests: 0,
            ready: BinaryHeap::new(),
            overheads: Vec::new(),
            trims: VecDeque::new(),
            trim_budget_bytes: BUDGET_BYTES,
            events: Vec::new(),
            writeback: Vec::new(),
            changes: Vec::new(),
            counters: CommandCounters::default(),
            namespace_counters: vec![BlockCounters::default()],
            health: Health::default(),
            busy_since_ps: 0,
            lost_pages: 0,
            worn_out: None,
            faults: Faults::default(),
            zoned: None,
        })
    }

    /// Divides the drive into namespaces.
    pub fn divide(&mut self, namespaces: Namespaces) {
        self.namespace_counters = vec![BlockCounters::default(); namespaces.count()];
        self.namespaces = namespaces;
    }

    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Sets the overhead of each transport: its answers leave earlier by this time.
    pub fn set_overheads(&mut self, overheads: Vec<TransportOverhead>) {
        self.overheads = overheads;
    }

    /// Answers all commands after a fixed latency instead of the model's, while overheads are measured.
    pub fn set_fixed_latency(&mut self, fixed_latency_ns: Option<u64>) {
        self.fixed_latency_ps = fixed_latency_ns.map(|ns| ns * 1000);
    }

    /// Appends the ranges whose content has changed since this was called last.
    pub fn take_changes(&mut self, into: &mut Vec<Range<u64>>) {
        into.append(&mut self.changes);
    }

    /// The content of a range changes.
    fn note_change(&mut self, range: Range<u64>) {
        if self.changes.len() < MOST_CHANGES {
            self.changes.push(range);
        } else {
            self.changes.clear();
            self.changes.push(0..self.facts.size_bytes);
        }
    }

    /// The model; `None` for a drive that answers at once.
    pub fn model(&self) -> Option<&Model> {
        self.model.as_ref()
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The places of commands in flight.
    fn in_flight_slots(&self, is_wanted: impl Fn(&Command) -> bool) -> Vec<usize> {
        self.in_flight.iter().filter_map(|(slot, state)| is_wanted(&state.command).then_some(slot)).collect()
    }

    /// Now, on the drive's clock.
    pub fn now_ps(&self) -> u64 {
        self.clock.now_ps()
    }

    /// Time of the next work; `None` if there is none until a command arrives or the backing file is synced.
    pub fn next_ps(&self) -> Option<u64> {
        let model_ps = self.model.as_ref().and_then(Model::next_ps);
        let ready_ps = self.ready.peek().map(|Reverse(ready)| ready.0);
        let trim_ps = (!self.trims.is_empty()).then(|| self.clock.now_ps());
        let fault_ps = self.faults.next_ps(self.clock.now_ps());
        [model_ps, ready_ps, trim_ps, fault_ps].into_iter().flatten().min()
    }

    /// Records answers whose answers were given to the system just now.
    pub fn record_answers(&mut self, answers: &[Answer]) {
        let now_ps = self.clock.now_ps();
        for answer in answers {
            self.counters.record(answer, now_ps);
            if let Some(namespace) = self.namespaces.index_at(answer.command.offset_bytes) {
                self.namespace_counters[namespace].record(answer);
            }
            self.health.media_errors += u64::from(matches!(answer.status, Status::Failed | Status::Media));
        }
        if self.in_flight.is_empty() {
            self.counters.busy_ps += now_ps - self.busy_since_ps;
            self.busy_since_ps = now_ps;
        }
    }

    /// A snapshot of all counters.
    pub fn report(&self) -> Report {
        let now_ps = self.clock.now_ps();
        let simulation = self.model.as_ref().map(|model| &model.simulation);
        let seconds = |ps: u64| ps as f64 / 1e12;
        let namespaces = self.namespaces.iter().zip(&self.namespace_counters).map(|(namespace, counters)| {
            NamespaceReport { id: namespace.id, size_bytes: namespace.facts.size_bytes, counters: counters.clone() }
        });
        Report {
            schema: 1,
            size_bytes: self.facts.size_bytes,
            block_bytes: self.facts.block_bytes,
            read_only: self.facts.read_only,
            served_s: seconds(now_ps),
            counted_s: seconds(now_ps - self.since_ps),
            busy_s: seconds(self.busy_ps(now_ps)),
            namespaces: namespaces.collect(),
            depth_now: self.in_flight.len() as u64,
            flash: simulation.map(|simulation| FlashReport::of(simulation.drive().counters().since(self.flash_before))),
            buffer: simulation.map(BufferReport::of),
            mapping: simulation.and_then(MappingReport::of),
            volatile_pages: self.write_cache.pages() as u64,
            power_cuts: self.health.unsafe_shutdowns,
            lost_pages: self.lost_pages,
            worn_out: self.worn_out.clone(),
            faults_fired: self.faults.fired,
            faults: self.faults.reports(),
            zones: self.zones().map(Zones::counts),
            counters: self.counters.clone(),
        }
    }

    /// Resets all counters and the health log: nothing counted so far was a client's.
    pub fn reset_all_counters(&mut self) {
        self.reset_counters();
        self.health = Health::default();
    }

    /// Resets the counters, but not the drive's health log.
    pub fn reset_counters(&mut self) {
        self.health = self.health();
        self.counters = CommandCounters::default();
        self.namespace_counters.fill(BlockCounters::default());
        self.faults.fired = 0;
        if let Some(zoned) = &mut self.zoned {
            zoned.zones.resets = 0;
        }
        self.since_ps = self.clock.now_ps();
        self.busy_since_ps = self.since_ps;
        if let Some(model) = &mut self.model {
            model.simulation.take_tally();
            self.flash_before = model.simulation.drive().counters();
        }
    }

    /// Busy time, including the period in progress.
    fn busy_ps(&self, now_ps: u64) -> u64 {
        let is_busy = !self.in_flight.is_empty();
        self.counters.busy_ps + if is_busy { now_ps - self.busy_since_ps } else { 0 }
    }

    /// Whether the drive has a write buffer, so that writes are answered before they are in flash.
    fn is_buffered(&self) -> bool {
        self.model.as_ref().is_some_and(|model| model.simulation.buffer_capacity_pages() > 0)
    }

    fn overhead_ps(&self, command: &Command) -> u64 {
        let overhead = self.overheads.get(command.tag.transport as usize).copied().unwrap_or_default();
        1000 * if self.in_flight.len() == 1 { overhead.alone_ns } else { overhead.busy_ns }
    }

    /// The error of a command that the drive cannot carry out.
    fn command_error(&self, command: &Command, data: &[u8]) -> Option<Status> {
        let block = u64::from(self.facts.block_bytes);
        let (offset, length) = (command.offset_bytes, command.length_bytes);
        let writes = !matches!(command.op, Op::Read | Op::Flush);
        let is_within = offset.checked_add(length).is_some_and(|end| end <= self.facts.size_bytes);
        let is_range = command.op == Op::Flush || (is_within && (offset | length) % block == 0);
        if !is_range || (command.op == Op::Write && data.len() as u64 != length) {
            return Some(Status::OutOfRange);
        }
        (writes && self.facts.read_only).then_some(Status::ReadOnly)
    }
}

impl Drive for EmulatedDrive {
    fn facts(&self) -> &DriveInfo {
        &self.facts
    }

    fn namespace(&self, id: u32) -> Option<Namespace<'_>> {
        self.namespaces.get(id)
    }

    fn namespace_count(&self) -> u32 {
        self.namespaces.count() as u32
    }

    fn submit(&mut self, command: Command, data: &[u8]) {
        let now_ps = self.clock.now_ps();
        if self.in_flight.is_empty() {
            self.busy_since_ps = now_ps;
        }
        let slot = self.in_flight.insert(InFlight::new(command, now_ps));
        self.counters.depth.record(self.in_flight.len() as u64);
        let refused = self.command_error(&command, data).or_else(|| self.zone_error(&command));
        let submitted = match refused {
            Some(status) => Err(status),
            None if self.faults.is_idle() => self.submit_command(slot, &command, data, now_ps),
            None => self.submit_with_faults(slot, &command, data, now_ps),
        };
        if let Err(status) = submitted {
            self.in_flight[slot].status = status;
        }
        if refused.is_none() {
            self.note_in_zone(slot, &command, submitted.is_ok());
        }
        if self.in_flight[slot].parts == 0 {
            self.finish_command(slot, now_ps + self.fixed_latency_ps.unwrap_or(0));
        }
    }

    /// Answers now, with [`Status::Aborted`], where the model has yet to do something for a command. What it does is done
    /// all the same, as by a drive that has begun, and of a trim what was not begun is left.
    fn abort(&mut self, tag: Tag) -> bool {
        let now_ps = self.clock.now_ps();
        if self.aborted_requests >= MOST_ABORTED {
            return false;
        }
        let mut any = false;
        for slot in self.in_flight_slots(|command| command.tag == tag) {
            let InFlight { command, parts, hold, .. } = self.in_flight[slot];
            if self.zoned.is_some() && !matches!(command.op, Op::Read | Op::Flush) {
                continue; // a write that is not done would leave a gap in its zone
            }
            let (requests, trims) = (self.by_request.len(), self.trims.len());
            self.by_request.retain(|_, of| *of != slot);
            self.trims.retain(|trim| trim.slot != slot);
            let forgotten = requests - self.by_request.len();
            self.aborted_requests += forgotten;
            let is_held = hold.not_before_ps > now_ps || hold.delay_ps > 0;
            if forgotten == 0 && self.trims.len() == trims && !(is_held && parts == 0) {
                continue; // only its answer is due, or a sync of the backing file
            }
            if is_held {
                self.ready.retain(|Reverse((_, of))| *of != slot);
            }
            (self.in_flight[slot].parts, self.in_flight[slot].status) = (0, Status::Aborted);
            self.ready.push(Reverse((now_ps, slot)));
            any = true;
        }
        any
    }

    fn content(&self, offset_bytes: u64, length_bytes: u64) -> &[u8] {
        self.store.present(offset_bytes, length_bytes)
    }

    fn load(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Status> {
        self.store.load(offset_bytes, length_bytes)
    }

    fn extent(&self, offset_bytes: u64, length_bytes: u64) -> Extent {
        self.store.extent(offset_bytes, length_bytes)
    }

    fn zones(&self) -> Option<&Zones> {
        self.zoned.as_ref().map(|zoned| &zoned.zones)
    }

    fn trouble(&self) -> Trouble {
        Trouble { worn_out: self.worn_out.is_some(), unreliable: self.sync_failed || self.store.is_dirty() }
    }

    fn health(&self) -> Health {
        let of = &self.counters.blocks;
        let used = self.model.as_ref().and_then(|model| {
            let drive = model.simulation.drive();
            let erased = drive.elements().iter().flat_map(ioassay_sim::drive::Element::erases).copied().max()?;
            (u64::from(erased) * 100).checked_div(u64::from(drive.spec().endurance))
        });
        Health {
            read_bytes: self.health.read_bytes + of.reads.counters.bytes,
            written_bytes: self.health.written_bytes + of.writes.counters.bytes,
            reads: self.health.reads + of.reads.counters.commands,
            writes: self.health.writes + of.writes.counters.commands,
            busy_us: self.health.busy_us + self.busy_ps(self.clock.now_ps()) / 1_000_000,
            media_errors: self.health.media_errors,
            unsafe_shutdowns: self.health.unsafe_shutdowns,
            power_on_s: self.clock.now_ps() / 1_000_000_000_000,
            percentage_used: used.map_or(0, |used| used.min(255) as u8),
        }
    }
}
