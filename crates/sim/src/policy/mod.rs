//! Write buffer policies: which pages a buffer keeps, which it evicts, and in what order. [`POLICIES`] lists them all.
//! A policy of single pages is an order over [`pages`]; policies of blocks share [`blocks`], those with ghosts
//! [`segments`].
//!
//! A policy knows pages and elements, never the time stamps of a trace or the inside of the drive. It
//! receives writes and returns evictions. So the same policy serves two modes. In *reshape* its
//! evictions become the requests of a trace for a drive without buffer. *Inline* it is a buffer inside
//! the drive, whose slots come free when the drive has programmed the evicted pages.

mod arc;
pub mod belady;
mod blocks;
mod bplru;
mod destage;
mod epo;
mod error;
mod fab;
mod ghost;
mod idle_cold;
mod index;
pub(crate) mod list;
mod marks;
mod none;
mod pages;
mod queue;
mod s3_fifo;
mod segments;
mod settings;
mod slots;

use crate::state::Stored;

pub use destage::DestageTargets;
pub use error::Error;
pub use settings::{BlockBy, Settings};

/// A logical page of the drive, counted from 0 in units of the drive's page size.
pub type Page = u32;

/// How a drive spreads its pages: page `p` lies on element `p % elements`, there as number `p / elements`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Flash elements (dies or packages) of the drive.
    pub elements: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Logical pages of the drive.
    pub pages: u32,
}

/// The state of the drive, as far as policies may know it.
#[derive(Debug, Clone, Copy)]
pub struct DriveState<'a> {
    pub now_ps: u64,
    /// For each element the time at which it finishes its queue; an idle one has a time up to `now_ps`.
    pub free_at_ps: &'a [u64],
}

/// The result of a write to the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The page was in the buffer; its data were replaced in place. Nothing was evicted.
    Hit,
    /// The page was not in the buffer, and now it is. Pages may have been evicted to make room.
    Miss,
    /// The page was not in the buffer and is not: it goes straight to the drive, as an eviction.
    Bypass,
}

/// What the drive does for an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Action {
    /// Pages that were in the buffer are written.
    Write,
    /// Pages that were not in the buffer are read, to complete a block (padding).
    PadRead,
    /// Pages that were not in the buffer are written, after they were read (padding).
    PadWrite,
}

/// One request of the buffer to the drive: `pages` consecutive pages from `first` on.
///
/// A padded block that is written as one request is reported as its parts, [`Action::Write`] and
/// [`Action::PadWrite`], in ascending order, with `joined` on all but the first: parts that are
/// joined to the one before them go to the drive with it, as one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Eviction {
    pub first: Page,
    pub pages: u32,
    pub action: Action,
    /// Part of the same request as the eviction before it.
    pub joined: bool,
}

impl Eviction {
    /// One page that was in the buffer, as a request of its own.
    #[inline]
    fn of(page: Page) -> Self {
        Self { first: page, pages: 1, action: Action::Write, joined: false }
    }
}

