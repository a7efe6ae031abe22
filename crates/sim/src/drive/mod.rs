//! The drive without its queues: where pages go and what that costs.
//!
//! [`Drive`] answers each page with the time that its element is busy with it, cleaning included;
//! when the element begins is the business of [`engine`](crate::engine). Everything here depends on
//! the order of the pages alone, so one drive serves a trace at full speed and a transport in real
//! time alike.

mod audit;
mod costs;
mod counters;
mod element;
mod gc;
mod gc_victim;
mod mapping;
mod shape;
mod spec;

pub use counters::Counters;
pub use element::Element;
pub use shape::Place;
pub use spec::{Cleaning, Overlap, Pool, SECTOR_BYTES, Spec, WearLevelling};

use crate::Error;
use crate::policy::Page;
use costs::Costs;
use mapping::Tables;
use shape::Shape;

/// A drive whose every page holds data, as after it was once written from end to end.
pub struct Drive {
    spec: Spec,
    shape: Shape,
    costs: Costs,
    tables: Tables,
    elements: Vec<Element>,
}

/// A page's work in a plane, and over the pins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InPlane {
    pub plane: u32,
    pub pins_ps: u64,
    pub plane_ps: u64,
}

impl Drive {
    /// A new drive. Its tables take [`Spec::memory_bytes`] once all pages have been written; they
    /// are granted lazily by most systems, so that a large drive starts at once.
    ///
    /// # Errors
    /// [`Error::Option`] for a drive that cannot work, [`Error::Memory`] for one that needs more
    /// than `available_bytes`.
    pub fn new(spec: &Spec, available_bytes: u64) -> Result<Self, Error> {
        spec.check_memory(available_bytes)?;
        let shape = Shape::of(spec);
        Ok(Self {
            elements: (0..spec.elements).map(|_| Element::new(&shape)).collect(),
            tables: Tables::new(&shape, spec.elements),
            costs: Costs::of(spec),
            shape,
            spec: spec.clone(),
        })
    }

    /// What it is made of.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The element of a page, and its number there.
    #[inline]
    #[must_use]
    pub fn place(&self, page: Page) -> Place {
        self.shape.place(page)
    }

    /// Programs a page; returns for how long its element is busy with it, picoseconds.
    ///
    /// # Errors
    /// [`Error::WornOut`] when no block is left to write to.
    #[inline]
    pub fn write(&mut self, place: Place) -> Result<u64, Error> {
        let element = &mut self.elements[place.element as usize];
        let mut pages = self.tables.of(place.element);
        element
            .write(&self.shape, &mut pages, &self.costs, place.local)
            .ok_or_else(|| self.worn_out(place.element))
    }

    /// Cleans as [`Drive::clean`], then writes as [`Drive::write`]; returns for how long both
    /// together, `None` when no block is left.
    #[inline]
    pub(crate) fn serve_write(&mut self, place: Place) -> Option<u64> {
        let element = &mut self.elements[place.element as usize];
        let mut pages = self.tables.of(place.element);
        let mut busy_ps = 0;
        if element.is_low() {
            busy_ps = element.clean_while_low(&self.shape, &mut pages, &self.costs);
        }
        Some(busy_ps + element.write(&self.shape, &mut pages, &self.costs, place.local)?)
    }

    /// Reads `sectors` of a page; returns for how long its element is busy with it, picoseconds.
    /// A page that was discarded costs nothing: its element is not asked.
    #[inline]
    pub fn read(&mut self, place: Place, sectors: u32) -> u64 {
        let element = &mut self.elements[place.element as usize];
        let pages = self.tables.of(place.element);
        if element.read(&self.shape, &pages, place.local) {
            self.costs.read_ps(sectors)
        } else {
            0
        }
    }

