//! Hit ratios of write buffers, estimated from a sample of the pages of a load.
//!
//! A sample has the pages whose hash is below a threshold, and a buffer with as small a share of the slots takes only
//! these: SHARDS (C. A. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015), and for policies
//! other than LRU its scaled-down buffers (C. A. Waldspurger et al., "Cache Modeling and Optimization using Miniature
//! Simulations", USENIX ATC 2017). Policies that keep blocks sample whole blocks. Writes that a sample has too few or
//! too many are hits, as in section 3.3 of the first paper. The error is estimated as that of a sampled miss ratio
//! curve, from [`PARTS`] parts with a buffer each.
//!
//! Nothing else of a drive is simulated: a sample of its load has other response times, other
//! garbage collection and other throughput.

use std::collections::BTreeMap;

use ioassay_block::mrc::sample::{self, PARTS};
use ioassay_block::{Kind, Request};

use crate::engine::{BufferMode, Paging};
use crate::error::require;
use crate::policy::belady::OfflineOptimum;
use crate::policy::{Access, DriveState, Eviction, Page, Policy};
use crate::{BufferSpec, Error, Setup};

/// The fewest slots of a part's buffer.
const FEWEST_SLOTS: usize = 8;

/// A share, and its error: half the width of an interval that has the exact one with a confidence of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    pub value: f64,
    /// 0 where all pages were looked at; `None` where parts of the sample have none.
    pub error: Option<f64>,
}

/// The results of a sample.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SampledHits {
    pub requests: u64,
    /// Its page writes, all of them.
    pub written_pages: u64,
    pub read_pages: u64,
    /// Page reads and writes that were looked at.
    pub sampled_pages: u64,
    /// The share of all pages that are in the sample, so that the slots are whole.
    pub rate: f64,
    /// Slots of the sample's buffer.
    pub slots: usize,
    /// Share of the written pages that are hits.
    pub hit_ratio: Estimate,
    /// Share of the read pages that are in the buffer; `None`: the sample has no read.
    pub read_hit_ratio: Option<Estimate>,
    /// The most write hits that a buffer of this size can have.
    pub optimum_hit_ratio: Estimate,
}

/// A write buffer in front of a drive, of which a sample is simulated.
pub struct SampledBuffer {
    paging: Paging,
    /// Pages that are sampled are drawn alone, or with their block.
    unit: Box<dyn Policy + Send>,
    threshold: u64,
    rate: f64,
    slots: usize,
    policy: Sampled<PolicyBuffer>,
    optimum: Sampled<OptimalBuffer>,
    requests: u64,
    written_pages: u64,
    read_pages: u64,
}

impl SampledBuffer {
    /// The buffer of a setup with about `rate` of its pages.
    pub fn new(setup: &Setup, rate: f64) -> Result<Self, Error> {
        setup.drive.check()?;
        require(rate > 0.0 && rate <= 1.0, "sample", rate, || "a rate above 0 and at most 1")?;
        let spec = setup.buffer.as_ref().filter(|spec| spec.policy != "none");
        let Some(spec) = spec else {
            return Err(Error::option("policy", "none", "a write buffer to sample"));
        };
        let wanted = "reshape: hits within a drive depend on its times, which a sample has not";
        require(spec.mode == BufferMode::Reshape, "mode", "inline", || wanted)?;
        let whole = policy_of(spec, setup, spec.settings.capacity_pages)?;
        if !whole.can_be_sampled() {
            let wanted = "one whose hits do not depend on the number or the state of the elements";
            return Err(Error::Option {
                name: "policy",
                value: format!("{} with a sample", spec.policy),
                wanted: wanted.into(),
            });
        }
        let block = whole.block_of(0).map(|_| setup.drive.pages_per_block);
        let (slots, rate) = scaled(spec.settings.capacity_pages, rate, block)?;
        let parts = if rate < 1.0 { PARTS } else { 0 };
        let made = |slots| {
            let policy = policy_of(spec, setup, slots)?;
            let free_at_ps = vec![0; setup.drive.elements as usize];
            Ok::<_, Error>(PolicyBuffer { policy, free_at_ps, evicted: Vec::new(), hits: Counts::default() })
        };
        let optimal = |slots| OptimalBuffer { optimum: OfflineOptimum::new(slots, 0), numbers: BTreeMap::new() };
        Ok(Self {
            paging: Paging::new(&setup.drive, setup.run.unaligned),
            threshold: sample::threshold(rate),
            policy: Sampled {
                whole: made(slots)?,
                parts: (0..parts).map(|_| made(slots / PARTS)).collect::<Result<_, _>>()?,
            },
            optimum: Sampled { whole: optimal(slots), parts: (0..parts).map(|_| optimal(slots / PARTS)).collect() },
            unit: whole,
            rate,
            slots,
            requests: 0,
            written_pages: 0,
            read_pages: 0,
        })
    }

