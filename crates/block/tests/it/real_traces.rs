//! Real traces, in the folder that `IOASSAY_TRACES` names; passed over where there is none. And a
//! log that fio writes here, where it is installed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;

use crate::all_of;
use ioassay_block::trace::{self, KindCode, ReadOptions, Unit};
use ioassay_block::{Kind, Request};

fn trace_file(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("IOASSAY_TRACES")?).join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: there is no {name} in the folder that IOASSAY_TRACES names");
    None
}

fn requests(path: &PathBuf, format: &str, options: &ReadOptions) -> Vec<Request> {
    let format = trace::format(format).unwrap();
    all_of(trace::read(format, File::open(path).unwrap(), options).unwrap()).unwrap()
}

fn sniffed(path: &PathBuf) -> &'static str {
    let mut head = Vec::new();
    let file = File::open(path).unwrap();
    let mut beginning = file.take(trace::SNIFF_BYTES as u64);
    beginning.read_to_end(&mut head).unwrap();
    let name = path.file_name().and_then(|name| name.to_str());
    trace::sniff(&head, name).unwrap().format.name
}

fn writes(requests: &[Request]) -> usize {
    let writes = requests.iter().filter(|one| one.kind == Kind::Write);
    writes.count()
}

#[test]
fn a_virtual_disk_is_read_alike_as_records_and_as_a_table() {
    let [Some(binary), Some(table)] = ["vscsi", "csv"].map(|format| trace_file(&format!("cloudPhysicsIO.{format}")))
    else {
        return;
    };
    assert_eq!(sniffed(&binary), "vscsi");
    let records = requests(&binary, "vscsi", &ReadOptions::default());
    assert_eq!((records.len(), writes(&records)), (113_872, 66_898));
    let blocks: BTreeSet<u64> = records.iter().map(|request| request.offset_bytes).collect();
    assert_eq!(blocks.len(), 48_974);

    let mut options = ReadOptions::default();
    options.csv.time_unit = Some(Unit::Seconds);
    options.csv.kinds = KindCode::Scsi;
    let rows = requests(&table, "csv", &options);
    assert_eq!(rows.len(), records.len());
    for (row, record) in rows.iter().zip(&records) {
        let at_ns = record.at_ns / 1_000_000_000 * 1_000_000_000;
        assert_eq!(*row, Request { at_ns, ..*record });
    }
}

#[test]
fn the_head_of_financial1_is_read() {
    let Some(path) = trace_file("financial1-head.ssdsim") else {
        return;
    };
    assert_eq!(sniffed(&path), "ssdsim");
    let requests = requests(&path, "ssdsim", &ReadOptions::default());
    assert_eq!((requests.len(), writes(&requests)), (10_000, 5_922));
}

#[test]
fn a_log_that_fio_writes_is_read() {
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skipped: fio is not installed");
        return;
    }
    let folder = std::env::temp_dir().join(format!("ioassay-iolog-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let what = "--name=job --filename=data --size=1M --bs=4k --rw=randrw --number_ios=40";
    let arguments = format!("{what} --fsync=8 --write_iolog=log --output=out");
    let done = Command::new("fio").current_dir(&folder).args(arguments.split(' ')).status();
    let log = folder.join("log");
    let seen = done.is_ok_and(|status| status.success()).then(|| {
        let format = sniffed(&log);
        (format, requests(&log, format, &ReadOptions::default()))
    });
    fs::remove_dir_all(&folder).unwrap();
    let (format, requests) = seen.expect("fio to run");
    assert!(format == "iolog3" || format == "iolog2", "{format}");
    let mut data = requests;
    data.retain(|request| request.kind != Kind::Flush);
    let is_of_the_job = |request: &Request| request.length_bytes == 4096 && request.device == 0;
    assert!(data.iter().all(is_of_the_job));
    // fio counts the fsyncs among the number of its requests.
    assert!((30..=40).contains(&data.len()), "{}", data.len());
}
