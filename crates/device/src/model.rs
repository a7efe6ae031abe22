//! The simulated drive in real time: picoseconds since the drive was started.
//!
//! It knows pages and times and no content. A model is named, and changed by options; `none` takes
//! no time, for floors and benches.

use std::ops::Range;

use ioassay_block::{Kind, Request};
use ioassay_sim::drive::Drive;
use ioassay_sim::engine::{BufferMode, Event, OnlineDrive};
use ioassay_sim::{BufferOptions, Preconditioned, Preconditioning, precondition};

use crate::Error;
use crate::geometry::Geometry;

/// The names of models, and what each is in one line.
pub const MODELS: [(&str, &str); 2] = [
    ("reference", "48 elements of flash behind one channel, as simulated by DiskSim 4.0 with its SSD extension"),
    ("none", "no model: the drive answers at once"),
];

/// A model that is idle after this time restarts its clock, because its time is bounded.
const CLOCK_RESET_PS: u64 = 10 * 24 * 3600 * 1_000_000_000_000;

/// A drive in real time.
pub struct Model {
    /// The simulated drive with its buffer and counters.
    pub simulation: OnlineDrive,
    pub page_bytes: u64,
    /// When its time began, on the drive's clock.
    origin_ps: u64,
    /// What preconditioning did; `None` for a drive that is new.
    pub preconditioned: Option<Preconditioned>,
}

impl Model {
    /// The model `name` of a drive of `size_bytes`; `None` for none, which takes no time.
    pub fn new(
        name: &str,
        size_bytes: u64,
        geometry: &Geometry,
        buffer: &BufferOptions,
        available_bytes: u64,
    ) -> Result<Option<Self>, Error> {
        match name {
            "reference" => {}
            "none" => return Ok(None),
            _ => return Err(Error::option("model", name, MODELS.map(|(name, _)| name).join(" or "))),
        }
        let spec = geometry.spec(size_bytes)?;
        let inline = BufferOptions { mode: BufferMode::Inline, ..buffer.clone() };
        let buffer = inline.spec(&spec).filter(|_| buffer.bytes > 0);
        let buffer = buffer.map(|buffer| buffer.make(&spec)).transpose()?;
        let drive = Drive::new(&spec, available_bytes)?;
        Ok(Some(Self {
            simulation: OnlineDrive::new(drive, buffer.flatten())?,
            page_bytes: u64::from(spec.page_bytes),
            origin_ps: 0,
            preconditioned: None,
        }))
    }

    /// Brings the drive into the state after long use, over so much of its pages. What is random in
    /// that is the same each time, so that drives with the same options begin alike.
    pub fn precondition(&mut self, share: f64, proceed: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        let how = Preconditioning { share, ..Preconditioning::default() };
        let done = precondition(self.simulation.drive_mut(), &how, proceed)?;
        self.preconditioned = Some(done);
        Ok(())
    }

    /// Discards the whole pages of a range before the drive is used: it is as new there.
    pub fn discard(&mut self, range: Range<u64>) {
        let drive = self.simulation.drive_mut();
        let pages = range.start.div_ceil(self.page_bytes)..range.end / self.page_bytes;
        for page in pages {
            drive.trim(drive.place(page as u32));
        }
    }

    /// How long a page takes on an idle drive at best, nanoseconds: to be read, and to be written.
    pub fn fastest(&self) -> Result<[(&'static str, u64); 2], Error> {
        let spec = self.simulation.drive().spec();
        let mut alone = OnlineDrive::new(Drive::new(spec, u64::MAX)?, None)?;
        let mut completion_ps = |kind, at_ps| -> Result<u64, Error> {
            let length_bytes = u64::from(spec.page_bytes);
            alone.submit(at_ps, &Request { at_ns: 0, offset_bytes: 0, length_bytes, device: 0, kind })?;
            let mut events = Vec::new();
            alone.advance_to(u64::MAX - 1, &mut events)?;
            let completion = events.iter().rev().find_map(|event| match event {
                Event::Complete { at_ps, .. } => Some(*at_ps),
                _ => None,
            });
            Ok(completion.unwrap_or(0))
        };
        let read_ps = completion_ps(Kind::Read, 0)?;
        let has_inline_buffer = self.simulation.buffer_capacity_pages() > 0 && spec.controller.is_none();
        let write_ps = if has_inline_buffer {
            u64::from(spec.page_sectors()) * spec.channel_ps_per_sector
        } else {
            completion_ps(Kind::Write, read_ps)? - read_ps
        };
        Ok([("read", read_ps / 1000), ("write", write_ps / 1000)])
    }

    /// Submits a request, and returns its number. A write may bypass the buffer.
    pub fn submit(
        &mut self,
        now_ps: u64,
        kind: Kind,
        (offset_bytes, length_bytes): (u64, u64),
        bypass: bool,
    ) -> Result<u64, Error> {
        if now_ps - self.origin_ps > CLOCK_RESET_PS && self.simulation.reset_clock() {
            self.origin_ps = now_ps;
        }
        let request = Request { at_ns: 0, offset_bytes, length_bytes, device: 0, kind };
        let at_ps = now_ps - self.origin_ps;
        Ok(if bypass {
            self.simulation.submit_bypass(at_ps, &request)?
        } else {
            self.simulation.submit(at_ps, &request)?
        })
    }

    pub fn next_ps(&self) -> Option<u64> {
        Some(self.simulation.next_ps()?.saturating_add(self.origin_ps))
    }

    /// Advances the model to `to_ps` and appends its events; completions are on the drive's clock.
    pub fn advance_to(&mut self, to_ps: u64, events: &mut Vec<Event>) -> Result<(), Error> {
        let Some(to_ps) = to_ps.checked_sub(self.origin_ps) else {
            return Ok(());
        };
        let before = events.len();
        let done = self.simulation.advance_to(to_ps, events);
        for event in &mut events[before..] {
            if let Event::Complete { at_ps, .. } = event {
                *at_ps += self.origin_ps;
            }
        }
        Ok(done?)
    }
}
