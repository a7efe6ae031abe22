//! The drive without its queues: where pages go and what that costs.
//!
//! [`Drive`] returns for each page how long its element is busy with it, garbage collection included; when the element
//! begins is up to [`engine`](crate::engine). Everything here depends on the order of the pages alone, so one drive
//! serves a trace at full speed and a transport in real time alike. A drive is either the reference drive, whose
//! elements map their own pages ([`ElementPart`]), or one with a controller, which maps all of them ([`Translation`]).

#![allow(clippy::inline_always, reason = "without it the steps of a write are calls: a tenth more instructions")]

mod audit;
mod controller;
mod controller_options;
mod costs;
mod counters;
mod element;
mod gc;
mod gc_victim;
mod shape;
mod slc;
mod slc_options;
mod spec;
mod translation;
mod units;

use std::io::{Read, Write};

pub use controller::{Controller, Folding, SlcOptions};
pub use controller_options::COMMAND_BYTES;
pub use counters::Counters;
pub use element::Element;
pub use shape::Place;
pub(crate) use shape::Placement;
pub use spec::{GcPolicy, Overlap, Pool, SECTOR_BYTES, Spec, WearLevelling};

use crate::Error;
use crate::policy::Page;
use crate::state::{Stored, put, take};
use costs::Costs;
pub(crate) use element::ElementPart;
use shape::Shape;
use translation::Translation;
pub(crate) use translation::{Gained, Position, UnitPlace};

/// A drive whose every page holds data, as after it was once written from end to end.
#[derive(Clone)]
pub struct Drive {
    shape: Shape,
    costs: Costs,
    elements: Vec<Element>,
    /// Where pages are in a drive with a controller; the tables of its elements are empty.
    translation: Option<Translation>,
    /// The element at which the next unit goes when a drive with a controller is preconditioned.
    rotation: u32,
}

/// The work on a page: in its plane, and over the pins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaneWork {
    pub plane: u32,
    pub pins_ps: u64,
    pub plane_ps: u64,
}

impl Drive {
    /// A new drive. Its tables take [`Spec::memory_bytes`] once all pages have been written; they
    /// are granted lazily by most systems, so that a large drive starts at once.
    pub fn new(spec: &Spec, available_bytes: u64) -> Result<Self, Error> {
        spec.check_memory(available_bytes)?;
        let shape = Shape::of(spec);
        let controller = spec.controller.as_ref();
        let element = |_| match controller {
            None => Element::new(&shape),
            Some(_) => Element::of_controller(&shape),
        };
        Ok(Self {
            elements: (0..spec.elements).map(element).collect(),
            translation: controller.map(|controller| Translation::new(spec, controller)),
            rotation: 0,
            costs: Costs::of(spec),
            shape,
        })
    }

    pub fn spec(&self) -> &Spec {
        &self.shape.spec
    }

    /// Takes over the times of a specification of the same [structure](Spec::structure).
    pub(crate) fn set_timing(&mut self, spec: &Spec) {
        debug_assert_eq!(self.spec().structure(), spec.structure(), "the tables fit");
        self.costs = Costs::of(spec);
        self.shape.spec = spec.clone();
    }

    /// The element of a page, and its number there.
    #[inline]
    pub fn place(&self, page: Page) -> Place {
        self.shape.placement.place(page)
    }

    /// Programs a page; returns how long its element is busy, picoseconds.
    #[inline(always)]
    pub fn write(&mut self, place: Place) -> Result<u64, Error> {
        self.part(place.element).write(place.local).ok_or_else(|| self.worn_out(place.element))
    }

    pub(crate) fn placement(&self) -> Placement {
        self.shape.placement
    }