    /// Takes requests of the load.
    pub fn take(&mut self, batch: &[Request]) -> Result<(), Error> {
        for request in batch {
            self.requests += 1;
            let in_pages = self.paging.drive_request(request, 0, self.requests)?;
            match in_pages.kind {
                Kind::Write => self.written_pages += u64::from(in_pages.pages),
                Kind::Read => self.read_pages += u64::from(in_pages.pages),
                Kind::Trim => {}
                // Of no page, but of all buffers.
                Kind::Flush => {
                    self.policy.each(|buffer| buffer.apply(Kind::Flush, 0));
                    self.optimum.each(|buffer| buffer.apply(Kind::Flush, 0));
                }
            }
            for page in in_pages.first..in_pages.first + in_pages.pages {
                self.apply(in_pages.kind, page);
            }
        }
        Ok(())
    }

    /// Does something with a page in the buffers of which it is in the sample.
    #[inline]
    fn apply(&mut self, kind: Kind, page: Page) {
        let drawn = sample::draw(page.into(), 0);
        let of_policy = match self.unit.block_of(page) {
            Some(block) => sample::draw(block.into(), 0),
            None => drawn,
        };
        if of_policy.hash < self.threshold {
            self.policy.apply(of_policy.part, kind, page);
        }
        if drawn.hash < self.threshold {
            self.optimum.apply(drawn.part, kind, page);
        }
    }

    /// The results of the load so far.
    pub fn finish(&self) -> SampledHits {
        let hits = self.policy.whole.hits();
        SampledHits {
            requests: self.requests,
            written_pages: self.written_pages,
            read_pages: self.read_pages,
            sampled_pages: hits.writes + hits.reads,
            rate: self.rate,
            slots: self.slots,
            hit_ratio: self.policy.write_hit_ratio(self.written_pages as f64 * self.rate),
            read_hit_ratio: (hits.reads > 0).then(|| self.policy.read_hit_ratio()),
            optimum_hit_ratio: self.optimum.write_hit_ratio(self.written_pages as f64 * self.rate),
        }
    }
}

/// The slots of a sample's buffer, of which each part has as many, and the rate that makes them so.
fn scaled(capacity: usize, rate: f64, block: Option<u32>) -> Result<(usize, f64), Error> {
    let share = (capacity as f64 * rate / PARTS as f64).round() as usize;
    if rate >= 1.0 || share * PARTS >= capacity {
        return Ok((capacity, 1.0));
    }
    let fewest = block.map_or(FEWEST_SLOTS, |pages| FEWEST_SLOTS.max(pages as usize));
    if share < fewest {
        let least = (fewest * PARTS) as f64 / capacity as f64;
        let why = format!("for {} slots in the sample's buffer", fewest * PARTS);
        let wanted = if least < 1.0 {
            format!("at least {:.2e}, {why}; or 1, which is exact", least * 1.005)
        } else {
            format!("1, which is exact: a buffer of {capacity} pages is too small {why}")
        };
        return Err(Error::option("sample", rate, wanted));
    }
    let slots = share * PARTS;
    Ok((slots, slots as f64 / capacity as f64))
}

fn policy_of(spec: &BufferSpec, setup: &Setup, slots: usize) -> Result<Box<dyn Policy + Send>, Error> {
    let mut spec = spec.clone();
    spec.settings.capacity_pages = slots;
    let buffer = spec.make(&setup.drive)?;
    buffer.map(|buffer| buffer.policy).ok_or_else(|| Error::option("buffer", slots, "at least a page"))
}

