//! Miss ratio curves of LRU buffers of all sizes, from one pass over a trace: exact, or of a sample.
//!
//! The reuse distance of a page is the number of different pages between two references to it: an LRU buffer of more
//! pages than that has it still (R. L. Mattson et al., "Evaluation Techniques for Storage Hierarchies", IBM Systems
//! Journal 9(2), 1970). A sample has only pages whose hash is below a threshold, and its distances are divided by the
//! sampling rate: SHARDS (C. A. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015). With a fixed
//! rate, memory grows with the pages of the trace; with a fixed size, the rate falls until the given number of pages is
//! enough. Both are adjusted as in section 3.3 of the paper: references that a sample has too few count as hits.
//!
//! The error of a sample is estimated from [`PARTS`] parts of it, which have no page in common.

mod curve;
mod distances;
mod page_table;
pub mod sample;

pub use curve::Curve;
pub use sample::PARTS;

use crate::error::choice;
use crate::{Error, Kind, Request};
use distances::Distances;
use sample::Draw;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum References {
    Reads,
    /// Writes, as those of a write buffer.
    Writes,
    Both,
}

impl References {
    pub fn named(name: &str) -> Result<Self, Error> {
        choice("of", name, &[("reads", Self::Reads), ("writes", Self::Writes), ("both", Self::Both)])
    }

    const fn has(self, kind: Kind) -> bool {
        matches!((self, kind), (Self::Reads | Self::Both, Kind::Read) | (Self::Writes | Self::Both, Kind::Write))
    }
}

/// Which pages are looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    Exact,
    Rate(f64),
    /// At most this number at a time, from an initial rate of one in ten.
    Pages(usize),
}

/// The rate with which a sample of fixed size begins, as in the paper.
const FIRST_RATE: f64 = 0.1;

/// Takes the requests of a trace.
pub struct Mrc {
    page_bytes: u64,
    of: References,
    /// Pages with a hash below it are in the sample.
    threshold: u64,
    whole: Distances,
    parts: Vec<Distances>,
    references: u64,
    /// Pages for which there is memory, and that memory.
    most_pages: usize,
    memory_bytes: u64,
}

/// Memory of a page, at most, when a table doubles: 6 entries of 24 bytes (the new table is a quarter full, the old one
/// half), 4 marks. A sample has each page twice: in the whole, and in one of its parts.
const PAGE_BYTES: u64 = 6 * 24 + 4 * 4;

impl Mrc {
    /// A curve of no request yet.
    pub fn new(page_bytes: u64, of: References, sampling: Sampling) -> Result<Self, Error> {
        if page_bytes == 0 {
            return Err(option("page", &page_bytes, "at least 1 byte"));
        }
        let (rate, most_pages) = match sampling {
            Sampling::Exact => (1.0, usize::MAX),
            Sampling::Rate(rate) if rate > 0.0 && rate <= 1.0 => (rate, usize::MAX),
            Sampling::Rate(rate) => {
                return Err(option("sample", &rate, "a rate above 0, at most 1"));
            }
            Sampling::Pages(pages) if pages >= 8 * PARTS => (FIRST_RATE, pages),
            Sampling::Pages(pages) => {
                return Err(option("sample-pages", &pages, "at least 64 pages"));
            }
        };
        let threshold = sample::threshold(rate);
        let parts = if sampling == Sampling::Exact { 0 } else { PARTS };
        Ok(Self {
            page_bytes,
            of,
            threshold,
            whole: Distances::new(most_pages),
            parts: (0..parts).map(|_| Distances::new(usize::MAX)).collect(),
            references: 0,
            most_pages: usize::MAX,
            memory_bytes: u64::MAX,
        })
    }

    /// The same, in so much memory at most.
    #[must_use]
    pub fn within(mut self, memory_bytes: u64) -> Self {
        let page_bytes = if self.parts.is_empty() { PAGE_BYTES } else { 2 * PAGE_BYTES };
        (self.most_pages, self.memory_bytes) = ((memory_bytes / page_bytes) as usize, memory_bytes);
        self
    }

    /// An error for more pages than there is memory for.
    pub fn take(&mut self, batch: &[Request]) -> Result<(), Error> {
        for request in batch {
            if !self.of.has(request.kind) || request.length_bytes == 0 {
                continue;
            }
            let last = request.offset_bytes.saturating_add(request.length_bytes - 1);
            let pages = request.offset_bytes / self.page_bytes..=last / self.page_bytes;
            self.references += pages.end() - pages.start() + 1;
            for page in pages {
                self.refer(page, request.device);
                if self.whole.pages > self.most_pages {
                    return Err(self.too_many());
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn too_many(&self) -> Error {
        let name = if self.parts.is_empty() { "the number of pages" } else { "the number of pages in the sample" };
        let wanted = format!(
            "at most {}, for which {} MiB of memory are available (--sample-pages 1000000 needs little; or a larger --page)",
            self.most_pages,
            self.memory_bytes >> 20
        );
        Error::Option { name, value: self.whole.pages.to_string(), wanted }
    }

    #[inline]
    fn refer(&mut self, page: u64, device: u32) {
        let Draw { hash, part } = sample::draw(page, device);
        if hash >= self.threshold {
            return;
        }
        let rate = sample::rate(self.threshold);
        self.whole.refer(page, device, hash, rate);
        if let Some(part) = self.parts.get_mut(part) {
            part.refer(page, device, hash, rate / PARTS as f64);
        }
        while let Some(threshold) = self.whole.shrink() {
            self.threshold = threshold;
            for part in &mut self.parts {
                part.shrink_to(threshold);
            }
        }
    }

    pub fn finish(&self) -> Curve {
        let of = |distances: &Distances, references: f64| distances.adjusted(references);
        let parts = self.parts.iter();
        Curve {
            page_bytes: self.page_bytes,
            references: self.references,
            sampled: self.whole.references,
            rate: sample::rate(self.threshold),
            pages: self.whole.pages as f64 / sample::rate(self.threshold),
            whole: of(&self.whole, self.references as f64),
            parts: parts.map(|part| of(part, self.references as f64)).collect(),
        }
    }
}

fn option(name: &'static str, value: &dyn ToString, wanted: &str) -> Error {
    Error::Option { name, value: value.to_string(), wanted: wanted.into() }
}
