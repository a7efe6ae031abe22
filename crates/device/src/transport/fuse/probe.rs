//! A program that reads the file at depth one, to find out how long the way through FUSE takes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::transport::Probe;

const READ_BYTES: usize = 4096;

/// Reads the beginning of a mounted file.
pub struct Reader(pub PathBuf);

impl Probe for Reader {
    fn run(&mut self, for_ms: u64, _slow: bool) -> io::Result<Vec<u64>> {
        let file = File::open(&self.0)?;
        let mut buffer = [0; READ_BYTES];
        let mut took_ns = Vec::new();
        let until = Instant::now() + Duration::from_millis(for_ms);
        while Instant::now() < until {
            let begun = Instant::now();
            file.read_at(&mut buffer, 0)?;
            took_ns.push(begun.elapsed().as_nanos() as u64);
        }
        Ok(took_ns)
    }
}
