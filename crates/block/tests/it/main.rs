//! Traces, loads and cache curves, read and made through the public interface.

mod generated_loads;
mod mrc;
mod preparation;
mod real_traces;
mod trace_columns;
mod trace_compression;
mod trace_formats;
mod trace_info;
mod trace_round_trips;

use ioassay_block::{Error, Kind, Request, Source};

/// The same with a change.
fn with<T>(mut it: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut it);
    it
}

fn all_of(mut source: impl Source) -> Result<Vec<Request>, Error> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

/// A write of device 0.
fn write(at_ns: u64, offset_bytes: u64, length_bytes: u64) -> Request {
    Request { at_ns, offset_bytes, length_bytes, device: 0, kind: Kind::Write }
}

fn each(count: u64, of: impl FnMut(u64) -> Request) -> Vec<Request> {
    (0..count).map(of).collect()
}

fn of_each<T>(requests: &[Request], field: impl FnMut(&Request) -> T) -> Vec<T> {
    requests.iter().map(field).collect()
}
