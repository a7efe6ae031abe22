//! Write-behind: when a buffer inside the drive writes pages ahead of need, and to which elements.
//!
//! *Which* page goes is the policy's decision (`Policy::destage`). Here is *when*: from a high watermark of held pages
//! on until a low one is reached, to elements that are ready for a page. A page that is written ahead leaves the policy
//! like any other victim: it keeps its slot and can be read there until it is programmed, and a later write of it is no
//! hit. So no page is held clean, a page is programmed once for each time that it was made dirty, and what write-behind
//! costs is the hits on pages that left early.

use super::BufferMode;
use crate::Error;
use crate::error::require;
use crate::options::kinds::choices;
use crate::policy::{Action, DestageTargets, DriveState, Eviction, Page};

/// The elements that are given pages ahead of need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteBehind {
    /// As the policy has it: idle ones if it is made for write-behind and inside the drive.
    #[default]
    Auto,
    /// None: pages go when a write needs their slots.
    Off,
    /// Idle ones, each one page at a time.
    Idle,
    /// Any that has fewer than a number of the buffer's pages to program.
    Any,
}

choices!(WriteBehind: "auto" = Auto, "off" = Off, "idle" = Idle, "any" = Any);

/// The options of write-behind; what is absent follows from the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Destaging {
    /// Which elements are given pages.
    pub write_behind: WriteBehind,
    /// Held pages, as a share of the slots, above which destaging begins. By default as many slots are free as there
    /// are elements, so that a burst as wide as the drive finds room, but an eighth of the buffer at most.
    pub high_watermark: Option<f64>,
    /// The share at which it ends; by default the high watermark.
    pub low_watermark: Option<f64>,
    /// Pages of the buffer that an element has to program at most, for [`WriteBehind::Any`]; 1 by default.
    pub depth: Option<u32>,
}

impl Destaging {
    /// What destages for a buffer of `slots` pages over `elements`; `None` for a buffer that does
    /// not write behind. `eager`: its policy is made for write-behind.
    pub fn destager(
        &self,
        mode: BufferMode,
        eager: bool,
        slots: usize,
        elements: u32,
    ) -> Result<Option<Destager>, Error> {
        let write_behind = match self.write_behind {
            WriteBehind::Auto if eager && mode == BufferMode::Inline => WriteBehind::Idle,
            WriteBehind::Auto => WriteBehind::Off,
            chosen => chosen,
        };
        if write_behind == WriteBehind::Off {
            return self.refuse_ineffective().map(|()| None);
        }
        require(
            mode == BufferMode::Inline,
            "write_behind",
            write_behind,
            || "off in front of the drive (mode reshape), or a buffer in it (mode inline)",
        )?;
        if let Some(depth) = self.depth {
            require(write_behind == WriteBehind::Any, "destage_depth", depth, || "write_behind any")?;
            require(depth > 0, "destage_depth", depth, || "at least 1")?;
        }
        let spare = (elements as usize).min(slots / 8);
        let high_pages = pages_of("high_watermark", self.high_watermark, slots)?;
        let high_pages = high_pages.unwrap_or(slots - spare);
        let low_pages = pages_of("low_watermark", self.low_watermark, slots)?;
        let low_pages = low_pages.unwrap_or(high_pages);
        require(low_pages <= high_pages, "low_watermark", self.low_watermark.unwrap_or_default(), || {
            format!("at most the high one, {high_pages} of {slots} pages")
        })?;
        Ok(Some(Destager {
            only_idle: write_behind == WriteBehind::Idle,
            depth: self.depth.unwrap_or(1),
            high_pages,
            low_pages,
            is_active: false,
            outstanding: vec![0; elements as usize].into_boxed_slice(),
            ready: vec![false; elements as usize].into_boxed_slice(),
        }))
    }

    fn refuse_ineffective(&self) -> Result<(), Error> {
        let wanted = "write_behind idle or any, for it is off";
        for (name, share) in [("high_watermark", self.high_watermark), ("low_watermark", self.low_watermark)] {
            if let Some(share) = share {
                return Err(Error::option(name, share, wanted));
            }
        }
        self.depth.map_or(Ok(()), |depth| Err(Error::option("destage_depth", depth, wanted)))
    }
}

fn pages_of(name: &'static str, share: Option<f64>, slots: usize) -> Result<Option<usize>, Error> {
    match share {
        None => Ok(None),
        // At 1 it would never be exceeded.
        Some(share) if (0.0..1.0).contains(&share) => Ok(Some((share * slots as f64) as usize)),
        Some(share) => Err(Error::option(name, share, "a share from 0 up to below 1")),
    }
}

/// Decides when pages are destaged, and to which elements.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Destager {
    only_idle: bool,
    depth: u32,
    high_pages: usize,
    low_pages: usize,
    /// Between the high watermark and the low one.
    is_active: bool,
    /// For each element the buffer's pages that it has not programmed yet.
    outstanding: Box<[u32]>,
    ready: Box<[bool]>,
}

impl Destager {
    /// Whether a page should go. `pending`: evictions that the drive's state does not show yet.
    pub(super) fn begin(&mut self, held: usize, drive_state: &DriveState<'_>, pending: &[Eviction]) -> bool {
        if !self.is_due(held) {
            return false;
        }
        if self.only_idle {
            for (ready, &free_at_ps) in self.ready.iter_mut().zip(drive_state.free_at_ps) {
                *ready = free_at_ps <= drive_state.now_ps;
            }
            for page in pending.iter().flat_map(pages) {
                self.ready[page as usize % self.outstanding.len()] = false;
            }
        } else {
            for (ready, &outstanding) in self.ready.iter_mut().zip(&self.outstanding) {
                *ready = outstanding < self.depth;
            }
        }
        true
    }

    /// Whether more pages are held than should be, and an element is ready for one.
    pub(super) fn wants_page(&mut self, held: usize) -> bool {
        self.is_due(held) && self.ready.contains(&true)
    }

    fn is_due(&mut self, held: usize) -> bool {
        let most = if self.is_active { self.low_pages } else { self.high_pages };
        self.is_active = held > most;
        self.is_active
    }

    pub(super) fn targets<'a>(&'a self, drive_state: &DriveState<'a>) -> DestageTargets<'a> {
        DestageTargets { drive_state: *drive_state, ready: &self.ready }
    }

    /// A page of the buffer goes to its element, ahead of need or not.
    pub(super) fn on_evicted(&mut self, page: Page) {
        let element = page as usize % self.outstanding.len();
        self.outstanding[element] += 1;
        self.ready[element] = !self.only_idle && self.outstanding[element] < self.depth;
    }

    pub(super) fn on_programmed(&mut self, page: Page) {
        let element = page as usize % self.outstanding.len();
        self.outstanding[element] -= 1;
    }

    /// Power loss: nothing is outstanding.
    pub(super) fn clear(&mut self) {
        self.outstanding.fill(0);
        self.is_active = false;
    }
}

/// The pages that an eviction gives to elements.
fn pages(eviction: &Eviction) -> std::ops::Range<Page> {
    match eviction.action {
        Action::PadRead => 0..0,
        Action::Write | Action::PadWrite => eviction.first..eviction.first + eviction.pages,
    }
}
