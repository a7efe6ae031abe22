//! One simulation from beginning to end.

use ioassay_block::Source;

use crate::Error;
use crate::drive::{Counters, Drive, Element, Spec};
use crate::engine::{self, Feed, Mode, Slices, Tally, WriteBuffer};
use crate::policy::{self, Layout};
use crate::precondition::{Preconditioned, Preconditioning, precondition};
use crate::steadiness::{Steadiness, judge};

/// A write buffer.
#[derive(Debug, Clone)]
pub struct BufferSpec {
    /// Name of the policy, one of [`POLICIES`](policy::POLICIES).
    pub policy: String,
    /// What the policy is told; its layout is that of the drive, whatever is set here.
    pub settings: policy::Settings,
    /// Where it stands.
    pub mode: Mode,
    /// Whether the drive sees the reads with which blocks are completed.
    pub pad_reads: bool,
}

impl BufferSpec {
    /// The buffer of a drive; none where the policy is none, wherever it stands.
    ///
    /// # Errors
    /// [`Error::Policy`].
    pub fn make(&self, drive: &Spec) -> Result<Option<WriteBuffer>, Error> {
        let settings = policy::Settings {
            layout: Layout {
                elements: drive.elements,
                pages_per_block: drive.pages_per_block,
                pages: drive.pages(),
            },
            service_ps: drive.mean_write_ps(),
            ..self.settings
        };
        let policy = policy::make(&self.policy, &settings)?;
        Ok((policy.capacity() > 0).then_some(WriteBuffer {
            policy,
            mode: self.mode,
            pad_reads: self.pad_reads,
        }))
    }
}

/// All that a simulation is made of, but the trace.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The drive.
    pub drive: Spec,
    /// Its write buffer.
    pub buffer: Option<BufferSpec>,
    /// What is done to it before.
    pub preconditioning: Option<Preconditioning>,
    /// How the trace is fed to it.
    pub feed: Feed,
    /// Memory that it may take, bytes.
    pub available_bytes: u64,
}

impl Setup {
    /// Whether such a simulation can be, short of its trace.
    ///
    /// # Errors
    /// As [`simulate`]; nothing is run.
    pub fn check(&self) -> Result<(), Error> {
        self.drive.check_memory(self.available_bytes)?;
        self.feed.check()?;
        if let Some(buffer) = &self.buffer {
            buffer.make(&self.drive)?;
        }
        self.preconditioning
            .as_ref()
            .map_or(Ok(()), Preconditioning::check)
    }
}

/// What a simulation gave.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// Requests, pages of the buffer, and response times.
    pub tally: Tally,
    /// Time series.
    pub slices: Slices,
    /// What the drive did, without what preconditioning did.
    pub counters: Counters,
    /// The same of each element.
    pub elements: Vec<ElementTotals>,
    /// What preconditioning did.
    pub preconditioned: Option<Preconditioned>,
    /// Whether the mean means anything.
    pub steadiness: Steadiness,
}

/// What one element did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementTotals {
    /// Without what preconditioning did.
    pub counters: Counters,
    /// How long it was busy, picoseconds.
    pub busy_ps: u64,
    /// Erasures of its least and most erased block, preconditioning included.
    pub block_erases: (u32, u32),
}

/// Runs a trace over a new drive. Preconditioning asks now and then whether to `proceed`; the run
/// itself can be stopped by its source.
///
/// # Errors
/// [`Error`] says what cannot be of the setup, or of the trace, with the number of the request.
pub fn simulate(
    source: &mut dyn Source,
    setup: &Setup,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<Simulation, Error> {
    let mut drive = Drive::new(&setup.drive, setup.available_bytes)?;
    let buffer = setup
        .buffer
        .as_ref()
        .map(|buffer| buffer.make(&setup.drive))
        .transpose()?;
    let preconditioned = setup
        .preconditioning
        .as_ref()
        .map(|how| precondition(&mut drive, how, proceed))
        .transpose()?;
    let before: Vec<Counters> = drive.elements().iter().map(Element::counters).collect();
    let (tally, slices) = engine::run(&mut drive, source, buffer.flatten(), &setup.feed)?;
    let steadiness = judge(&tally, &slices, setup.feed.feeding);
    let elements = totals(&drive, &before, &tally.busy_ps);
    Ok(Simulation {
        counters: elements.iter().fold(Counters::default(), |sum, element| {
            sum.plus(element.counters)
        }),
        elements,
        tally,
        slices,
        preconditioned,
        steadiness,
    })
}

fn totals(drive: &Drive, before: &[Counters], busy_ps: &[u64]) -> Vec<ElementTotals> {
    let of = |(element, (&before, &busy_ps)): (&Element, (&Counters, &u64))| {
        let least = element.erases().iter().min().copied().unwrap_or(0);
        let most = element.erases().iter().max().copied().unwrap_or(0);
        ElementTotals {
            counters: element.counters().since(before),
            busy_ps,
            block_erases: (least, most),
        }
    };
    drive
        .elements()
        .iter()
        .zip(before.iter().zip(busy_ps))
        .map(of)
        .collect()
}
