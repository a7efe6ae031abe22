//! What is written is read back: by its own reader, and found by the sniffer. And nothing panics.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use crate::trace_formats::all_of;
use ioassay_block::trace::{self, FORMATS, Format, Loss, OutOfOrder};
use ioassay_block::trace::{ReadOptions, WriteOptions, ZeroLength};
use ioassay_block::{Error, Kind, Request};
use proptest::prelude::*;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn write(
    format: &'static Format,
    requests: &[Request],
    options: &WriteOptions,
) -> Result<Vec<u8>, Error> {
    let output = Shared::default();
    let mut sink = trace::write(format, output.clone(), options)?;
    sink.put(requests)?;
    sink.finish()?;
    let bytes = output.0.lock().unwrap().clone();
    Ok(bytes)
}

fn read(
    format: &'static Format,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<Vec<Request>, Error> {
    all_of(trace::read(format, Cursor::new(bytes.to_vec()), options)?)
}

/// Devices as numbers in the order of their first request: what fio's iologs keep of them.
fn by_first_use(requests: &[Request]) -> Vec<Request> {
    let mut known: Vec<u32> = Vec::new();
    let mut number = |device: u32| {
        let at = known.iter().position(|known| *known == device);
        at.unwrap_or_else(|| {
            known.push(device);
            known.len() - 1
        }) as u32
    };
    let renamed = requests.iter().map(|request| Request {
        device: number(request.device),
        ..*request
    });
    renamed.collect()
}

/// A request that the format can hold, of what four numbers say.
fn fitted(format: &Format, at_ns: u64, range: (u64, u64), device: u32, kind: usize) -> Request {
    let kind = format.kinds[kind % format.kinds.len()];
    let first = range.0 / format.offset_grain_bytes * format.offset_grain_bytes;
    let length = (range.1 / format.length_grain_bytes).max(1) * format.length_grain_bytes;
    let flush = kind == Kind::Flush;
    Request {
        at_ns: at_ns / format.resolution_ns * format.resolution_ns,
        offset_bytes: if flush { 0 } else { first },
        length_bytes: if flush { 0 } else { length },
        device: if format.devices_up_to == 0 { 0 } else { device },
        kind,
    }
}

type Parts = (u64, (u64, u64), u32, usize);

fn parts() -> impl Strategy<Value = Parts> {
    let range = (0..=1_u64 << 62, 0..=u64::from(u32::MAX));
    (
        0..=1_u64 << 62,
        range,
        prop_oneof![0..4_u32, any::<u32>()],
        0..4_usize,
    )
}

