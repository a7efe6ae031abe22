//! Loads a drive with random requests, to see how fast it answers, and prints one line of JSON:
//!
//! `cargo run --release -p ioassay-device --example load -- nbd:unix:/tmp/drive.sock 32 3000`
//! `… -- nvme-tcp:127.0.0.1:4420,nqn=NAME DEPTH MILLISECONDS [BYTES [READS_PERCENT [spins|sleeps]]]`
//! `… -- vfio-user:/tmp/drive/cntrl DEPTH MILLISECONDS [BYTES [READS_PERCENT]]`
//!
//! NBD works with other servers too, such as nbdkit's, and vfio-user with SPDK's `nvmf_tgt`. Over vfio-user the client always
//! spins, and does not look at what it reads, as SPDK's `spdk_nvme_perf` does.

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use ioassay_block::SplitMix64;
use ioassay_device::client::nvme_tcp::{Settings, connect};
use ioassay_device::client::{Initiator, Refused, Request, Waiting, nbd, vfio_user};
use serde_json::json;

/// Requests to random addresses, of which so many are always in flight.
struct Load {
    depth: u16,
    length_bytes: u32,
    reads_percent: u8,
    lasts: Duration,
}

impl Load {
    /// Returns how long it took, and the sorted nanoseconds from the submission of each request to its answer.
    fn run(&self, initiator: &mut dyn Initiator) -> io::Result<(Duration, Vec<u64>)> {
        let (mut chance, data) = (SplitMix64(1), vec![0xa5; self.length_bytes as usize]);
        let mut sent = vec![Instant::now(); self.depth.into()];
        let mut free: Vec<u16> = (0..self.depth).collect();
        let (mut latencies_ns, mut error) = (Vec::new(), 0);
        let start = Instant::now();
        loop {
            let now = Instant::now();
            if now - start < self.lasts {
                for tag in free.drain(..) {
                    sent[usize::from(tag)] = now;
                    let mixed = chance.next();
                    initiator.submit(tag, self.request(mixed, initiator.size_bytes(), &data));
                }
                initiator.push()?;
            } else if free.len() == sent.len() {
                break;
            }
            let before = free.len();
            initiator.reap(&mut |done| {
                error |= done.error;
                free.extend(Some(done.tag).filter(|tag| *tag < self.depth));
            })?;
            let answered = Instant::now();
            latencies_ns
                .extend(free[before..].iter().map(|tag| (answered - sent[usize::from(*tag)]).as_nanos() as u64));
            if error != 0 {
                return Err(io::Error::other(Refused { error }));
            }
        }
        latencies_ns.sort_unstable();
        Ok((start.elapsed(), latencies_ns))
    }

    fn request<'a>(&self, mixed: u64, size_bytes: u64, data: &'a [u8]) -> Request<'a> {
        let count = (size_bytes / u64::from(self.length_bytes)).max(1);
        let at = ((u128::from(mixed) * u128::from(count)) >> 64) as u64;
        let offset_bytes = at * u64::from(self.length_bytes);
        if ((mixed % 100) as u8) < self.reads_percent {
            Request::Read { offset_bytes, length_bytes: self.length_bytes }
        } else {
            Request::Write { offset_bytes, data, fua: false }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| arguments.get(at).map_or(Ok(usual), |text| text.parse::<u64>());
    let place = arguments.first().ok_or("wanted: PLACE DEPTH MILLISECONDS [BYTES [READS_PERCENT [spins|sleeps]]]")?;
    let waiting = match arguments.get(5).map(String::as_str) {
        None | Some("spins") => Waiting::Spins,
        Some("sleeps") => Waiting::Sleeps,
        Some(_) => return Err("a client spins or sleeps".into()),
    };
    let load = Load {
        depth: number(1, 1)?.try_into()?,
        lasts: Duration::from_millis(number(2, 3000)?),
        length_bytes: number(3, 4096)?.try_into()?,
        reads_percent: number(4, 100)?.try_into()?,
    };
    let (took, latencies_ns) = match place.split_once(':') {
        Some(("nbd", at)) => {
            let mut client = nbd::Client::connect(&at.parse()?, "", true, waiting, None)?;
            load.run(&mut client)?
        }
        Some(("nvme-tcp", at)) => {
            let (at, name) = at.split_once(",nqn=").ok_or("wanted: nvme-tcp:ADDRESS:PORT,nqn=NAME")?;
            let entries = load.depth.saturating_add(1).max(32);
            let settings = Settings { waiting, entries, ..Settings::default() };
            let (_admin, mut queue) = connect(&at.parse()?, name, &settings)?;
            load.run(&mut queue)?
        }
        Some(("vfio-user", at)) => {
            let settings = vfio_user::Settings {
                entries: load.depth.saturating_add(1).max(32),
                data_bytes: (load.length_bytes as usize).next_multiple_of(4096),
                copies: false,
            };
            let (_admin, mut queue) = vfio_user::connect(at.as_ref(), &settings)?;
            load.run(&mut queue)?
        }
        _ => return Err("wanted: nbd:PLACE, nvme-tcp:PLACE or vfio-user:PATH".into()),
    };
    let percentile = |share: f64| {
        let at = (share * latencies_ns.len() as f64).ceil() as usize;
        latencies_ns.get(at.saturating_sub(1)).copied().unwrap_or(0)
    };
    let iops = latencies_ns.len() as f64 / took.as_secs_f64();
    println!(
        "{}",
        json!({
            "iops": iops.round(), "depth": load.depth, "bytes": load.length_bytes,
            "p1_ns": percentile(0.01), "p50_ns": percentile(0.5), "p99_ns": percentile(0.99),
        })
    );
    Ok(())
}
