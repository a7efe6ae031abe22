//! One simulation from beginning to end: a drive is made or loaded, preconditioned, run over a trace, and judged.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use ioassay_block::Source;

use crate::Error;
use crate::drive::{Controller, Counters, Drive, Element, Spec};
use crate::engine::{
    self, BufferMode, Destaging, Extras, Flow, RunOptions, Settled, Tally, TimeSeries, Workers, WriteBehind,
    WriteBuffer,
};
use crate::options::kinds::{AutoCount, AutoShare, Flag, Name, Size, choices};
use crate::options::{Given, OptionRow, OptionSet, options};
use crate::policy::{self, BlockBy, Layout};
use crate::precondition::{Preconditioned, Preconditioning, precondition};
use crate::state::{VERSION, put, take};
use crate::steadiness::{Steadiness, judge};

options! {
    /// A write buffer as it is described, for a drive of any size.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BufferOptions of "write buffer" {
        /// Policy of the write buffer.
        policy: Name = "none";
        /// Size of the write buffer.
        bytes("buffer"): Size = 8 << 20;
        /// Place of the buffer: before the drive, or in it.
        mode: BufferMode = "reshape";
        /// How pages are grouped into blocks.
        block_by: BlockBy = "lba";
        /// Read missing pages and write whole blocks.
        padding: Flag = false;
        /// Send the reads of padding to the drive, instead of only counting them.
        pad_reads: Flag = true;
        /// Evict blocks first that were written in order.
        compensation: Flag = false;
        /// Write a block as one request, not page by page.
        block_requests: Flag = false;
        /// Elements of an inline buffer that get pages ahead of need; auto: as the policy has it.
        write_behind: WriteBehind = "auto";
        /// Share of the buffer's slots above which write-behind begins.
        high_watermark: AutoShare = "auto";
        /// Share of the buffer's slots at which write-behind ends.
        low_watermark: AutoShare = "auto";
        /// Pages of the buffer that an element has to program at most, for --write-behind any.
        destage_depth: AutoCount = "auto";
    }
}

impl BufferOptions {
    /// The buffer of a drive; `None` where there is none.
    pub fn spec(&self, drive: &Spec) -> Option<BufferSpec> {
        if self.policy == "none" {
            return None;
        }
        let layout = Layout { elements: drive.elements, pages_per_block: drive.pages_per_block, pages: drive.pages() };
        let pages = self.bytes.checked_div(drive.page_bytes.into()).unwrap_or(0);
        let settings = policy::Settings {
            block_by: self.block_by,
            padding: self.padding,
            compensation: self.compensation,
            block_requests: self.block_requests,
            ..policy::Settings::new(layout, usize::try_from(pages).unwrap_or(usize::MAX))
        };
        let destaging = Destaging {
            write_behind: self.write_behind,
            high_watermark: self.high_watermark,
            low_watermark: self.low_watermark,
            depth: self.destage_depth,
        };
        let policy = self.policy.clone();
        Some(BufferSpec { policy, settings, mode: self.mode, pad_reads: self.pad_reads, destaging })
    }
}

/// The options of a simulation by group.
pub fn option_table() -> [(&'static str, Vec<OptionRow>); 5] {
    let precondition = OptionRow {
        name: "precondition",
        kind: "share",
        unit: "share",
        default: 0.0.into(),
        range: Some((0.0, 1.0)),
        choices: &[],
        is_timing: false,
        about: "Share of the drive to overwrite at random first.".into(),
    };
    [
        ("drive", Spec::rows()),
        ("controller", Controller::rows()),
        ("buffer", BufferOptions::rows()),
        ("feed", RunOptions::rows()),
        ("precondition", vec![precondition]),
    ]
}

choices!(BlockBy: "lba" = Lba, "element" = Element);

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
    /// The requests of each flow; none of a trace.
    pub flows: Vec<Tally>,
    pub series: TimeSeries,
    /// The drive's counters, without those of preconditioning.
    pub counters: Counters,
    /// The same for each element.
    pub elements: Vec<ElementTotals>,
    /// Number of erasures in the run -> blocks that were erased as often.
    pub block_erases: BTreeMap<u32, u64>,
    pub preconditioned: Option<Preconditioned>,
    /// Share of the SLC region that can be written at the end; `None` without one.
    pub slc_free_share: Option<f64>,
    /// Whether the mean response time can be interpreted.
    pub steadiness: Steadiness,
}