/// A write buffer. Reads change nothing in it.
///
/// Contract, tested by `tests/it/policy_contract.rs` over every entry of [`POLICIES`]: no page is lost
/// or invented (what was written and is not in the buffer was evicted with [`Action::Write`]
/// since), never more than `capacity` pages are held, a hit evicts nothing, `drain` leaves it empty.
pub trait Policy: Stored {
    /// One page is written. Evictions are appended to `evicted`, in the order in which they are to go.
    fn write(&mut self, page: Page, drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access;

    /// Whether the page is in the buffer, so that a read of it needs no flash. Changes nothing.
    fn holds(&self, page: Page) -> bool;

    /// The page was discarded: it leaves the buffer, if it is there, without being written.
    /// Returns whether it was there.
    fn discard(&mut self, page: Page) -> bool;

    fn len(&self) -> usize;

    /// Whether no page is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pages that can be held.
    fn capacity(&self) -> usize;

    /// Whether it reads pages from the drive, to complete blocks.
    fn pads(&self) -> bool {
        false
    }

    /// Whether `write` depends on the state of the drive. Then each page is decided when the drive
    /// reaches it; otherwise many are decided at once.
    fn watches_elements(&self) -> bool {
        false
    }

    /// The block that the policy keeps a page with; `None`: it keeps pages.
    fn block_of(&self, _page: Page) -> Option<u32> {
        None
    }

    /// Whether the hits among a sample of the pages, in a buffer with as small a share of the slots, are
    /// those among all pages ([`sampling`](crate::sampling)).
    fn can_be_sampled(&self) -> bool {
        true
    }

    /// A run begins at time 0: no element works on a page, and programs one in `service_ps`.
    fn begin(&mut self, _service_ps: u64) {}

    /// Whether the policy is made for write-behind, so that an inline buffer writes ahead of need
    /// unless that is switched off.
    fn writes_behind(&self) -> bool {
        false
    }

    /// Evicts the first victim, in the policy's own order, of which every page goes to a ready
    /// element: one page, or what the policy keeps together. Returns false if there is none.
    fn destage(&mut self, targets: &DestageTargets<'_>, evicted: &mut Vec<Eviction>) -> bool;

    /// Evicts all pages, in the policy's own order.
    fn drain(&mut self, evicted: &mut Vec<Eviction>);
}

/// The smallest buffer that a policy can work with.
#[derive(Clone, Copy)]
enum Least {
    Nothing,
    Page,
    Block,
    PagePerElement,
}

impl Least {
    /// Pages, and why so many.
    fn pages(self, layout: &Layout) -> (usize, &'static str) {
        match self {
            Self::Nothing => (0, "it keeps nothing"),
            Self::Page => (1, "it keeps pages"),
            Self::Block => (layout.pages_per_block as usize, "one block"),
            Self::PagePerElement => (layout.elements as usize, "one for each element"),
        }
    }
}

type Constructor = fn(&Settings) -> Box<dyn Policy + Send>;

pub struct Entry {
    pub name: &'static str,
    /// The rule of the policy, in a line.
    pub about: &'static str,
    /// The fields of [`Settings`] that it knows beside layout, capacity and time.
    pub options: &'static [&'static str],
    least: Least,
    make: Constructor,
}

impl Entry {
    pub fn build(&self, settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
        settings.check()?;
        if let Some(option) = settings.chosen().find(|option| !self.options.contains(option)) {
            let known = match self.options {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            return Err(Error::Option { policy: self.name, option, known });
        }
        let ((least_pages, why), capacity_pages) = (self.least.pages(&settings.layout), settings.capacity_pages);
        if capacity_pages < least_pages {
            return Err(Error::TooSmall { policy: self.name, wanted: least_pages, why, seen: capacity_pages });
        }
        Ok((self.make)(settings))
    }
}

macro_rules! policies {
    ($($name:literal: $about:literal, $options:expr, $least:ident, $make:path;)+) => {
        pub const POLICIES: &[Entry] =
            &[$(Entry { name: $name, about: $about, options: &$options, least: Least::$least, make: $make }),+];
    };
}

policies! {
    "none": "no buffer: every page goes straight to the drive", [], Nothing, none::make;
    "fifo": "the page that came first leaves first", [], Page, queue::fifo;
    "lru": "the page written longest ago leaves", [], Page, queue::lru;
    "clock": "first in, first out, with a second chance for what was written again", [], Page, marks::clock;
    "sieve": "the first page from a hand on that was not written again leaves", [], Page, marks::sieve;
    "s3-fifo": "pages pass a small queue, and stay in a large one if they are written again", [], Page, s3_fifo::make;
    "arc": "of pages written once and pages written again, the kind with too many slots gives its oldest", [], Page,
        arc::make;
    "bplru": "the block written longest ago leaves, whole if it is padded",
        ["block_by", "padding", "compensation", "block_requests"], Block, bplru::make;
    "fab": "the block with most pages leaves", ["block_by", "block_requests"], Page, fab::make;
    "epo": "the oldest page of the next element leaves, round robin", [], Page, epo::epo;
    "epo-all": "the oldest page of every element leaves at once", [], PagePerElement, epo::epo_all;
    "idle-cold": "the coldest page of an idle element leaves", [], Page, idle_cold::make;
}

/// Makes the buffer of a policy.
pub fn make(name: &str, settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    if let Some(entry) = POLICIES.iter().find(|entry| entry.name == name) {
        return entry.build(settings);
    }
    let names: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
    Err(Error::unknown(name, &names))
}
