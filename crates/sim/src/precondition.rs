//! Preconditioning: brings a drive into the steady state of long use before anything is measured.

use ioassay_block::SplitMix64;

use crate::Error;
use crate::drive::{Drive, Place};
use crate::error::require;
use crate::policy::Page;

/// How a drive is preconditioned: its pages are overwritten at random until write amplification
/// settles, as SNIA's Solid State Storage Performance Test Specification asks of real drives
/// (preconditioning independent of the workload, to a steady state).
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Preconditioning {
    /// Share of the drive's pages, from the first on, that is overwritten; above 0, at most 1.
    pub share: f64,
    /// Settled when the write amplifications of this many rounds in a row differ by no more than
    /// `tolerance` of their mean.
    pub rounds: usize,
    pub tolerance: f64,
    /// Rounds at most; one round writes half of the share of the pages.
    pub most_rounds: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for Preconditioning {
    fn default() -> Self {
        Self { share: 1.0, rounds: 3, tolerance: 0.02, most_rounds: 40, seed: 1 }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Preconditioned {
    pub pages: u64,
    /// Write amplification of each round.
    pub write_amplification: Vec<f64>,
    pub settled: bool,
}

impl Preconditioning {
    pub fn check(&self) -> Result<(), Error> {
        require(self.share > 0.0 && self.share <= 1.0, "precondition", self.share, || "a share above 0, at most 1")?;
        require((2..=self.most_rounds).contains(&self.rounds), "rounds", self.rounds, || {
            format!("at least 2, and at most most_rounds, {}", self.most_rounds)
        })?;
        require(self.most_rounds <= 10_000, "most_rounds", self.most_rounds, || "at most 10000")?;
        let is_share = self.tolerance >= 0.0 && self.tolerance.is_finite();
        require(is_share, "tolerance", self.tolerance, || "a share of 0 or more")
    }
}

/// Overwrites the drive's pages at random until its write amplification settles, for at most `most_rounds` rounds.
///
/// Calls `proceed` periodically, and stops when it returns false: a large drive takes seconds.
pub fn precondition(
    drive: &mut Drive,
    how: &Preconditioning,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<Preconditioned, Error> {
    how.check()?;
    let pages = ((f64::from(drive.spec().pages()) * how.share) as u32).max(1);
    let mut chance = SplitMix64(how.seed);
    let mut done = Preconditioned { pages: 0, write_amplification: Vec::new(), settled: false };
    while !done.settled && done.write_amplification.len() < how.most_rounds {
        let before = drive.counters();
        overwrite(drive, pages, pages.div_ceil(2), &mut chance, proceed)?;
        let round = drive.counters().since(before);
        done.pages += round.written_pages;
        done.write_amplification.extend(round.write_amplification());
        // Before the first garbage collection all rounds are equal, and nothing has settled.
        let collected = drive.elements().iter().all(|element| element.counters().collected_blocks > 0);
        done.settled = collected && agree(&done.write_amplification, how);
    }
    Ok(done)
}

fn agree(rounds: &[f64], how: &Preconditioning) -> bool {
    let Some(from) = rounds.len().checked_sub(how.rounds) else {
        return false;
    };
    let recent = &rounds[from..];
    let mean = recent.iter().sum::<f64>() / recent.len() as f64;
    recent.iter().all(|value| (value - mean).abs() <= how.tolerance * mean)
}

/// Overwrites `count` random pages among the first `pages`, in batches, so that the table entries are prefetched.
fn overwrite(
    drive: &mut Drive,
    pages: u32,
    count: u32,
    chance: &mut SplitMix64,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<(), Error> {
    let batch_pages = BATCH.next_multiple_of(drive.unit_pages() as u32);
    let mut batch: Vec<Page> = Vec::with_capacity(batch_pages as usize);
    let mut places: Vec<Place> = Vec::with_capacity(BATCH as usize);
    let mut left = count;
    while left > 0 {
        batch.clear();
        for _ in 0..left.min(batch_pages) {
            batch.push(chance.below(pages));
        }
        left -= batch.len() as u32;
        if left / BATCH % BATCHES_PER_CHECK == 0 && !proceed() {
            return Err(Error::Stopped);
        }
        if drive.overwrite(&batch)? {
            continue;
        }
        places.clear();
        places.extend(batch.iter().map(|&page| drive.place(page)));
        drive.prefetch(&places);
        for &place in &places {
            drive.collect_garbage(place.element);
            drive.write(place)?;
        }
    }
    Ok(())
}

const BATCH: u32 = 256;
/// Some tens of milliseconds of work.
const BATCHES_PER_CHECK: u32 = 1024;
