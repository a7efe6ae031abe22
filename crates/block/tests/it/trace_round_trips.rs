//! What is written is read back: by its own reader, and found by the sniffer. And nothing panics.

use std::io::Cursor;

use crate::{all_of, each, with};
use ioassay_block::trace::{self, FORMATS, Format, KindCode, Loss, OutOfOrder};
use ioassay_block::trace::{ReadOptions, WriteOptions, ZeroLength};
use ioassay_block::{Error, Kind, Request};
use proptest::prelude::*;

fn write(format: &'static Format, requests: &[Request], options: &WriteOptions) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut sink = trace::write(format, &mut bytes, options)?;
    sink.put(requests)?;
    sink.finish()?;
    drop(sink);
    Ok(bytes)
}

fn written() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|format| format.is_written())
}

fn read(format: &'static Format, bytes: &[u8], options: &ReadOptions) -> Result<Vec<Request>, Error> {
    all_of(trace::read(format, Cursor::new(bytes.to_vec()), options)?)
}

/// Devices as numbers in the order of their first request: what fio's iologs keep of them.
fn by_first_use(requests: &[Request]) -> Vec<Request> {
    let mut known: Vec<u32> = Vec::new();
    let renamed = requests.iter().map(|request| {
        if !known.contains(&request.device) {
            known.push(request.device);
        }
        let at = known.iter().position(|known| *known == request.device);
        with(*request, |one| one.device = at.unwrap() as u32)
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
    let device = prop_oneof![0..4_u32, any::<u32>()];
    (0..=1_u64 << 62, range, device, 0..4_usize)
}

fn some_of(format: &Format, parts: &[Parts]) -> Vec<Request> {
    let fit = |&(at_ns, range, device, kind): &Parts| fitted(format, at_ns, range, device, kind);
    let mut requests: Vec<Request> = parts.iter().map(fit).collect();
    requests.sort_by_key(|request| request.at_ns);
    requests
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_sniffed(parts in prop::collection::vec(parts(), 1..60)) {
        for format in written() {
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
        for format in written() {
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
        // A pattern is compiled each time, which takes as long as hundreds of such traces.
        let orders = if format.name == "regex" { 1 } else { 3 };
        for &order in &[OutOfOrder::Refuse, OutOfOrder::Sort(3), OutOfOrder::Keep][..orders] {
            let options = with(ReadOptions::default(), |options| {
                (options.out_of_order, options.zero_length) = (order, ZeroLength::Skip);
                (options.csv.offset_unit_bytes, options.csv.kinds) = (Some(512), KindCode::Reads);
                options.pattern = r"(?P<time_s>\S+)[ ,](?P<lba>\d+)(?P<size>.*)".into();
            });
            if let Err(error) = read(format, bytes, &options) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

#[test]
fn a_long_trace_is_sniffed_by_its_beginning() {
    for format in written() {
        let requests = each(20_000, |number| fitted(format, number << 30, (number << 12, 4096), 0, 0));
        let bytes = write(format, &requests, &WriteOptions::default()).unwrap();
        let again = read(format, &bytes, &ReadOptions::default());
        assert_eq!(again.unwrap(), requests);
        let sniffed = trace::sniff(&bytes, None).expect(format.name);
        assert_eq!(sniffed.format.name, format.same_as.unwrap_or(format.name));
        let count = sniffed.requests;
        assert!((1000..5000).contains(&count), "{count}");
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
    let (backwards, without_unit) = ("0.5 0 8 16 1\n0.4 0 8 16 1\n", "time,op,size,lbn\n1,2a,512,3\n");
    for (text, wanted) in [
        (backwards, "disksim: line 2: goes back in time"),
        (backwards, "--format"),
        (without_unit, "csv: line 1: column name is `time`, expected a time with"),
        ("fio version 3 iolog\nx\n", "(iolog3: line 2: timestamp is"),
        ("a,b,c\n1,2,3\n", "csv begins with `a,b,c`"),
        ("", "the trace parses to nothing: 0 bytes"),
    ] {
        let error = trace::sniff(text.as_bytes(), None).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

/// What is lost is refused, or accepted.
const fn losing(loss: Loss) -> WriteOptions {
    WriteOptions { unaligned: loss, devices: loss, kinds: loss }
}

const STRICT: WriteOptions = losing(Loss::Refuse);
const LOSSY: WriteOptions = losing(Loss::Accept);

/// What a format cannot hold: the only request of a trace.
fn refuses(name: &str, request: Request, options: &WriteOptions, wanted: &str) {
    let format = trace::format(name).unwrap();
    let error = write(format, &[request], options).unwrap_err().to_string();
    let wanted = format!("request 1: {wanted}");
    assert!(error.starts_with(&wanted), "{error}");
}

#[test]
fn sector_formats_refuse_or_grow_what_is_unaligned_and_leave_out_trims() {
    let mut unaligned = crate::write(0, 700, 400);
    unaligned.kind = Kind::Read;
    let trim = with(unaligned, |one| one.kind = Kind::Trim);
    let wanted = "disksim cannot hold offset 700 and length 400";
    refuses("disksim", unaligned, &STRICT, wanted);
    refuses("disksim", trim, &STRICT, "disksim cannot hold a trim");
    let format = trace::format("disksim").unwrap();
    let written = write(format, &[trim, unaligned], &LOSSY).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), "0.000000 0 1 2 1\n");
}

#[test]
fn vscsi_knows_no_devices_and_no_lengths_beyond_32_bits() {
    let here = crate::write(0, 0, 512);
    let elsewhere = with(here, |one| one.device = 3);
    refuses("vscsi", elsewhere, &STRICT, "vscsi cannot hold device 3");
    let format = trace::format("vscsi").unwrap();
    let written = write(format, &[elsewhere], &LOSSY).unwrap();
    let kept = read(format, &written, &ReadOptions::default());
    assert_eq!(kept.unwrap(), [here]);
    let wanted = "vscsi cannot hold a length of 4294967296";
    refuses("vscsi", crate::write(0, 0, 1 << 32), &LOSSY, wanted);
}

#[test]
fn no_format_holds_nothing_or_what_ends_beyond_64_bits() {
    for format in written() {
        let name = format.name;
        refuses(name, Request::default(), &LOSSY, "a request of no length");
        let end = crate::write(0, u64::MAX, 2);
        let error = write(format, &[end], &LOSSY).unwrap_err().to_string();
        assert!(error.contains("beyond 2^64 bytes"), "{error}");
    }
}
