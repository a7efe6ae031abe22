//! Serves a drive, to try it by hand:
//!
//! `cargo run --release -p ioassay-device --example serve -- '{"size_bytes": 1073741824,
//! "transports": ["nbd:unix:/tmp/drive.sock"], "stats_socket": "/tmp/drive.stats"}'`

use std::io::Write;

use ioassay_device::server::{Options, serve};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1).ok_or("expected the options, as JSON")?;
    let options: Options = serde_json::from_str(&text)?;
    let mut out = std::io::stdout();
    let summary = serve(&options, |ready| {
        // Without anybody who reads it the drive is served all the same.
        let _ = serde_json::to_string(ready).map(|line| writeln!(out, "{line}"));
    })?;
    if let Some(lost) = summary.lost {
        return Err(lost.into());
    }
    Ok(())
}
