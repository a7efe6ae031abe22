//! The drive that transports see: content, model, and what is between them.
//!
//! A command changes the content when it comes; when it is answered the model says. `submission` and
//! `trim` have what a command does, `completion` what follows later, `power_loss` what a power loss
//! or the end leaves.

mod completion;
mod power_loss;
mod slots;
mod submission;
mod trim;

use std::collections::{BinaryHeap, VecDeque};

use ioassay_sim::drive::Counters;
use ioassay_sim::engine::Event;

use crate::clock::Clock;
use crate::command::{Command, Drive, Facts, Health, Op, Trouble};
use crate::counters::{Delivered, Figures};
use crate::id_map::Numbered;
use crate::model::Model;
use crate::report::{Buffered, Snapshot};
use crate::store::{Store, Syncer};
use crate::write_cache::Volatile;
use crate::{Error, Status};
use slots::{Ready, Slots};
use trim::{Trimming, Turn};

/// What a transport takes by itself, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// When the drive answers at once, or other commands are on their way: the client is awake.
    pub busy_ns: u64,
    /// When its client waits for this one command, which takes the model's time: it may sleep then,
    /// and has to be woken.
    pub alone_ns: u64,
}

/// A drive that is served.
pub struct Served {
    facts: Facts,
    clock: Clock,
    store: Store,
    model: Option<Model>,
    /// While floors are measured the model is passed by, and all is answered after so long.
    instead_ps: Option<u64>,
    volatile: Volatile,
    syncer: Option<Syncer>,
    /// The backing file was synced in vain once: no flush succeeds any more.
    sync_failed: bool,
    /// Power cuts and other breaks: what was synced before one answers nobody.
    era: u32,
    slots: Slots,
    /// By the model's numbers of requests.
    by_request: Numbered<u64, u32>,
    ready: BinaryHeap<Ready>,
    /// Of each transport.
    floors: Vec<Floor>,
    /// Trims that go on.
    trims: VecDeque<Trimming>,
    turn: Turn,
    events: Vec<Event>,
    /// Present content that became durable and that the backing file has not yet.
    keeps: Vec<(u64, u64)>,
    figures: Figures,
    /// Before the figures were set back.
    health: Health,
    flash_before: Counters,
    since_ps: u64,
    busy_since_ps: u64,
    lost_pages: u64,
    worn_out: Option<String>,
}

