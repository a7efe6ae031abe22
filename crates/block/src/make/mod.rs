//! Traces that are made: arrivals, addresses, sizes and kinds of request, each drawn from a law.
//!
//! A [`Recipe`] says what is wanted, [`Made`] is the source of it. The same recipe gives the same
//! requests on every machine and in every version (see `chance.rs` for the generator). It
//! deliberately knows no more than independent laws: what a real application does is in traces.

mod addresses;
mod arrivals;
mod chance;
mod sizes;
mod zipf;

pub use addresses::Addresses;
pub use arrivals::Arrivals;
pub use sizes::Sizes;

use crate::{BATCH, Error, Kind, Request, Source};
use addresses::Places;
use arrivals::Clock;
use chance::Chance;
use sizes::Lengths;

/// What a made trace is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    pub requests: u64,
    pub arrivals: Arrivals,
    pub addresses: Addresses,
    pub sizes: Sizes,
    /// Share of the requests that read, 0 to 1.
    pub reads: f64,
    /// Share of the requests that trim, 0 to 1; what neither reads nor trims writes.
    pub trims: f64,
    /// Where the range of addresses begins.
    pub begin_bytes: u64,
    /// How long it is.
    pub range_bytes: u64,
    /// Offsets within the range are multiples of it.
    pub align_bytes: u64,
    /// What is random follows from it alone.
    pub seed: u64,
}

impl Default for Recipe {
    /// A million writes of 4 KiB, uniform over 1 GiB, 20,000 a second as a Poisson process.
    fn default() -> Self {
        Self {
            requests: 1_000_000,
            arrivals: Arrivals::Poisson { per_second: 20_000.0 },
            addresses: Addresses::Uniform,
            sizes: Sizes::Fixed(4096),
            reads: 0.0,
            trims: 0.0,
            begin_bytes: 0,
            range_bytes: 1 << 30,
            align_bytes: 4096,
            seed: 1,
        }
    }
}

/// Ranges end here: a format may hold sectors in signed 64 bits, and drawing is exact in floats.
const MAX_RANGE_BYTES: u64 = 1 << 53;

impl Recipe {
    /// The source of the requests.
    pub fn source(&self) -> Result<Made, Error> {
        self.check()?;
        Ok(Made {
            left: self.requests,
            clock: Clock::new(self.arrivals, Chance::new(self.seed, 1)),
            begin_bytes: self.begin_bytes,
            places: Places::new(self, Chance::new(self.seed, 2)),
            lengths: Lengths::new(&self.sizes, self.range_bytes, Chance::new(self.seed, 3)),
            kinds: Chance::new(self.seed, 4),
            reads: self.reads,
            not_writes: self.reads + self.trims,
        })
    }

    fn check(&self) -> Result<(), Error> {
        if !(1..=MAX_RANGE_BYTES).contains(&self.range_bytes) {
            let wanted = format!("1 to {MAX_RANGE_BYTES} bytes");
            return Err(option("range", self.range_bytes, wanted));
        }
        if self.begin_bytes > MAX_RANGE_BYTES {
            return Err(option("begin", self.begin_bytes, format!("at most {MAX_RANGE_BYTES} bytes")));
        }
        self.sizes.check(self.range_bytes)?;
        if self.align_bytes == 0 || self.align_bytes > self.range_bytes {
            let wanted = format!("1 byte up to the range of {} bytes", self.range_bytes);
            return Err(option("align", self.align_bytes, wanted));
        }
        for (name, share) in [("reads", self.reads), ("trims", self.trims)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(option(name, share, "a share from 0 to 1".to_owned()));
            }
        }
        if self.reads + self.trims > 1.0 {
            let wanted = format!("at most {}: the rest of reads", 1.0 - self.reads);
            return Err(option("trims", self.trims, wanted));
        }
        self.addresses.check()?;
        self.arrivals.check(self.requests)
    }
}

/// The requests of a recipe.
#[derive(Debug, Clone)]
pub struct Made {
    left: u64,
    clock: Clock,
    begin_bytes: u64,
    places: Places,
    lengths: Lengths,
    kinds: Chance,
    reads: f64,
    not_writes: f64,
}

impl Made {
    #[inline]
    fn request(&mut self) -> Request {
        let length_bytes = self.lengths.next_bytes();
        Request {
            at_ns: self.clock.next_ns(),
            offset_bytes: self.begin_bytes + self.places.next_bytes(length_bytes),
            length_bytes,
            device: 0,
            kind: self.kind(),
        }
    }

    #[inline]
    fn kind(&mut self) -> Kind {
        let drawn = self.kinds.unit();
        if drawn >= self.not_writes {
            Kind::Write
        } else if drawn < self.reads {
            Kind::Read
        } else {
            Kind::Trim
        }
    }
}

impl Source for Made {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        let count = self.left.min(BATCH as u64);
        batch.clear();
        batch.extend((0..count).map(|_| self.request()));
        self.left -= count;
        Ok(())
    }

    fn only_writes(&self) -> bool {
        self.not_writes == 0.0
    }
}

/// An option of a recipe that cannot be.
fn option(name: &'static str, value: impl std::fmt::Display, wanted: String) -> Error {
    Error::Option { name, value: value.to_string(), wanted }
}

fn unknown(name: &'static str, law: &str, numbers: &[f64], forms: &str) -> Error {
    let written = std::iter::once(law.to_owned()).chain(numbers.iter().map(f64::to_string));
    option(name, written.collect::<Vec<_>>().join(":"), forms.to_owned())
}
