//! Loads a drive with random requests, to see how fast it answers, and prints one line of JSON:
//!
//! `cargo run --release -p ioassay-device --example load -- nbd:unix:/tmp/drive.sock 32 3000`
//! `… -- nvme-tcp:127.0.0.1:4420,nqn=NAME DEPTH MILLISECONDS [BYTES [READS_PERCENT [spins|sleeps]]]`
//! `… -- vfio-user:/tmp/drive/cntrl DEPTH MILLISECONDS [BYTES [READS_PERCENT]]`
//!
//! NBD works with other servers too, such as nbdkit's, and vfio-user with SPDK's `nvmf_tgt`. Over vfio-user the client always
//! spins, and does not look at what it reads, as SPDK's `spdk_nvme_perf` does.

use std::error::Error;
use std::time::Duration;

use ioassay_device::client::load::{Load, run};
use ioassay_device::client::nvme_tcp::{Settings, connect};
use ioassay_device::client::{Initiator, Waiting, nbd, vfio_user};
use serde_json::json;

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
        seed: 1,
    };
    let outcome = match place.split_once(':') {
        Some(("nbd", at)) => {
            let mut client = nbd::Client::connect(&at.parse()?, "", true, waiting)?;
            run(&mut client, &load)?
        }
        Some(("nvme-tcp", at)) => {
            let (at, name) = at.split_once(",nqn=").ok_or("wanted: nvme-tcp:ADDRESS:PORT,nqn=NAME")?;
            let entries = load.depth.saturating_add(1).max(32);
            let settings = Settings { waiting, entries, ..Settings::default() };
            let (_admin, mut queue) = connect(&at.parse()?, name, &settings)?;
            let queue: &mut dyn Initiator = &mut queue;
            run(queue, &load)?
        }
        Some(("vfio-user", at)) => {
            let settings = vfio_user::Settings {
                entries: load.depth.saturating_add(1).max(32),
                data_bytes: (load.length_bytes as usize).next_multiple_of(4096),
                copies: false,
            };
            let (_admin, mut queue) = vfio_user::connect(at.as_ref(), &settings)?;
            run(&mut queue, &load)?
        }
        _ => return Err("wanted: nbd:PLACE, nvme-tcp:PLACE or vfio-user:PATH".into()),
    };
    let percentile = |share| outcome.percentile_ns(share);
    println!(
        "{}",
        json!({
            "iops": outcome.iops().round(), "depth": load.depth, "bytes": load.length_bytes,
            "p1_ns": percentile(0.01), "p50_ns": percentile(0.5), "p99_ns": percentile(0.99),
        })
    );
    Ok(())
}
