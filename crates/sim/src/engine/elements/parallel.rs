//! Elements whose dies, or planes, work in parallel. They share the pins (the flash interface), which
//! transfer one page at a time.
//!
//! A write crosses the pins into an idle unit and is programmed there. A read is sensed by its unit,
//! which keeps the page until it has crossed. A unit with a plane low on free blocks collects garbage
//! first. Writes keep their order; a read may overtake them if its unit is idle. This goes beyond the
//! reference model, which works in rounds, and has neither cache registers nor multi-plane commands.

use std::collections::VecDeque;

use super::{Context, Elements, PageJob, PageOp};
use crate::Error;
use crate::drive::{Drive, Overlap, Place, Spec};
use crate::engine::timers::{NEVER, Timers, after};

/// How far into the queue a controller looks for a read that can begin.
const LOOKAHEAD: usize = 64;

/// A die, or a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Unit {
    Idle,
    /// Its page crosses the pins, or waits for them.
    Transferring,
    /// It programs a page, or collects garbage.
    Working(Option<PageJob>),
    /// It reads a page; with the time of the transfer that follows, picoseconds.
    Sensing(PageJob, u64),
}

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
enum Crossing {
    /// A page to a unit, and for how long the unit then works, picoseconds.
    In(u32, PageJob, u64),
    /// A page from a unit.
    Out(u32, PageJob),
    /// No data: all earlier work is done.
    Barrier(PageJob),
}

#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct Element {
    queue: VecDeque<PageJob>,
    pins: Option<Crossing>,
    units: Vec<Unit>,
    /// Units whose pages wait for the pins, and the time of each transfer.
    sensed: VecDeque<(u32, PageJob, u64)>,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(in crate::engine) struct ParallelElements {
    elements: Vec<Element>,
    /// For each element the timer of its pins, then those of its units.
    timers: Timers,
    timers_per_element: u32,
    planes_per_unit: u32,
    free_at_ps: Vec<u64>,
    write_ps: u64,
}

impl ParallelElements {
    fn pins_timer(&self, element: u32) -> u32 {
        element * self.timers_per_element
    }

    fn unit_timer(&self, element: u32, unit: u32) -> u32 {
        self.pins_timer(element) + 1 + unit
    }

    fn units(&self) -> u64 {
        u64::from(self.timers_per_element - 1)
    }

    /// Starts all work that can start.
    fn start_ready_work(&mut self, drive: &mut Drive, element: u32, mut context: Context<'_>) -> Result<(), Error> {
        self.collect_garbage(drive, element, &mut context);
        self.start_pin_transfer(drive, element, &mut context)?;
        self.start_sensing(drive, element, &mut context);
        self.estimate_free_time(element, context.now_ps);
        Ok(())
    }

    /// Idle units with a plane low on free blocks collect garbage.
    fn collect_garbage(&mut self, drive: &mut Drive, element: u32, context: &mut Context<'_>) {
        loop {
            let units = &self.elements[element as usize].units;
            let per_unit = self.planes_per_unit;
            let idle = |plane: u32| units[(plane / per_unit) as usize] == Unit::Idle;
            let Some((plane, busy_ps)) = drive.collect_within(element, idle) else {
                return;
            };
            self.start_work(element, plane / per_unit, None, busy_ps, context);
        }
    }

    fn start_work(&mut self, element: u32, unit: u32, job: Option<PageJob>, busy_ps: u64, context: &mut Context<'_>) {
        self.elements[element as usize].units[unit as usize] = Unit::Working(job);
        self.timers.set(self.unit_timer(element, unit), after(context.now_ps, busy_ps));
        context.record_busy(element, busy_ps / self.units());
    }

    /// Idle pins transfer a page that was sensed, or the next page to be written.
    fn start_pin_transfer(&mut self, drive: &mut Drive, element: u32, context: &mut Context<'_>) -> Result<(), Error> {
        let state = &mut self.elements[element as usize];
        if state.pins.is_some() {
            return Ok(());
        }
        if let Some((unit, job, pins_ps)) = state.sensed.pop_front() {
            self.occupy_pins(element, Crossing::Out(unit, job), pins_ps, context);
            return Ok(());
        }
        let Some(index) = state.queue.iter().position(|job| !matches!(job.op, PageOp::Read(_))) else {
            return Ok(());
        };
        let job = state.queue[index];
        if job.op == PageOp::Barrier {
            let idle = state.units.iter().all(|unit| *unit == Unit::Idle);
            if index == 0 && idle {
                state.queue.pop_front();
                self.occupy_pins(element, Crossing::Barrier(job), 0, context);
            }
            return Ok(());
        }
        let (units, per_unit) = (&state.units, self.planes_per_unit);
        let idle = |plane: u32| units[(plane / per_unit) as usize] == Unit::Idle;
        let place = Place { element, local: job.local };
        if let Some(write) = drive.write_within(place, idle)? {
            let unit = write.plane / per_unit;
            state.queue.remove(index);
            state.units[unit as usize] = Unit::Transferring;
            self.occupy_pins(element, Crossing::In(unit, job, write.plane_ps), write.pins_ps, context);
        }
        Ok(())
    }

