//! Elements whose dies, or planes, work at the same time. They share the pins, over which one page
//! crosses at a time.
//!
//! A write crosses the pins into a unit that is idle, and is programmed there; a read is sensed by
//! its unit, which keeps the page until it has crossed. A unit whose plane is low cleans before it
//! takes anything else. Writes keep their order; a read may pass what waits before it, if its unit
//! is idle. This goes beyond the reference model, which has a rule of rounds instead, and knows no
//! cache registers and no commands for several planes at once.

use std::collections::VecDeque;

use super::{Elements, Job, Now, Work};
use crate::Error;
use crate::drive::{Drive, Overlap, Place, Spec};
use crate::engine::timers::{Clocks, NEVER};

/// How far into the queue a controller looks for a read that can begin.
const LOOKAHEAD: usize = 64;

/// A die, or a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Idle,
    /// The page for it crosses the pins.
    Expecting,
    /// It programs a page, or cleans.
    Working(Option<Job>),
    /// It reads a page, which will cross for so long.
    Sensing(Job, u64),
}

/// What crosses the pins.
#[derive(Debug, Clone, Copy)]
enum Crossing {
    /// A page to a unit, which then works for so long.
    In(u32, Job, u64),
    /// A page from a unit.
    Out(u32, Job),
    /// Nothing: all before it is done.
    Barrier(Job),
}

#[derive(Clone)]
struct Element {
    queue: VecDeque<Job>,
    pins: Option<Crossing>,
    units: Vec<Unit>,
    /// Units whose pages wait for the pins, and for how long they will cross.
    sensed: VecDeque<(u32, Job, u64)>,
}

pub(in crate::engine) struct Overlapped {
    elements: Vec<Element>,
    /// For each element that of its pins, then those of its units.
    clocks: Clocks,
    clocks_per_element: u32,
    planes_per_unit: u32,
    free_at_ps: Vec<u64>,
    write_ps: u64,
}

impl Overlapped {
    pub fn new(spec: &Spec) -> Self {
        let units = if spec.overlap == Overlap::Dies {
            spec.dies
        } else {
            spec.planes
        };
        let idle = Element {
            queue: VecDeque::new(),
            pins: None,
            units: vec![Unit::Idle; units as usize],
            sensed: VecDeque::new(),
        };
        Self {
            elements: vec![idle; spec.elements as usize],
            clocks: Clocks::new((spec.elements * (units + 1)) as usize),
            clocks_per_element: units + 1,
            planes_per_unit: spec.planes / units,
            free_at_ps: vec![0; spec.elements as usize],
            write_ps: spec.mean_write_ps(),
        }
    }

    fn pins_clock(&self, element: u32) -> u32 {
        element * self.clocks_per_element
    }

    fn unit_clock(&self, element: u32, unit: u32) -> u32 {
        self.pins_clock(element) + 1 + unit
    }

    fn units(&self) -> u64 {
        u64::from(self.clocks_per_element - 1)
    }

    /// Begins all that can begin.
    fn advance(&mut self, drive: &mut Drive, element: u32, mut now: Now<'_>) -> Result<(), Error> {
        self.clean(drive, element, &mut now);
        self.use_pins(drive, element, &mut now)?;
        self.sense(drive, element, &mut now);
        self.foresee(element, now.ps);
        Ok(())
    }

    /// Idle units with low planes clean.
    fn clean(&mut self, drive: &mut Drive, element: u32, now: &mut Now<'_>) {
        loop {
            let units = &self.elements[element as usize].units;
            let per_unit = self.planes_per_unit;
            let idle = |plane: u32| units[(plane / per_unit) as usize] == Unit::Idle;
            let Some((plane, busy_ps)) = drive.clean_within(element, idle) else {
                return;
            };
            self.work(element, plane / per_unit, None, busy_ps, now);
        }
    }

    fn work(&mut self, element: u32, unit: u32, job: Option<Job>, busy_ps: u64, now: &mut Now<'_>) {
        self.elements[element as usize].units[unit as usize] = Unit::Working(job);
        self.clocks
            .set(self.unit_clock(element, unit), now.ps + busy_ps);
        now.works(element, busy_ps / self.units());
    }

