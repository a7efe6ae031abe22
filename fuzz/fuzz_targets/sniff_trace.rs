//! Any bytes as the beginning of a trace: a format or an error, and what is found reads them.

#![no_main]

use ioassay_block::Source as _;
use ioassay_block::trace::{ReadOptions, SNIFF_BYTES, read, sniff};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|head: &[u8]| {
    let Ok(sniffed) = sniff(head, Some("trace.csv")) else {
        return;
    };
    if head.len() >= SNIFF_BYTES {
        return;
    }
    for format in [Some(sniffed.format), sniffed.same].into_iter().flatten() {
        // Their requests are counted whatever the event, and one of them asks what ids are.
        if matches!(format.name, "blktrace" | "blkparse" | "oraclegeneral") {
            continue;
        }
        let input = std::io::Cursor::new(head.to_vec());
        let mut source = read(format, input, &ReadOptions::default()).expect("no options");
        let (mut batch, mut requests) = (Vec::new(), 0);
        loop {
            source.next_batch(&mut batch).expect("what was sniffed to be right");
            if batch.is_empty() {
                break;
            }
            requests += batch.len() as u64;
        }
        assert_eq!(requests, sniffed.requests);
    }
});
