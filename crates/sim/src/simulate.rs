//! One simulation from beginning to end: a drive is made or loaded, preconditioned, run over a trace, and judged.

use std::io::{Read, Write};

use ioassay_block::Source;

use crate::Error;
use crate::drive::{Counters, Drive, Element, Spec};
use crate::engine::{self, BufferMode, Destaging, RunOptions, Settled, Tally, TimeSeries, Workers, WriteBuffer};
use crate::policy::{self, Layout};
use crate::precondition::{Preconditioned, Preconditioning, precondition};
use crate::state::{VERSION, put, take};
use crate::steadiness::{Steadiness, judge};

#[derive(Debug, Clone)]
pub struct BufferSpec {
    /// Name of the policy, one of [`POLICIES`](policy::POLICIES).
    pub policy: String,
    /// The policy's settings. Their layout is ignored: it is that of the drive.
    pub settings: policy::Settings,
    pub mode: BufferMode,
    /// Whether the drive does the reads that pad blocks.
    pub pad_reads: bool,
    /// Its options of write-behind.
    pub destaging: Destaging,
}

impl BufferSpec {
    /// The buffer of a drive; `None` for the policy `none`.
    pub fn make(&self, drive: &Spec) -> Result<Option<WriteBuffer>, Error> {
        let settings = policy::Settings {
            layout: Layout { elements: drive.elements, pages_per_block: drive.pages_per_block, pages: drive.pages() },
            service_ps: drive.mean_write_ps(),
            ..self.settings
        };
        let policy = policy::make(&self.policy, &settings)?;
        self.mode.check(drive)?;
        if policy.capacity() == 0 {
            return Ok(None);
        }
        let slots = policy.capacity();
        let eager = policy.writes_behind();
        let destager = self.destaging.destager(self.mode, eager, slots, drive.elements)?;
        Ok(Some(WriteBuffer { policy, destager, mode: self.mode, pad_reads: self.pad_reads }))
    }
}

/// Everything that defines a simulation, except its trace.
#[derive(Debug, Clone)]
pub struct Setup {
    pub drive: Spec,
    pub buffer: Option<BufferSpec>,
    /// How the drive is preconditioned.
    pub preconditioning: Option<Preconditioning>,
    /// How the trace is issued to it.
    pub run: RunOptions,
    /// Memory that it may use, bytes.
    pub available_bytes: u64,
}

impl Setup {
    /// Checks everything but the trace.
    pub fn check(&self) -> Result<(), Error> {
        self.drive.check_memory(self.available_bytes)?;
        self.run.check()?;
        if let Some(buffer) = &self.buffer {
            buffer.make(&self.drive)?;
        }
        self.preconditioning.as_ref().map_or(Ok(()), Preconditioning::check)
    }
}

/// The results of a simulation.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// Counts of requests and of the buffer's pages, and response times.
    pub tally: Tally,
    pub series: TimeSeries,
    /// The drive's counters, without those of preconditioning.
    pub counters: Counters,
    /// The same for each element.
    pub elements: Vec<ElementTotals>,
    pub preconditioned: Option<Preconditioned>,
    /// Share of the SLC region that can be written at the end; `None` without one.
    pub slc_free_share: Option<f64>,
    /// Whether the mean response time can be interpreted.
    pub steadiness: Steadiness,
}

/// The totals of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementTotals {
    pub counters: Counters,
    pub busy_ps: u64,
    /// Erase counts of its least and most erased block, preconditioning included.
    pub block_erases: (u32, u32),
}