    /// Idle pins take a page that was sensed, or the next one to be written.
    fn use_pins(
        &mut self,
        drive: &mut Drive,
        element: u32,
        now: &mut Now<'_>,
    ) -> Result<(), Error> {
        let state = &mut self.elements[element as usize];
        if state.pins.is_some() {
            return Ok(());
        }
        if let Some((unit, job, pins_ps)) = state.sensed.pop_front() {
            self.cross(element, Crossing::Out(unit, job), pins_ps, now);
            return Ok(());
        }
        let Some(index) = state
            .queue
            .iter()
            .position(|job| !matches!(job.work, Work::Read(_)))
        else {
            return Ok(());
        };
        let job = state.queue[index];
        if job.work == Work::Barrier {
            let idle = state.units.iter().all(|unit| *unit == Unit::Idle);
            if index == 0 && idle {
                state.queue.pop_front();
                self.cross(element, Crossing::Barrier(job), 0, now);
            }
            return Ok(());
        }
        let (units, per_unit) = (&state.units, self.planes_per_unit);
        let idle = |plane: u32| units[(plane / per_unit) as usize] == Unit::Idle;
        let place = Place {
            element,
            local: job.local,
        };
        if let Some(write) = drive.write_within(place, idle)? {
            let unit = write.plane / per_unit;
            state.queue.remove(index);
            state.units[unit as usize] = Unit::Expecting;
            self.cross(
                element,
                Crossing::In(unit, job, write.plane_ps),
                write.pins_ps,
                now,
            );
        }
        Ok(())
    }

    fn cross(&mut self, element: u32, crossing: Crossing, pins_ps: u64, now: &mut Now<'_>) {
        self.elements[element as usize].pins = Some(crossing);
        self.clocks.set(self.pins_clock(element), now.ps + pins_ps);
        now.works(element, pins_ps / self.units());
    }

    /// Idle units sense the pages that are to be read from them.
    fn sense(&mut self, drive: &mut Drive, element: u32, now: &mut Now<'_>) {
        let mut index = 0;
        while index < self.elements[element as usize].queue.len().min(LOOKAHEAD) {
            let state = &mut self.elements[element as usize];
            let job = state.queue[index];
            let Work::Read(sectors) = job.work else {
                if job.work == Work::Barrier {
                    return;
                }
                index += 1;
                continue;
            };
            let place = Place {
                element,
                local: job.local,
            };
            let unit = drive
                .plane_of(place)
                .map_or(0, |plane| plane / self.planes_per_unit);
            if state.units[unit as usize] != Unit::Idle {
                index += 1;
                continue;
            }
            state.queue.remove(index);
            let (plane_ps, pins_ps) = drive
                .read_apart(place, sectors)
                .map_or((0, 0), |read| (read.plane_ps, read.pins_ps));
            state.units[unit as usize] = Unit::Sensing(job, pins_ps);
            self.clocks
                .set(self.unit_clock(element, unit), now.ps + plane_ps);
            now.works(element, plane_ps / self.units());
        }
    }

    /// Free now if a unit is idle and nothing waits; else when so much will have been written.
    fn foresee(&mut self, element: u32, now_ps: u64) {
        let state = &self.elements[element as usize];
        let idle = state.units.contains(&Unit::Idle) && state.queue.is_empty();
        let ahead_ps = self.write_ps * (state.queue.len() as u64 + 1) / self.units();
        self.free_at_ps[element as usize] = if idle { now_ps } else { now_ps + ahead_ps };
    }

    /// The pins are idle again; what crossed.
    fn crossed(&mut self, element: u32, now: &mut Now<'_>) -> Option<Job> {
        self.clocks.set(self.pins_clock(element), NEVER);
        match self.elements[element as usize].pins.take()? {
            Crossing::In(unit, job, busy_ps) => {
                self.work(element, unit, Some(job), busy_ps, now);
                None
            }
            Crossing::Out(unit, job) => {
                self.elements[element as usize].units[unit as usize] = Unit::Idle;
                Some(job)
            }
            Crossing::Barrier(job) => Some(job),
        }
    }

    /// A unit is done; with what, if somebody waits for it.
    fn worked(&mut self, element: u32, unit: u32) -> Option<Job> {
        self.clocks.set(self.unit_clock(element, unit), NEVER);
        let state = &mut self.elements[element as usize];
        let current = &mut state.units[unit as usize];
        match *current {
            Unit::Working(job) => {
                *current = Unit::Idle;
                job
            }
            Unit::Sensing(job, pins_ps) => {
                *current = Unit::Expecting;
                state.sensed.push_back((unit, job, pins_ps));
                None
            }
            Unit::Idle | Unit::Expecting => None,
        }
    }
}

impl Elements for Overlapped {
    fn next(&self) -> (u64, u32) {
        self.clocks.next()
    }

    fn offer(
        &mut self,
        drive: &mut Drive,
        element: u32,
        job: Job,
        now: Now<'_>,
    ) -> Result<(), Error> {
        self.elements[element as usize].queue.push_back(job);
        self.advance(drive, element, now)
    }

    fn strike(
        &mut self,
        drive: &mut Drive,
        clock: u32,
        mut now: Now<'_>,
    ) -> Result<Option<(u32, Job)>, Error> {
        let element = clock / self.clocks_per_element;
        let done = match clock % self.clocks_per_element {
            0 => self.crossed(element, &mut now),
            unit => self.worked(element, unit - 1),
        };
        self.advance(drive, element, now)?;
        Ok(done.map(|job| (element, job)))
    }

    fn free_at_ps(&self) -> &[u64] {
        &self.free_at_ps
    }
}