    /// An element with what all of them share.
    #[inline(always)]
    pub(crate) fn part(&mut self, element: u32) -> ElementPart<'_> {
        ElementPart { shape: &self.shape, costs: &self.costs, element: &mut self.elements[element as usize] }
    }

    /// The elements, which do not depend on each other.
    pub(crate) fn parts(&mut self) -> impl Iterator<Item = ElementPart<'_>> {
        let (shape, costs) = (&self.shape, &self.costs);
        self.elements.iter_mut().map(move |element| ElementPart { shape, costs, element })
    }

    /// Reads `sectors` of a page; returns how long its element is busy, picoseconds. A discarded page
    /// takes no time: its element is not involved.
    #[inline(always)]
    pub fn read(&mut self, place: Place, sectors: u32) -> u64 {
        if self.part(place.element).read(place.local) { self.costs.read_ps(sectors) } else { 0 }
    }

    /// As [`Drive::write`], in one of the planes that are allowed, with the time over the pins and
    /// the time in the plane separate; `None` when the page may go to none of these planes.
    pub(crate) fn write_within(
        &mut self,
        place: Place,
        allowed: impl Fn(u32) -> bool,
    ) -> Result<Option<PlaneWork>, Error> {
        let mut part = self.part(place.element);
        let old = part.physical_page(place.local);
        let Some(mut target) = part.plane_for(old, &allowed) else {
            return Ok(None);
        };
        let mut outcome = part.program(target, place.local, old);
        if outcome.is_none() {
            target = part.plane_of_last_resort(&allowed).unwrap_or(target);
            let old = part.physical_page(place.local); // garbage collection may have moved it
            outcome = part.program(target, place.local, old);
        }
        let Some(cost_ps) = outcome else {
            // A plane that is not allowed now may have a place, or make one, later.
            if (0..self.shape.spec.planes).all(allowed) {
                return Err(self.worn_out(place.element));
            }
            return Ok(None);
        };
        Ok(Some(PlaneWork { plane: target, pins_ps: self.costs.transfer, plane_ps: cost_ps - self.costs.transfer }))
    }

    /// As [`Drive::read`], with separate times; `None` for a discarded page.
    pub(crate) fn read_split(&mut self, place: Place, sectors: u32) -> Option<PlaneWork> {
        let source = self.plane_of(place)?;
        let all_ps = self.read(place, sectors);
        let pins_ps = self.costs.transfer_ps(sectors);
        Some(PlaneWork { plane: source, pins_ps, plane_ps: all_ps - pins_ps })
    }

    /// The plane that holds a page; `None` for a discarded page.
    pub(crate) fn plane_of(&self, place: Place) -> Option<u32> {
        let physical = self.elements[place.element as usize].physical_page(&self.shape, place.local)?;
        Some(self.shape.plane_of(self.shape.block_of(physical)))
    }

    /// One step of garbage collection in an allowed plane that is low on free blocks; returns the plane
    /// and the time it takes.
    pub(crate) fn collect_within(&mut self, element: u32, allowed: impl Fn(u32) -> bool) -> Option<(u32, u64)> {
        if self.elements[element as usize].is_low() { self.part(element).collect_next(allowed) } else { None }
    }

    /// Discards a page; takes no time.
    pub fn trim(&mut self, place: Place) {
        if let Some(translation) = &mut self.translation {
            let page = place.local * self.shape.spec.elements + place.element;
            self.elements[place.element as usize].counters.trimmed_pages +=
                u64::from(translation.physical(page).is_some());
            return translation.discard(page);
        }
        self.part(place.element).trim(place.local);
    }

    /// Collects garbage in an element until no plane is below its threshold, as the element does before
    /// it serves a page; returns the time it takes, picoseconds.
    #[inline]
    pub fn collect_garbage(&mut self, element: u32) -> u64 {
        if self.elements[element as usize].is_low() { self.part(element).collect_while_low() } else { 0 }
    }

    /// Prefetches the table entries of pages that will be written soon. Without it, each write waits
    /// for memory about twice.
    #[inline]
    pub fn prefetch(&self, places: &[Place]) {
        if self.translation.is_some() {
            return;
        }
        let element = |place: &Place| &self.elements[place.element as usize];
        let seen = places.iter().fold(0, |seen, place| seen ^ element(place).touch_page(place.local));
        std::hint::black_box(seen);
        let seen = places.iter().fold(0, |seen, place| seen ^ element(place).touch_block(&self.shape, place.local));
        std::hint::black_box(seen);
    }

    /// The counters of all elements together.
    pub fn counters(&self) -> Counters {
        self.elements.iter().fold(Counters::default(), |sum, element| sum.plus(element.counters()))
    }

    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The error of an element without a free block.
    #[cold]
    pub(crate) fn worn_out(&self, element: u32) -> Error {
        let counters = self.elements[element as usize].counters();
        Error::WornOut {
            element,
            erases: counters.erases,
            dead: counters.dead_blocks,
            endurance: self.shape.spec.endurance,
        }
    }
}

impl Stored for Drive {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        if let Some(layer) = &self.translation {
            put(output, &(&layer.map, &layer.reverse, &layer.superblocks, &layer.groups))?;
        }
        put(output, &self.elements)
    }

    /// Takes over the tables of a drive with the same specification.
    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        if let Some(layer) = &mut self.translation {
            (layer.map, layer.reverse, layer.superblocks, layer.groups) = take(input)?;
        }
        self.elements = take(input)?;
        debug_assert_eq!(self.audit(), Ok(()), "the tables of a saved drive agree");
        Ok(())
    }
}