    /// As [`Drive::write`], in one of the planes that are allowed, with the time over the pins and
    /// the time in the plane apart; `None` when the page may go to none of these planes.
    pub(crate) fn write_within(
        &mut self,
        place: Place,
        allowed: impl Fn(u32) -> bool,
    ) -> Result<Option<InPlane>, Error> {
        let element = &mut self.elements[place.element as usize];
        let mut pages = self.tables.of(place.element);
        let old = pages.home(&self.shape, place.local);
        let Some(mut target) = element.plane_for(&self.shape, old, &allowed) else {
            return Ok(None);
        };
        let mut put = element.put(
            &self.shape,
            &mut pages,
            &self.costs,
            target,
            place.local,
            old,
        );
        if put.is_none() {
            target = element.plane_in_need(&allowed).unwrap_or(target);
            let old = pages.home(&self.shape, place.local); // cleaning in vain may have moved it
            put = element.put(
                &self.shape,
                &mut pages,
                &self.costs,
                target,
                place.local,
                old,
            );
        }
        let Some(cost_ps) = put else {
            // A plane that is not allowed now may have a place, or make one, later.
            if (0..self.spec.planes).all(allowed) {
                return Err(self.worn_out(place.element));
            }
            return Ok(None);
        };
        Ok(Some(InPlane {
            plane: target,
            pins_ps: self.costs.transfer,
            plane_ps: cost_ps - self.costs.transfer,
        }))
    }

    /// As [`Drive::read`], with the times apart; `None` for a page that was discarded.
    pub(crate) fn read_apart(&mut self, place: Place, sectors: u32) -> Option<InPlane> {
        let home = self.plane_of(place)?;
        let all_ps = self.read(place, sectors);
        let pins_ps = self.costs.transfer_ps(sectors);
        Some(InPlane {
            plane: home,
            pins_ps,
            plane_ps: all_ps - pins_ps,
        })
    }

    /// The plane that holds a page; `None` for one that was discarded.
    pub(crate) fn plane_of(&self, place: Place) -> Option<u32> {
        let home = self.tables.home(&self.shape, place.element, place.local);
        home.map(|physical| self.shape.plane_of(self.shape.block_of(physical)))
    }

    /// Cleans one block, or what is cleaned at once, of a low plane that is allowed; which, and for
    /// how long.
    pub(crate) fn clean_within(
        &mut self,
        element: u32,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<(u32, u64)> {
        let place = &mut self.elements[element as usize];
        if place.is_low() {
            let mut pages = self.tables.of(element);
            place.clean_one(&self.shape, &mut pages, &self.costs, allowed)
        } else {
            None
        }
    }

    /// Discards a page; takes no time.
    pub fn trim(&mut self, place: Place) {
        let mut pages = self.tables.of(place.element);
        self.elements[place.element as usize].trim(&self.shape, &mut pages, place.local);
    }

    /// Cleans an element as far as its thresholds ask for it, as it does before it begins to serve
    /// a page; returns for how long it is busy with that, picoseconds.
    #[inline]
    pub fn clean(&mut self, element: u32) -> u64 {
        let place = &mut self.elements[element as usize];
        if place.is_low() {
            let mut pages = self.tables.of(element);
            place.clean_while_low(&self.shape, &mut pages, &self.costs)
        } else {
            0
        }
    }

    /// Touches the tables' entries of pages that will be written soon, so that the processor has
    /// fetched them by then. One after the other, each write waits for memory about twice.
    #[inline]
    pub fn anticipate(&self, places: &[Place]) {
        let seen = places.iter().fold(0_u32, |seen, place| {
            seen ^ self.tables.peek(place.element, place.local)
        });
        std::hint::black_box(seen);
        let seen = places.iter().fold(0_u32, |seen, place| {
            let home = self.tables.home(&self.shape, place.element, place.local);
            let element = &self.elements[place.element as usize];
            seen ^ home.map_or(0, |physical| element.peek(&self.shape, physical))
        });
        std::hint::black_box(seen);
    }

    /// What happened, all elements together.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.elements
            .iter()
            .fold(Counters::default(), |sum, element| {
                sum.plus(element.counters())
            })
    }

    /// The elements.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// That no block of an element is left.
    #[cold]
    pub(crate) fn worn_out(&self, element: u32) -> Error {
        let counters = self.elements[element as usize].counters();
        Error::WornOut {
            element,
            erases: counters.erases,
            dead: counters.dead_blocks,
            endurance: self.spec.endurance,
        }
    }
}
