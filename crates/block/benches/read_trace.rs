//! Speed of reading text traces in memory, beside counting their lines, which is the limit.

use std::hint::black_box;
use std::io::Cursor;
use std::time::Instant;

use ioassay_block::trace::columns::{ColumnReader, ColumnWriter};
use ioassay_block::trace::{self, ReadOptions, WriteOptions};
use ioassay_block::{BATCH, Kind, Request, Source};

const LINES: u64 = 1_000_000;
const ROUNDS: usize = 10;

/// Writes of 4 KiB at random pages, by a fixed linear congruence.
fn requests() -> Vec<Request> {
    let mut state = 1_u64;
    (0..LINES)
        .map(|number| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Request {
                at_ns: number * 100_000 + (state >> 50),
                offset_bytes: (state >> 33) % (1 << 22) * 4096,
                length_bytes: 4096,
                device: 0,
                kind: if state >> 63 == 0 { Kind::Write } else { Kind::Read },
            }
        })
        .collect()
}

fn written(name: &str, requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let format = trace::format(name).expect("a format");
    let mut sink = trace::write(format, &mut bytes, &WriteOptions::default()).expect("a format that is written");
    sink.put(requests).expect("requests that fit");
    sink.finish().expect("memory");
    drop(sink);
    bytes
}

/// The best of a few rounds, in millions of `amount` a second.
fn report(name: &str, unit: &str, amount: u64, mut round: impl FnMut()) {
    let seconds = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        round();
        begun.elapsed().as_secs_f64()
    });
    let rate = amount as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e6;
    println!("{rate:8.1} M {unit}/s  {name}");
}

fn drain(mut source: impl Source) {
    let (mut batch, mut seen) = (Vec::with_capacity(BATCH), 0);
    loop {
        source.next_batch(&mut batch).expect("a right trace");
        if batch.is_empty() {
            break;
        }
        seen += batch.len();
    }
    assert_eq!(seen as u64, LINES);
}

/// What the cache of parsed traces reads, beside copying as many requests, which is the limit.
fn columns() {
    let requests = requests();
    let mut writer = ColumnWriter::new(Cursor::new(Vec::new()), "csv").expect("memory");
    writer.put(&requests).expect("memory");
    let bytes: &'static [u8] = writer.finish().expect("memory").into_inner().leak();
    println!("columns: {:.2} bytes a request", bytes.len() as f64 / LINES as f64);
    report("columns, read", "requests", LINES, || {
        drain(ColumnReader::new(black_box(bytes)).expect("a whole file"));
    });
    let mut batch = Vec::with_capacity(BATCH);
    report("requests copied only", "requests", LINES, || {
        for part in black_box(&requests).chunks(BATCH) {
            batch.clear();
            batch.extend_from_slice(part);
            black_box(&batch);
        }
    });
}

fn texts(chosen: &[String]) {
    let requests = requests();
    let names = ["disksim", "spc", "msr", "csv", "ssdsim", "vscsi", "blktrace", "blkparse"];
    for name in names.into_iter().filter(|name| chosen.is_empty() || chosen.iter().any(|word| word == name)) {
        let text: &'static [u8] = written(name, &requests).leak();
        let format = trace::format(name).expect("a format");
        report(name, "bytes", text.len() as u64, || {
            let options = ReadOptions::default();
            drain(trace::read(format, Cursor::new(black_box(text)), &options).expect("options"));
        });
        if format.form == trace::Form::Text {
            let name = format!("{name}, lines found only");
            report(&name, "bytes", text.len() as u64, || {
                let places = memchr::memchr_iter(b'\n', black_box(text));
                black_box(places.fold(0, |sum, at| sum ^ at));
            });
        }
    }
}

/// Lines of csv by a pattern, tied to their ends and not.
fn patterns() {
    let text: &'static [u8] = written("csv", &requests()).leak();
    let columns = r"(?P<time_ns>\d+),(?P<kind>\w+),(?P<offset>\d+),(?P<length>\d+),(?P<device>\d+)";
    for (name, pattern) in
        [("regex, searched", columns.to_string()), ("regex, tied by ^ and $", format!("^{columns}$"))]
    {
        let options = ReadOptions { pattern, skip_unmatched: true, ..ReadOptions::default() };
        let format = trace::format("regex").expect("a format");
        report(name, "bytes", text.len() as u64, || {
            drain(trace::read(format, Cursor::new(black_box(text)), &options).expect("a right pattern"));
        });
    }
}

/// With names of formats, `regex` or `columns` as arguments, these alone.
fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    texts(&chosen);
    let is_chosen = |name| chosen.is_empty() || chosen.iter().any(|word| word == name);
    if is_chosen("regex") {
        patterns();
    }
    if is_chosen("columns") {
        columns();
    }
}