impl Served {
    /// A drive over a content, with a model or without, on a clock.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn new(
        facts: Facts,
        store: Store,
        model: Option<Model>,
        clock: Clock,
    ) -> Result<Self, Error> {
        let syncer = match store.backing() {
            Some(backing) if !facts.read_only => Some(Syncer::start(backing.file())?),
            _ => None,
        };
        let flash_before = model
            .as_ref()
            .map(|model| model.simulation().drive().counters());
        Ok(Self {
            since_ps: clock.now_ps(),
            facts,
            clock,
            store,
            model,
            instead_ps: None,
            volatile: Volatile::default(),
            syncer,
            sync_failed: false,
            era: 0,
            slots: Slots::default(),
            by_request: Numbered::default(),
            ready: BinaryHeap::new(),
            floors: Vec::new(),
            trims: VecDeque::new(),
            turn: Turn::default(),
            events: Vec::new(),
            keeps: Vec::new(),
            figures: Figures::default(),
            health: Health::default(),
            flash_before: flash_before.unwrap_or_default(),
            busy_since_ps: 0,
            lost_pages: 0,
            worn_out: None,
        })
    }

    /// What each transport takes by itself: its answers leave so much earlier.
    pub fn set_floors(&mut self, floors: Vec<Floor>) {
        self.floors = floors;
    }

    /// All is answered after so many nanoseconds, whatever the model says: while floors are measured.
    pub fn answer_after(&mut self, instead_ns: Option<u64>) {
        self.instead_ps = instead_ns.map(|ns| ns * 1000);
    }

    /// Its model, if it has one.
    #[must_use]
    pub fn model(&self) -> Option<&Model> {
        self.model.as_ref()
    }

    /// Commands that are not answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.used()
    }

    /// Now, on the drive's clock.
    #[must_use]
    pub fn now_ps(&self) -> u64 {
        self.clock.now_ps()
    }

    /// When something is to be done next; `None` when nothing is until a command comes, or the
    /// backing file is synced.
    #[must_use]
    pub fn next_ps(&self) -> Option<u64> {
        let model_ps = self.model.as_ref().and_then(Model::next_ps);
        let ready_ps = self.ready.peek().map(|ready| ready.deadline_ps);
        let trim_ps = (!self.trims.is_empty()).then(|| self.clock.now_ps());
        model_ps.into_iter().chain(ready_ps).chain(trim_ps).min()
    }

    /// Answers were given to the system, just now.
    pub fn delivered(&mut self, answers: &[Delivered]) {
        let now_ps = self.clock.now_ps();
        for one in answers {
            self.figures.count(one, now_ps);
            self.health.media_errors += u64::from(one.status == Status::Failed);
        }
        if self.slots.used() == 0 {
            self.figures.busy_ps += now_ps - self.busy_since_ps;
            self.busy_since_ps = now_ps;
        }
    }

    /// The figures of now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let now_ps = self.clock.now_ps();
        let simulation = self.model.as_ref().map(Model::simulation);
        Snapshot {
            facts: self.facts.clone(),
            served_ps: now_ps,
            counted_ps: now_ps - self.since_ps,
            figures: Figures {
                busy_ps: self.busy_ps(now_ps),
                ..self.figures.clone()
            },
            depth: self.slots.used() as u64,
            flash: simulation
                .map(|simulation| simulation.drive().counters().since(self.flash_before)),
            buffer: simulation.map(Buffered::of),
            volatile_pages: self.volatile.pages() as u64,
            power_cuts: self.health.unsafe_shutdowns,
            lost_pages: self.lost_pages,
            worn_out: self.worn_out.clone(),
        }
    }

    /// What was counted so far was of nobody.
    pub fn begin_counting(&mut self) {
        self.reset_figures();
        self.health = Health::default();
    }

    /// Figures count from now on; the health of the drive does not.
    pub fn reset_figures(&mut self) {
        self.health = self.health();
        self.figures = Figures::default();
        self.since_ps = self.clock.now_ps();
        self.busy_since_ps = self.since_ps;
        if let Some(model) = &mut self.model {
            model.simulation_mut().take_tally();
            self.flash_before = model.simulation().drive().counters();
        }
    }

    /// The busy time that still goes on included.
    fn busy_ps(&self, now_ps: u64) -> u64 {
        let goes_on = self.slots.used() > 0;
        self.figures.busy_ps
            + if goes_on {
                now_ps - self.busy_since_ps
            } else {
                0
            }
    }

    /// Whether writes are answered before they are in flash.
    fn is_buffered(&self) -> bool {
        let model = self.model.as_ref();
        model.is_some_and(|model| model.simulation().buffer_capacity_pages() > 0)
    }

    fn floor_ps(&self, command: &Command) -> u64 {
        let Some(floor) = self.floors.get(command.tag.transport as usize) else {
            return 0;
        };
        let alone = self.slots.used() == 1;
        1000 * if alone { floor.alone_ns } else { floor.busy_ns }
    }

    /// What a command asks for that the drive cannot do.
    fn refusal(&self, command: &Command, data: &[u8]) -> Option<Status> {
        let block = u64::from(self.facts.block_bytes);
        let (offset, length) = (command.offset_bytes, command.length_bytes);
        let writes = matches!(command.op, Op::Write | Op::Trim | Op::WriteZeroes);
        let ends = offset.checked_add(length);
        if command.op != Op::Flush
            && ((offset | length) % block != 0
                || ends.is_none_or(|end| end > self.facts.size_bytes))
        {
            return Some(Status::OutOfRange);
        }
        if command.op == Op::Write && data.len() as u64 != length {
            return Some(Status::OutOfRange);
        }
        (writes && self.facts.read_only).then_some(Status::ReadOnly)
    }
}

impl Drive for Served {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn submit(&mut self, command: Command, data: &[u8]) {
        let now_ps = self.clock.now_ps();
        if self.slots.used() == 0 {
            self.busy_since_ps = now_ps;
        }
        let slot = self.slots.insert(command, now_ps);
        self.figures.depth.record(self.slots.used() as u64);
        let taken = match self.refusal(&command, data) {
            Some(status) => Err(status),
            None => self.take(slot, &command, data, now_ps),
        };
        if let Err(status) = taken {
            self.slots.get(slot).status = status;
        }
        if self.slots.get(slot).parts == 0 {
            self.carried_out(slot, now_ps + self.instead_ps.unwrap_or(0));
        }
    }

    fn content(&self, offset_bytes: u64, length_bytes: u64) -> &[u8] {
        self.store.present(offset_bytes, length_bytes)
    }

    fn load(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Status> {
        self.store.load(offset_bytes, length_bytes)
    }

    fn trouble(&self) -> Trouble {
        Trouble {
            worn_out: self.worn_out.is_some(),
            unreliable: self.sync_failed || self.store.owes(),
        }
    }

    fn health(&self) -> Health {
        let figures = &self.figures;
        let spec = self
            .model
            .as_ref()
            .map(|model| model.simulation().drive().spec());
        let endurance = spec.map_or(0, |spec| spec.endurance);
        let erased = self.model.as_ref().map_or(0, |model| {
            let elements = model.simulation().drive().elements().iter();
            elements
                .flat_map(ioassay_sim::drive::Element::erases)
                .copied()
                .max()
                .unwrap_or(0)
        });
        Health {
            read_bytes: self.health.read_bytes + figures.reads.bytes,
            written_bytes: self.health.written_bytes + figures.writes.bytes,
            reads: self.health.reads + figures.reads.commands,
            writes: self.health.writes + figures.writes.commands,
            busy_us: self.health.busy_us + self.busy_ps(self.clock.now_ps()) / 1_000_000,
            media_errors: self.health.media_errors,
            unsafe_shutdowns: self.health.unsafe_shutdowns,
            power_on_s: self.clock.now_ps() / 1_000_000_000_000,
            percentage_used: (u64::from(erased) * 100)
                .checked_div(u64::from(endurance))
                .map_or(0, |used| used.min(255) as u8),
        }
    }
}