/// A buffer for a sample, and those of its parts.
struct Sampled<B> {
    whole: B,
    parts: Vec<B>,
}

impl<B: PageBuffer> Sampled<B> {
    fn each(&mut self, act: impl Fn(&mut B)) {
        act(&mut self.whole);
        self.parts.iter_mut().for_each(act);
    }

    #[inline]
    fn apply(&mut self, part: usize, kind: Kind, page: Page) {
        self.whole.apply(kind, page);
        if let Some(part) = self.parts.get_mut(part) {
            part.apply(kind, page);
        }
    }

    /// The share of hits among the writes that a sample has if it has `expected` of them.
    fn write_hit_ratio(&self, expected: f64) -> Estimate {
        let ratio = |hits: Counts, expected: f64| {
            let misses = (hits.writes - hits.write_hits) as f64;
            if expected > 0.0 { (1.0 - misses / expected).clamp(0.0, 1.0) } else { 0.0 }
        };
        self.estimate(ratio(self.whole.hits(), expected), |hits| Some(ratio(hits, expected / PARTS as f64)))
    }

    fn read_hit_ratio(&self) -> Estimate {
        let ratio = |hits: Counts| (hits.reads > 0).then(|| hits.read_hits as f64 / hits.reads as f64);
        self.estimate(ratio(self.whole.hits()).unwrap_or(0.0), ratio)
    }

    fn estimate(&self, value: f64, of_part: impl Fn(Counts) -> Option<f64>) -> Estimate {
        if self.parts.is_empty() {
            return Estimate { value, error: Some(0.0) };
        }
        let values: Option<Vec<f64>> = self.parts.iter().map(|part| of_part(part.hits())).collect();
        let values = values.and_then(|values| <[f64; PARTS]>::try_from(values).ok());
        Estimate { value, error: values.map(sample::error) }
    }
}

/// Page reads and writes of a buffer, and the hits among them.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    writes: u64,
    write_hits: u64,
    reads: u64,
    read_hits: u64,
}

trait PageBuffer {
    /// A page is written, read or trimmed, or all are flushed.
    fn apply(&mut self, kind: Kind, page: Page);
    fn hits(&self) -> Counts;
}

struct PolicyBuffer {
    policy: Box<dyn Policy + Send>,
    /// Elements that are always idle.
    free_at_ps: Vec<u64>,
    evicted: Vec<Eviction>,
    hits: Counts,
}

impl PageBuffer for PolicyBuffer {
    fn apply(&mut self, kind: Kind, page: Page) {
        match kind {
            Kind::Write => {
                let state = DriveState { now_ps: 0, free_at_ps: &self.free_at_ps };
                let access = self.policy.write(page, &state, &mut self.evicted);
                self.hits.writes += 1;
                self.hits.write_hits += u64::from(access == Access::Hit);
            }
            Kind::Read => {
                self.hits.reads += 1;
                self.hits.read_hits += u64::from(self.policy.holds(page));
            }
            Kind::Trim => {
                self.policy.discard(page);
            }
            Kind::Flush => self.policy.drain(&mut self.evicted),
        }
        self.evicted.clear();
    }

    fn hits(&self) -> Counts {
        self.hits
    }
}

/// The offline optimum of pages that are numbered as they come, so that memory is for those of the sample.
struct OptimalBuffer {
    optimum: OfflineOptimum,
    numbers: BTreeMap<Page, Page>,
}

impl PageBuffer for OptimalBuffer {
    fn apply(&mut self, kind: Kind, page: Page) {
        match kind {
            Kind::Write => {
                let optimum = &mut self.optimum;
                let number = *self.numbers.entry(page).or_insert_with(|| optimum.add_page());
                optimum.write(number);
            }
            Kind::Read => {}
            Kind::Trim => {
                if let Some(&number) = self.numbers.get(&page) {
                    self.optimum.discard(number);
                }
            }
            Kind::Flush => self.optimum.flush(),
        }
    }

    fn hits(&self) -> Counts {
        Counts { writes: self.optimum.writes(), write_hits: self.optimum.hits(), ..Counts::default() }
    }
}