/// The totals of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ElementTotals {
    pub counters: Counters,
    pub busy_ps: u64,
    /// Erase count of its least erased block, preconditioning included.
    pub least_block_erases: u32,
    pub most_block_erases: u32,
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

/// What a drive is loaded with.
pub enum Load<'a> {
    Trace(&'a mut dyn Source),
    /// Several loads at once.
    Flows(Vec<Flow<'a>>),
}

/// Runs a trace over a new drive, by the threads that the caller lends. Preconditioning calls `proceed` periodically
/// and stops when it returns false; the run itself can be stopped by its source.
pub fn simulate(
    source: &mut dyn Source,
    setup: &Setup,
    workers: &dyn Workers,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<Simulation, Error> {
    simulate_from(Start::New, Load::Trace(source), setup, None, workers, proceed)
}

/// As [`simulate`], from a state that was saved, and into one: `save` gets the state at the issue of the last request.
pub fn simulate_from(
    start: Start<'_>,
    load: Load<'_>,
    setup: &Setup,
    mut save: Option<&mut dyn Write>,
    workers: &dyn Workers,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<Simulation, Error> {
    let mut from = None;
    let (mut simulated, before) = match start {
        Start::New => {
            let simulated = SimulatedDrive::new(setup, proceed)?;
            let before = simulated.wear();
            (simulated, before)
        }
        Start::State(input) => {
            let saved = take::<StateHead>(input)?.check(setup, false)?;
            let mut simulated = SimulatedDrive::made(setup)?;
            simulated.load(saved.buffer != NO_BUFFER, input)?;
            simulated.preconditioned = saved.preconditioned;
            let before = simulated.wear();
            (simulated, before)
        }
        Start::Resumed(input) => {
            let saved = take::<StateHead>(input)?.check(setup, true)?;
            from = Some(input);
            let preconditioned = saved.preconditioned;
            (SimulatedDrive { preconditioned, ..SimulatedDrive::made(setup)? }, saved.before)
        }
    };
    if let Some(output) = &mut save {
        put(*output, &StateHead::of(setup, simulated.preconditioned.clone(), before.clone()))?;
    }
    let by_tables = simulated.settled.take_if(|settled| from.is_none() && save.is_none() && settled.is_by_tables());
    match (load, by_tables) {
        (Load::Trace(source), Some(settled)) => {
            let (drive, run) = (&mut simulated.drive, &setup.run);
            let (tally, series) = engine::run_with(drive, source, settled.buffer, run, workers)?;
            let end = Ended::of(&simulated.drive);
            Ok(Simulation::of(&simulated, &before, &end, (tally, series, Vec::new()), run))
        }
        (load, by_tables) => {
            simulated.settled = simulated.settled.take().or(by_tables);
            simulated.run_from(load, &setup.run, Extras { from, to: save, ..Extras::default() }, &before)
        }
    }
}

/// A drive with its write buffer between two runs, when no request is in flight.
pub struct SimulatedDrive {
    pub(crate) setup: Setup,
    pub(crate) drive: Drive,
    /// `None` behind a run that failed, or was given up.
    pub(crate) settled: Option<Settled>,
    pub(crate) preconditioned: Option<Preconditioned>,
}

impl SimulatedDrive {
    /// A drive as it is made: full, as if it had been written once from end to end.
    pub(crate) fn made(setup: &Setup) -> Result<Self, Error> {
        let drive = Drive::new(&setup.drive, setup.available_bytes)?;
        let settled = Some(Settled::from(buffer_of(setup)?));
        Ok(Self { setup: setup.clone(), drive, settled, preconditioned: None })
    }

    /// A new drive, preconditioned as its setup says; that calls `proceed` periodically and stops when it returns false.
    pub fn new(setup: &Setup, proceed: &mut dyn FnMut() -> bool) -> Result<Self, Error> {
        setup.run.check()?;
        let mut made = Self::made(setup)?;
        if let Some(how) = &setup.preconditioning {
            made.preconditioned = Some(precondition(&mut made.drive, how, proceed)?);
        }
        Ok(made)
    }

    /// Takes over the tables that were saved, and lets all requests that were in flight complete. A buffer that was not
    /// saved is empty.
    pub(crate) fn load(&mut self, has_buffer: bool, input: &mut dyn Read) -> Result<(), Error> {
        let buffer = self.settled.take().and_then(|settled| settled.buffer);
        let (saved, new) = if has_buffer { (buffer, None) } else { (None, buffer) };
        let mut settled = engine::settle(&mut self.drive, saved, input)?;
        settled.buffer = new.or(settled.buffer);
        self.settled = Some(settled);
        Ok(())
    }

    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Everything that defines it, with the options of runs that are given none.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// A drive in the same state.
    pub fn copy(&self) -> Result<Self, Error> {
        let settled = self.settled.as_ref().ok_or(Error::Unsettled)?;
        Ok(Self {
            settled: Some(settled.copy(buffer_of(&self.setup)?)?),
            setup: self.setup.clone(),
            drive: self.drive.clone(),
            preconditioned: self.preconditioned.clone(),
        })
    }

    /// Changes times, rates and bandwidths, and rules of their kind; where pages are stays as it is.
    ///
    /// [`Error::Structural`] names an option that decides where pages go. The drive is as before then.
    pub fn set_timing<'a>(&mut self, options: impl IntoIterator<Item = (&'a str, &'a Given)>) -> Result<(), Error> {
        let settled = self.settled.as_ref().ok_or(Error::Unsettled)?;
        let mut setup = self.setup.clone();
        for (name, given) in options {
            setup.drive.set_timing(name, given)?;
        }
        setup.drive.check()?;
        let settled = settled.copy(buffer_of(&setup)?)?;
        self.drive.set_timing(&setup.drive);
        (self.setup, self.settled) = (setup, Some(settled));
        Ok(())
    }

    /// Runs a load, event by event, from time 0 on; with `latencies` the tally has that of each request. The next run
    /// begins when all requests of this one are complete.
    pub fn run(&mut self, load: Load<'_>, options: &RunOptions, latencies: bool) -> Result<Simulation, Error> {
        let before = self.wear();
        self.run_from(load, options, Extras { latencies, ..Extras::default() }, &before)
    }

    /// The same with all that a run may have, on a drive whose wear was `before`.
    pub(crate) fn run_from(
        &mut self,
        load: Load<'_>,
        options: &RunOptions,
        extras: Extras<'_, '_, '_>,
        before: &[Wear],
    ) -> Result<Simulation, Error> {
        let (drive, settled) = (&mut self.drive, &mut self.settled);
        let mut end = Ended::default();
        let mut at_end = |drive: &Drive| end = Ended::of(drive);
        let Extras { from, to, latencies, .. } = extras;
        let extras = Extras { from, to, latencies, at_end: Some(&mut at_end) };
        let done = match load {
            Load::Flows(flows) => engine::run_flows(drive, flows, settled, options, extras)?,
            Load::Trace(source) => {
                let (tally, series) = engine::run_between(drive, source, settled, options, extras)?;
                (tally, series, Vec::new())
            }
        };
        Ok(Simulation::of(self, before, &end, done, options))
    }

    /// No request comes for some time, in which the drive may fold and collect garbage.
    pub fn rest(&mut self, rest_ps: u64) -> Result<(), Error> {
        engine::rest(&mut self.drive, &mut self.settled, rest_ps)
    }

    /// The wear of its elements.
    pub(crate) fn wear(&self) -> Vec<Wear> {
        Ended::of(&self.drive).wear
    }
}

fn buffer_of(setup: &Setup) -> Result<Option<WriteBuffer>, Error> {
    Ok(setup.buffer.as_ref().map(|buffer| buffer.make(&setup.drive)).transpose()?.flatten())
}

/// The counters of an element and the erasures of its blocks.
pub(crate) type Wear = (Counters, Vec<u32>);

/// A drive at the end of a run.
#[derive(Default)]
pub(crate) struct Ended {
    wear: Vec<Wear>,
    slc_free_share: Option<f64>,
}

impl Ended {
    fn of(drive: &Drive) -> Self {
        let wear = |element: &Element| (element.counters(), element.erases().to_vec());
        Self { wear: drive.elements().iter().map(wear).collect(), slc_free_share: drive.slc_free_share() }
    }
}

fn block_erases(end: &[Wear], before: &[Wear]) -> BTreeMap<u32, u64> {
    let mut blocks: Vec<u64> = Vec::new();
    for ((_, end), (_, before)) in end.iter().zip(before) {
        for (erases, before) in end.iter().zip(before) {
            let erases = (erases - before) as usize;
            if erases >= blocks.len() {
                blocks.resize(erases + 1, 0);
            }
            blocks[erases] += 1;
        }
    }
    (0..).zip(blocks).filter(|&(_, blocks)| blocks > 0).collect()
}

impl Simulation {
    /// The results of a run on a drive whose wear was `before`.
    pub(crate) fn of(
        of: &SimulatedDrive,
        before: &[Wear],
        end: &Ended,
        (tally, series, flows): (Tally, TimeSeries, Vec<Tally>),
        options: &RunOptions,
    ) -> Self {
        let elements = totals(&end.wear, before, &tally.busy_ps);
        Self {
            counters: elements.iter().fold(Counters::default(), |sum, element| sum.plus(element.counters)),
            elements,
            block_erases: block_erases(&end.wear, before),
            steadiness: judge(&tally, &series, options.issue_mode),
            tally,
            flows,
            series,
            preconditioned: of.preconditioned.clone(),
            slc_free_share: end.slc_free_share,
        }
    }
}

/// A [`Setup`]'s buffer that is none, in a saved state.
const NO_BUFFER: &str = "None";

/// The head of a saved state.
#[derive(serde::Serialize, serde::Deserialize)]
struct StateHead {
    version: u32,
    structure: String,
    /// With its times.
    drive: String,
    buffer: String,
    run: String,
    preconditioned: Option<Preconditioned>,
    /// The drive's wear at the beginning of the measurement.
    before: Vec<Wear>,
}

impl StateHead {
    fn of(setup: &Setup, preconditioned: Option<Preconditioned>, before: Vec<Wear>) -> Self {
        Self {
            version: VERSION,
            structure: format!("{:?}", setup.drive.structure()),
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
        same(&self.structure, &wanted.structure)?;
        // A drive that had none may get any, but not within a run.
        if resumed || self.buffer != NO_BUFFER {
            same(&self.buffer, &wanted.buffer)?;
        }
        if resumed {
            same(&self.drive, &wanted.drive)?;
            same(&self.run, &wanted.run)?;
        }
        Ok(self)
    }
}

fn totals(end: &[Wear], before: &[Wear], busy_ps: &[u64]) -> Vec<ElementTotals> {
    let of = |((end, erases), ((before, _), &busy_ps)): (&Wear, (&Wear, &u64))| {
        let erases = erases.iter().copied();
        ElementTotals {
            counters: end.since(*before),
            busy_ps,
            least_block_erases: erases.clone().min().unwrap_or(0),
            most_block_erases: erases.max().unwrap_or(0),
        }
    };
    end.iter().zip(before.iter().zip(busy_ps)).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_a_name_of_its_own_and_a_line_of_help() {
        let rows: Vec<OptionRow> = option_table().into_iter().flat_map(|(_, rows)| rows).collect();
        let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), rows.len());
        for row in rows {
            assert!(row.about.ends_with('.') && !row.about.contains('\n'), "{}: {}", row.name, row.about);
        }
    }

    #[test]
    fn options_are_set_by_name_in_the_units_of_users() {
        let mut spec = Spec::default();
        let given =
            [("read_us", 0.5.into()), ("page", 8192.into()), ("link_mb_s", 512.0.into()), ("fill", 0.25.into())];
        spec.set_all(given.iter().map(|(name, given)| (*name, given))).expect("options");
        assert_eq!((spec.read_ps, spec.page_bytes), (500_000, 8192));
        let controller = spec.controller.as_ref().expect("a controller");
        assert_eq!((controller.link_ps_per_sector, controller.unmapped_ppm), (Some(1_000_000), 750_000));
        // With all defaults it is the reference drive again.
        let given = [("link_mb_s", 0.0.into()), ("fill", 1.0.into())];
        spec.set_all(given.iter().map(|(name, given)| (*name, given))).expect("options");
        assert_eq!(spec.controller, None);
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_name_and_what_was_expected() {
        let cases: [(&str, Given, &str); 6] = [
            ("elements", (-1.0).into(), "elements is -1, expected a whole number from 0 on"),
            ("elements", 1_099_511_627_776_u64.into(), "elements is 1099511627776, expected at most 4294967295"),
            ("read_us", 2e6.into(), "read_us is 2000000, expected 0 to a second (10^6 microseconds)"),
            ("pool", "die".into(), "pool is die, expected element or plane"),
            ("copy_back", 1.into(), "copy_back is 1, expected true or false"),
            ("elephants", 1.into(), "elephants is no option of a drive"),
        ];
        for (name, given, said) in cases {
            let error = Spec::default().set_all([(name, &given)]).expect_err(said);
            assert_eq!(error.to_string(), said);
        }
    }
}