/// The beginning of a simulation.
pub enum Start<'a> {
    New,
    /// A drive whose state was saved, after the requests in flight completed: times and counts begin anew.
    State(&'a mut dyn Read),
    /// A run that was saved, behind its last request: the source is its trace, from the beginning, and
    /// the results are those of both together.
    Resumed(&'a mut dyn Read),
}

/// Runs a trace over a new drive, by the threads that the caller lends. Preconditioning calls `proceed` periodically
/// and stops when it returns false; the run itself can be stopped by its source.
pub fn simulate(
    source: &mut dyn Source,
    setup: &Setup,
    workers: &dyn Workers,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<Simulation, Error> {
    simulate_from(Start::New, source, setup, None, workers, proceed)
}

/// As [`simulate`], from a state that was saved, and into one: `save` gets the state at the issue of the last request.
pub fn simulate_from(
    start: Start<'_>,
    source: &mut dyn Source,
    setup: &Setup,
    mut save: Option<&mut dyn Write>,
    workers: &dyn Workers,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<Simulation, Error> {
    let mut drive = Drive::new(&setup.drive, setup.available_bytes)?;
    let buffer = setup.buffer.as_ref().map(|buffer| buffer.make(&setup.drive)).transpose()?.flatten();
    let mut settled = Settled::from(buffer);
    let mut from = None;
    let (preconditioned, before) = match start {
        Start::New => {
            let done = setup.preconditioning.as_ref().map(|how| precondition(&mut drive, how, proceed)).transpose()?;
            (done, counters(&drive))
        }
        Start::State(input) => {
            let saved = take::<StateHead>(input)?.check(setup, false)?;
            let buffer = settled.buffer.take();
            if saved.buffer == NO_BUFFER {
                settled = engine::settle(&mut drive, None, input)?;
                settled.buffer = buffer;
            } else {
                settled = engine::settle(&mut drive, buffer, input)?;
            }
            (saved.preconditioned, counters(&drive))
        }
        Start::Resumed(input) => {
            let saved = take::<StateHead>(input)?.check(setup, true)?;
            from = Some(input);
            (saved.preconditioned, saved.before)
        }
    };
    if let Some(output) = &mut save {
        put(*output, &StateHead::of(setup, preconditioned.clone(), before.clone()))?;
    }
    let (tally, series) = if from.is_none() && save.is_none() && settled.is_by_tables() {
        engine::run_with(&mut drive, source, settled.buffer, &setup.run, workers)?
    } else {
        engine::run_between(&mut drive, source, settled, &setup.run, from, save)?
    };
    let steadiness = judge(&tally, &series, setup.run.issue_mode);
    let elements = totals(&drive, &before, &tally.busy_ps);
    Ok(Simulation {
        counters: elements.iter().fold(Counters::default(), |sum, element| sum.plus(element.counters)),
        elements,
        tally,
        series,
        preconditioned,
        slc_free_share: drive.slc_free_share(),
        steadiness,
    })
}

fn counters(drive: &Drive) -> Vec<Counters> {
    drive.elements().iter().map(Element::counters).collect()
}

/// A [`Setup`]'s buffer that is none, in a saved state.
const NO_BUFFER: &str = "None";

/// The head of a saved state.
#[derive(serde::Serialize, serde::Deserialize)]
struct StateHead {
    version: u32,
    drive: String,
    buffer: String,
    run: String,
    preconditioned: Option<Preconditioned>,
    /// The counters at the beginning of the measurement.
    before: Vec<Counters>,
}

impl StateHead {
    fn of(setup: &Setup, preconditioned: Option<Preconditioned>, before: Vec<Counters>) -> Self {
        Self {
            version: VERSION,
            drive: format!("{:?}", setup.drive),
            buffer: format!("{:?}", setup.buffer),
            run: format!("{:?}", setup.run),
            preconditioned,
            before,
        }
    }

    /// Whether a simulation with this setup can begin from the state.
    fn check(self, setup: &Setup, resumed: bool) -> Result<Self, Error> {
        let wanted = Self::of(setup, None, Vec::new());
        let same = |seen: &str, wanted: &str| {
            if seen == wanted {
                return Ok(());
            }
            Err(Error::OtherState { seen: seen.to_owned(), wanted: wanted.to_owned() })
        };
        same(&format!("version {}", self.version), &format!("version {VERSION}"))?;
        same(&self.drive, &wanted.drive)?;
        // A drive that had none may get any, but not within a run.
        if resumed || self.buffer != NO_BUFFER {
            same(&self.buffer, &wanted.buffer)?;
        }
        if resumed {
            same(&self.run, &wanted.run)?;
        }
        Ok(self)
    }
}

fn totals(drive: &Drive, before: &[Counters], busy_ps: &[u64]) -> Vec<ElementTotals> {
    let of = |(element, (&before, &busy_ps)): (&Element, (&Counters, &u64))| {
        let least = element.erases().iter().min().copied().unwrap_or(0);
        let most = element.erases().iter().max().copied().unwrap_or(0);
        ElementTotals { counters: element.counters().since(before), busy_ps, block_erases: (least, most) }
    };
    drive.elements().iter().zip(before.iter().zip(busy_ps)).map(of).collect()
}
