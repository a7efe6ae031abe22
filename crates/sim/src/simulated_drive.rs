//! A drive in memory: runs follow each other on it, its state is copied, and its times change.

use std::io::Read;

use crate::Error;
use crate::drive::Drive;
use crate::engine::{self, Extras, RunOptions, Settled, WriteBuffer};
use crate::options::Given;
use crate::precondition::{Preconditioned, precondition};
use crate::simulate::{Load, Setup, Simulation, Wear};

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
        extras: Extras<'_, '_>,
        before: &[Wear],
    ) -> Result<Simulation, Error> {
        let (drive, settled) = (&mut self.drive, &mut self.settled);
        let done = match load {
            Load::Flows(flows) => engine::run_flows(drive, flows, settled, options, extras)?,
            Load::Trace(source) => {
                let (tally, series) = engine::run_between(drive, source, settled, options, extras)?;
                (tally, series, Vec::new())
            }
        };
        Ok(Simulation::of(self, before, done, options))
    }

    /// No request comes for some time, in which the drive may fold and collect garbage.
    pub fn rest(&mut self, rest_ps: u64) -> Result<(), Error> {
        engine::rest(&mut self.drive, &mut self.settled, rest_ps)
    }

    /// The wear of its elements.
    pub(crate) fn wear(&self) -> Vec<Wear> {
        self.drive.elements().iter().map(|element| (element.counters(), element.erases().to_vec())).collect()
    }
}

fn buffer_of(setup: &Setup) -> Result<Option<WriteBuffer>, Error> {
    Ok(setup.buffer.as_ref().map(|buffer| buffer.make(&setup.drive)).transpose()?.flatten())
}
