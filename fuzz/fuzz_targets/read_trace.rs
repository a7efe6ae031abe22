//! Any bytes as a trace in the format that the second one chooses, read as the first one says: never a panic; and what
//! was read is written in the same format and read back equal, where the format can hold it.

#![no_main]

use std::io::Cursor;

use ioassay_block::trace::{self, BlkEvent, CsvColumns, FORMATS, Format, KindCode};
use ioassay_block::trace::{OutOfOrder, ReadOptions, WriteOptions, ZeroLength};
use ioassay_block::{Error, Request, Source as _};
use libfuzzer_sys::fuzz_target;

/// The requests before the first fault, and the fault.
fn requests(format: &'static Format, bytes: &[u8], options: &ReadOptions) -> (Vec<Request>, Result<(), Error>) {
    let mut all = Vec::new();
    let mut batch = Vec::new();
    let mut source = match trace::read(format, Cursor::new(bytes.to_vec()), options) {
        Ok(source) => source,
        Err(error) => return (all, Err(error)),
    };
    loop {
        if let Err(error) = source.next_batch(&mut batch) {
            assert!(!error.to_string().is_empty());
            assert!(source.next_batch(&mut batch).is_ok() && batch.is_empty());
            return (all, Err(error));
        }
        if batch.is_empty() {
            return (all, Ok(()));
        }
        all.extend_from_slice(&batch);
    }
}

/// What the format keeps: times at its resolution, and of devices in iologs only which are the same.
fn kept(format: &Format, requests: &[Request]) -> Vec<Request> {
    let mut files = Vec::new();
    let mut device = |device: u32| {
        if !format.name.starts_with("iolog") {
            return device;
        }
        let known = files.iter().position(|file| *file == device);
        known.unwrap_or_else(|| {
            files.push(device);
            files.len() - 1
        }) as u32
    };
    let kept = requests.iter().map(|request| Request {
        at_ns: request.at_ns / format.resolution_ns * format.resolution_ns,
        device: device(request.device),
        ..*request
    });
    kept.collect()
}

fn write(format: &'static Format, requests: &[Request]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut sink = trace::write(format, &mut bytes, &WriteOptions::default())?;
    sink.put(requests)?;
    sink.finish()?;
    drop(sink);
    Ok(bytes)
}

fuzz_target!(|bytes: &[u8]| {
    let [choice, number, bytes @ ..] = bytes else {
        return;
    };
    let format = &FORMATS[usize::from(*number) % FORMATS.len()];
    let csv = CsvColumns { offset_unit_bytes: Some(512), kinds: KindCode::Reads, ..CsvColumns::default() };
    let options = ReadOptions {
        out_of_order: match choice >> 6 {
            0 | 3 => OutOfOrder::Refuse,
            1 => OutOfOrder::Sort(2),
            _ => OutOfOrder::Keep,
        },
        zero_length: if choice & 16 == 0 { ZeroLength::Refuse } else { ZeroLength::Skip },
        event: if choice & 32 == 0 { BlkEvent::Queued } else { BlkEvent::Completed },
        csv: if format.is_written() { CsvColumns::default() } else { csv },
        pattern: r"(?P<time_s>\S+)[ ,](?P<lba>\d+)(?P<size>.*)".into(),
        ..ReadOptions::default()
    };
    let (seen, _) = requests(format, bytes, &options);
    if seen.is_empty() {
        return;
    }
    let Ok(written) = write(format, &seen) else {
        // iolog2 has only waits, and cannot go back in time.
        assert!(format.name == "iolog2" || !format.is_written(), "{} cannot write what it read", format.name);
        return;
    };
    let options = ReadOptions { out_of_order: OutOfOrder::Keep, ..ReadOptions::default() };
    let (again, end) = requests(format, &written, &options);
    assert!(end.is_ok(), "{}: {:?}", format.name, end.err());
    assert_eq!(kept(format, &again), kept(format, &seen), "{}", format.name);
});
