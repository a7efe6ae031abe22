//! A load of random requests at a constant depth, in batches: for benches, and to see that a drive holds under one.

use std::io;
use std::time::{Duration, Instant};

use ioassay_block::SplitMix64;

use super::{Initiator, Refused, Request};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub depth: u16,
    /// Bytes of each; whole blocks.
    pub length_bytes: u32,
    /// Share of reads, percent; the rest are writes.
    pub reads_percent: u8,
    pub lasts: Duration,
    /// What the addresses come from.
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub requests: u64,
    pub took: Duration,
    /// Nanoseconds of each request, from its submission, in the order of the answers.
    pub latencies_ns: Vec<u64>,
}

impl Outcome {
    pub fn iops(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    /// The latency that a share of the requests (0 to 1) did not exceed.
    pub fn percentile_ns(&self, share: f64) -> u64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let at = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(at.saturating_sub(1)).copied().unwrap_or(0)
    }
}

pub fn run(initiator: &mut dyn Initiator, load: &Load) -> io::Result<Outcome> {
    let mut addresses = Addresses::new(initiator.size_bytes() / u64::from(load.length_bytes), load.seed);
    let data = vec![0xa5; load.length_bytes as usize];
    let mut sent = vec![Instant::now(); load.depth.into()];
    let mut free: Vec<u16> = (0..load.depth).collect();
    let mut latencies_ns = Vec::new();
    let start = Instant::now();
    let mut error = 0;
    loop {
        let now = Instant::now();
        if now - start < load.lasts {
            for tag in free.drain(..) {
                sent[usize::from(tag)] = now;
                submit(initiator, tag, load, &data, &mut addresses);
            }
            initiator.push()?;
        } else if free.len() == sent.len() {
            break;
        }
        let before = free.len();
        initiator.reap(&mut |done| {
            error |= done.error;
            if usize::from(done.tag) < sent.len() {
                free.push(done.tag);
            }
        })?;
        let answered = Instant::now();
        latencies_ns.extend(free[before..].iter().map(|tag| (answered - sent[usize::from(*tag)]).as_nanos() as u64));
        if error != 0 {
            return Err(io::Error::other(Refused { error }));
        }
    }
    Ok(Outcome { requests: latencies_ns.len() as u64, took: start.elapsed(), latencies_ns })
}

fn submit(initiator: &mut dyn Initiator, tag: u16, load: &Load, data: &[u8], addresses: &mut Addresses) {
    let (at, chance) = addresses.next();
    let offset_bytes = at * u64::from(load.length_bytes);
    let request = if chance < load.reads_percent {
        Request::Read { offset_bytes, length_bytes: load.length_bytes }
    } else {
        Request::Write { offset_bytes, data, fua: false }
    };
    initiator.submit(tag, request);
}

/// Addresses by chance.
struct Addresses {
    state: SplitMix64,
    count: u64,
}

impl Addresses {
    fn new(count: u64, seed: u64) -> Self {
        Self { state: SplitMix64(seed), count: count.max(1) }
    }

    /// One, and a number below 100.
    fn next(&mut self) -> (u64, u8) {
        let mixed = self.state.next();
        (((u128::from(mixed) * u128::from(self.count)) >> 64) as u64, (mixed % 100) as u8)
    }
}
