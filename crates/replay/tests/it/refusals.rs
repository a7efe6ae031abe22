//! What cannot be replayed is refused with its number, before anything is issued or where it comes.

use std::fs;
use std::sync::atomic::AtomicBool;

use ioassay_block::{Kind, Request};
use ioassay_replay::{Ended, Error, Fault, Pace, Progress, Setup, replay, survey};

use crate::{BLOCK, Target, replayed, request, source};

fn fault(second: Request, setup: &Setup) -> Fault {
    match replayed(&[request(Kind::Write, 0, 0, 1), second], setup) {
        Err(Error::Request { number: 2, fault }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_that_the_target_cannot_take_is_refused_before_anything_is_issued() {
    let target = Target::new(4);
    let setup = target.setup(Pace::Timed);
    let fitting = request(Kind::Write, 0, 1, 1);
    let cases = [
        (request(Kind::Read, 0, 3, 2), "Beyond"),
        (Request { offset_bytes: u64::MAX - 4095, ..fitting }, "Beyond"),
        (request(Kind::Trim, 0, 4, 1), "Beyond"),
        (Request { length_bytes: 100, ..fitting }, "Unaligned"),
        (Request { offset_bytes: 100, ..fitting }, "Unaligned"),
        (Request { length_bytes: 0, ..fitting }, "Empty"),
        (Request { device: 1, ..fitting }, "OtherDevice"),
    ];
    for (second, wanted) in cases {
        let found = format!("{:?}", fault(second, &setup));
        assert!(found.starts_with(wanted), "{second:?}: {found}");
    }
    assert!(fs::read(target.path()).unwrap().iter().all(|&byte| byte == 0), "something was written");
}

#[test]
fn a_request_longer_than_the_memory_of_data_is_refused() {
    let target = Target::new(2048);
    let long = request(Kind::Write, 0, 0, 2048);
    assert!(matches!(fault(long, &target.setup(Pace::Timed)), Fault::TooLong { most_bytes: 4_194_304, .. }));
}

#[test]
fn a_smaller_size_limits_the_target_and_a_larger_one_is_refused() {
    let target = Target::new(4);
    let setup = |blocks| Setup { size_bytes: Some(blocks * BLOCK), ..target.setup(Pace::Timed) };
    assert!(matches!(fault(request(Kind::Read, 0, 2, 1), &setup(2)), Fault::Beyond { size_bytes: 8192, .. }));
    let refused = replayed(&[request(Kind::Read, 0, 2, 1)], &setup(5)).unwrap_err().to_string();
    assert!(refused.contains("has 16384 bytes, expected at least the 20480"), "{refused}");
}

#[test]
fn a_bad_request_of_a_trace_that_is_read_once_ends_the_replay_with_its_number() {
    let target = Target::new(4);
    let setup = target.setup(Pace::Fast);
    // More than is read ahead, so that it is met under way.
    let mut requests = vec![request(Kind::Write, 0, 1, 1); 300_000];
    requests.push(request(Kind::Read, 0, 9, 1));
    let setup = Setup { path: None, size_bytes: Some(target.bytes), ..setup };
    let outcome = replay(source(&requests), None, &setup, &Progress::default(), &AtomicBool::new(false)).unwrap();
    assert_eq!((outcome.ended, outcome.requests, outcome.write.ios), (Ended::Failed, 300_000, 300_000));
    assert!(outcome.reason.unwrap().starts_with("request 300001: Read of 4096 bytes at offset 36864"));
}

#[test]
fn what_is_no_file_or_device_is_refused() {
    let target = Target::new(1);
    let setup = |path: &str| Setup { path: Some(target.folder.path().join(path)), ..target.setup(Pace::Timed) };
    fs::write(target.folder.path().join("empty"), "").unwrap();
    let cases = [(".", "neither a file nor"), ("empty", "has no bytes"), ("absent", "No such file")];
    for (path, wanted) in cases {
        let refused = survey(&mut *source(&[]), &setup(path), || true).unwrap_err().to_string();
        assert!(refused.contains(wanted), "{refused}");
    }
    assert!(!target.folder.path().join("absent").exists());
}

#[test]
fn options_that_cannot_be_are_refused() {
    let usual = Setup::default();
    let cases = [
        Setup { depth: Some(0), ..usual.clone() },
        Setup { depth: Some(32769), ..usual.clone() },
        Setup { buffer_bytes: 4096, ..usual.clone() },
        Setup { buffer_bytes: (4 << 20) + 512, ..usual.clone() },
        Setup { size_bytes: Some(0), ..usual.clone() },
        Setup { duration_ns: Some(0), ..usual },
    ];
    for setup in cases {
        assert!(matches!(replayed(&[], &setup), Err(Error::Option { .. })), "{setup:?}");
    }
}

#[test]
fn a_trace_without_writes_needs_a_target_that_can_only_be_read() {
    let target = Target::new(4);
    let mut permissions = fs::metadata(target.path()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(target.path(), permissions).unwrap();
    let requests = [request(Kind::Read, 0, 1, 1), request(Kind::Flush, 0, 0, 0)];
    let outcome = replayed(&requests, &target.setup(Pace::Fast)).unwrap();
    assert_eq!((outcome.read.ios, outcome.sync.ios, outcome.errors), (1, 1, 0));
}