    fn occupy_pins(&mut self, element: u32, crossing: Crossing, pins_ps: u64, context: &mut Context<'_>) {
        self.elements[element as usize].pins = Some(crossing);
        self.timers.set(self.pins_timer(element), after(context.now_ps, pins_ps));
        context.record_busy(element, pins_ps / self.units());
    }

    /// Idle units sense pages of waiting reads.
    fn start_sensing(&mut self, drive: &mut Drive, element: u32, context: &mut Context<'_>) {
        let mut index = 0;
        while index < self.elements[element as usize].queue.len().min(LOOKAHEAD) {
            let state = &mut self.elements[element as usize];
            let job = state.queue[index];
            let PageOp::Read(sectors) = job.op else {
                if job.op == PageOp::Barrier {
                    return;
                }
                index += 1;
                continue;
            };
            let place = Place { element, local: job.local };
            let unit = drive.plane_of(place).map_or(0, |plane| plane / self.planes_per_unit);
            if state.units[unit as usize] != Unit::Idle {
                index += 1;
                continue;
            }
            state.queue.remove(index);
            let (plane_ps, pins_ps) =
                drive.read_split(place, sectors).map_or((0, 0), |read| (read.plane_ps, read.pins_ps));
            state.units[unit as usize] = Unit::Sensing(job, pins_ps);
            self.timers.set(self.unit_timer(element, unit), after(context.now_ps, plane_ps));
            context.record_busy(element, plane_ps / self.units());
        }
    }

    /// Free now if a unit is idle and the queue is empty; else when the queue will be written.
    fn estimate_free_time(&mut self, element: u32, now_ps: u64) {
        let state = &self.elements[element as usize];
        let idle = state.units.contains(&Unit::Idle) && state.queue.is_empty();
        let ahead_ps = self.write_ps * (state.queue.len() as u64 + 1) / self.units();
        self.free_at_ps[element as usize] = if idle { now_ps } else { after(now_ps, ahead_ps) };
    }

    /// The pins are idle again; returns the job that is done with it.
    fn on_pins_done(&mut self, element: u32, context: &mut Context<'_>) -> Option<PageJob> {
        self.timers.set(self.pins_timer(element), NEVER);
        match self.elements[element as usize].pins.take()? {
            Crossing::In(unit, job, busy_ps) => {
                self.start_work(element, unit, Some(job), busy_ps, context);
                None
            }
            Crossing::Out(unit, job) => {
                self.elements[element as usize].units[unit as usize] = Unit::Idle;
                Some(job)
            }
            Crossing::Barrier(job) => Some(job),
        }
    }

    /// A unit is done; returns the job that is done with it.
    fn on_unit_done(&mut self, element: u32, unit: u32) -> Option<PageJob> {
        self.timers.set(self.unit_timer(element, unit), NEVER);
        let state = &mut self.elements[element as usize];
        let current = &mut state.units[unit as usize];
        match *current {
            Unit::Working(job) => {
                *current = Unit::Idle;
                job
            }
            Unit::Sensing(job, pins_ps) => {
                *current = Unit::Transferring;
                state.sensed.push_back((unit, job, pins_ps));
                None
            }
            Unit::Idle | Unit::Transferring => None,
        }
    }
}

impl Elements for ParallelElements {
    fn new(spec: &Spec) -> Self {
        let units = if spec.overlap == Overlap::Dies { spec.dies } else { spec.planes };
        let idle = Element { units: vec![Unit::Idle; units as usize], ..Element::default() };
        Self {
            elements: vec![idle; spec.elements as usize],
            timers: Timers::new((spec.elements * (units + 1)) as usize),
            timers_per_element: units + 1,
            planes_per_unit: spec.planes / units,
            free_at_ps: vec![0; spec.elements as usize],
            write_ps: spec.mean_write_ps(),
        }
    }

    fn next(&self) -> (u64, u32) {
        self.timers.next()
    }

    fn enqueue(&mut self, drive: &mut Drive, element: u32, job: PageJob, context: Context<'_>) -> Result<(), Error> {
        self.elements[element as usize].queue.push_back(job);
        self.start_ready_work(drive, element, context)
    }

    fn on_timer(
        &mut self,
        drive: &mut Drive,
        timer: u32,
        mut context: Context<'_>,
    ) -> Result<Option<(u32, PageJob)>, Error> {
        let element = timer / self.timers_per_element;
        let done = match timer % self.timers_per_element {
            0 => self.on_pins_done(element, &mut context),
            unit => self.on_unit_done(element, unit - 1),
        };
        self.start_ready_work(drive, element, context)?;
        Ok(done.map(|job| (element, job)))
    }

    fn free_at_ps(&self) -> &[u64] {
        &self.free_at_ps
    }
}