fn some_of(format: &Format, parts: &[Parts]) -> Vec<Request> {
    let mut requests: Vec<Request> = parts
        .iter()
        .map(|&(at_ns, range, device, kind)| fitted(format, at_ns, range, device, kind))
        .collect();
    requests.sort_by_key(|request| request.at_ns);
    requests
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_sniffed(parts in prop::collection::vec(parts(), 1..60)) {
        for format in FORMATS {
            let mut requests = some_of(format, &parts);
            if format.name.starts_with("iolog") {
                requests = by_first_use(&requests);
            }
            let bytes = write(format, &requests, &WriteOptions::default()).expect(format.name);
            let again = read(format, &bytes, &ReadOptions::default()).expect(format.name);
            prop_assert_eq!(&again, &requests, "{}", format.name);
            let sniffed = trace::sniff(&bytes, None).expect(format.name);
            prop_assert_eq!(sniffed.format.name, format.same_as.unwrap_or(format.name));
            prop_assert_eq!(sniffed.requests, requests.len() as u64);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        never_panics(&bytes);
    }

    #[test]
    fn nearly_right_bytes_are_read_or_refused(
        parts in prop::collection::vec(parts(), 1..6),
        at: prop::sample::Index,
        with: Vec<u8>,
    ) {
        for format in FORMATS {
            let requests = some_of(format, &parts);
            let mut bytes = write(format, &requests, &WriteOptions::default()).unwrap();
            let at = at.index(bytes.len());
            let end = (at + with.len()).min(bytes.len());
            bytes.splice(at..end, with.iter().copied());
            never_panics(&bytes);
        }
    }

    #[test]
    fn lines_of_likely_characters_are_read_or_refused(text in "[0-9.,xRWQ+ \t\r\n-]{0,200}") {
        never_panics(text.as_bytes());
    }
}

fn never_panics(bytes: &[u8]) {
    let _ = trace::sniff(bytes, Some("a.csv"));
    for format in FORMATS {
        for out_of_order in [OutOfOrder::Refuse, OutOfOrder::Sort(3), OutOfOrder::Keep] {
            let options = ReadOptions {
                out_of_order,
                zero_length: ZeroLength::Skip,
                ..ReadOptions::default()
            };
            if let Err(error) = read(format, bytes, &options) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

#[test]
fn a_long_trace_is_sniffed_by_its_beginning() {
    for format in FORMATS {
        let requests: Vec<Request> = (0..20_000_u64)
            .map(|number| fitted(format, number << 30, (number << 12, 4096), 0, 0))
            .collect();
        let bytes = write(format, &requests, &WriteOptions::default()).unwrap();
        assert_eq!(
            read(format, &bytes, &ReadOptions::default()).unwrap(),
            requests
        );
        let sniffed = trace::sniff(&bytes, None).expect(format.name);
        assert_eq!(sniffed.format.name, format.same_as.unwrap_or(format.name));
        assert!(
            (1000..5000).contains(&sniffed.requests),
            "{}",
            sniffed.requests
        );
    }
}

#[test]
fn lines_that_two_formats_share_are_no_ambiguity() {
    let text = b"0 0 303567 7 0\n26214000 0 303574 7 0\n";
    for (name, chosen, same) in [
        (None, "ssdsim", "mqsim"),
        (Some("t.trace"), "ssdsim", "mqsim"),
        (Some("t.mqsim"), "mqsim", "ssdsim"),
        (Some("t.mqsim.gz"), "mqsim", "ssdsim"),
    ] {
        let sniffed = trace::sniff(text, name).unwrap();
        assert_eq!(sniffed.format.name, chosen);
        assert_eq!(sniffed.same.map(|format| format.name), Some(same));
    }
}

#[test]
fn what_fits_nothing_is_explained() {
    let error = trace::sniff(b"0.5 0 8 16 1\n0.4 0 8 16 1\n", None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("disksim: line 2: goes back in time"),
        "{error}"
    );
    assert!(error.contains("--format"), "{error}");
    let error = trace::sniff(b"time,op,size,lbn\n1,2a,512,3\n", None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("csv: line 1: column name is `time`, wanted a time with"),
        "{error}"
    );
    let error = trace::sniff(b"fio version 3 iolog\nx\n", None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("(iolog3: line 2: timestamp is `x`"),
        "{error}"
    );
    let error = trace::sniff(b"a,b,c\n1,2,3\n", None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("csv begins with `a,b,c`"), "{error}");
    let error = trace::sniff(b"", None).unwrap_err().to_string();
    assert!(
        error.starts_with("the trace parses to nothing: 0 bytes"),
        "{error}"
    );
}

const STRICT: WriteOptions = WriteOptions {
    unaligned: Loss::Refuse,
    devices: Loss::Refuse,
    kinds: Loss::Refuse,
};
const LOSSY: WriteOptions = WriteOptions {
    unaligned: Loss::Accept,
    devices: Loss::Accept,
    kinds: Loss::Accept,
};

fn refused(format: &str, request: Request, options: &WriteOptions) -> String {
    let format = trace::format(format).unwrap();
    let refused = write(format, &[request], options);
    refused
        .expect_err("a request that cannot be written")
        .to_string()
}

#[test]
fn sector_formats_refuse_or_grow_what_is_unaligned_and_leave_out_trims() {
    let unaligned = Request {
        offset_bytes: 700,
        length_bytes: 400,
        ..Request::default()
    };
    let trim = Request {
        kind: Kind::Trim,
        ..unaligned
    };
    let error = refused("disksim", unaligned, &STRICT);
    assert!(
        error.starts_with("request 1: disksim cannot hold offset 700 and length 400"),
        "{error}"
    );
    let error = refused("disksim", trim, &STRICT);
    assert!(
        error.starts_with("request 1: disksim cannot hold a trim"),
        "{error}"
    );
    let format = trace::format("disksim").unwrap();
    let written = write(format, &[trim, unaligned], &LOSSY).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), "0.000000 0 1 2 1\n");
}

#[test]
fn vscsi_knows_no_devices_and_no_lengths_beyond_32_bits() {
    let elsewhere = Request {
        device: 3,
        length_bytes: 512,
        ..Request::default()
    };
    let error = refused("vscsi", elsewhere, &STRICT);
    assert!(
        error.starts_with("request 1: vscsi cannot hold device 3"),
        "{error}"
    );
    let format = trace::format("vscsi").unwrap();
    let written = write(format, &[elsewhere], &LOSSY).unwrap();
    let kept = Request {
        device: 0,
        ..elsewhere
    };
    assert_eq!(
        read(format, &written, &ReadOptions::default()).unwrap(),
        [kept]
    );
    let long = Request {
        length_bytes: 1 << 32,
        ..Request::default()
    };
    let error = refused("vscsi", long, &LOSSY);
    assert!(
        error.starts_with("request 1: vscsi cannot hold a length of 4294967296"),
        "{error}"
    );
}

#[test]
fn no_format_holds_nothing_or_what_ends_beyond_64_bits() {
    let end = Request {
        offset_bytes: u64::MAX,
        length_bytes: 2,
        ..Request::default()
    };
    for format in FORMATS {
        let error = refused(format.name, Request::default(), &LOSSY);
        assert!(
            error.starts_with("request 1: a request of no length"),
            "{error}"
        );
        assert!(refused(format.name, end, &LOSSY).contains("beyond 2^64 bytes"));
    }
}
