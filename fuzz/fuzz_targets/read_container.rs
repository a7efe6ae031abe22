//! Any bytes as what traces are packed in: never a panic; merged, the requests are the same.

#![no_main]

use std::io::Cursor;
use std::sync::Arc;

use ioassay_block::container::{Input, read};
use ioassay_block::trace::{OutOfOrder, ReadOptions};
use ioassay_block::{Error, Request, Source as _};
use libfuzzer_sys::fuzz_target;

fn requests(bytes: &[u8], out_of_order: OutOfOrder) -> Result<Vec<Request>, Error> {
    let bytes = bytes.to_vec();
    let input = Input { name: String::new(), open: Arc::new(move || Ok(Box::new(Cursor::new(bytes.clone())))) };
    let options = ReadOptions { out_of_order, ..ReadOptions::default() };
    let (mut source, _) = read(vec![input], None, None, &options, &Arc::default())?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let (Ok(all), Ok(merged)) = (requests(bytes, OutOfOrder::Keep), requests(bytes, OutOfOrder::Sort(1))) {
        // Devices that have names have other numbers where files of many requests are merged.
        let sorted = |requests: Vec<Request>| {
            let mut requests: Vec<Request> = requests.into_iter().map(|one| Request { device: 0, ..one }).collect();
            requests.sort_unstable();
            requests
        };
        assert_eq!(sorted(all), sorted(merged));
    }
});
