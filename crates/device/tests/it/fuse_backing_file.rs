//! The file that is mounted, over a backing file that has content: what is not whole blocks changes nothing beside it.

use std::fs;

use crate::drives::{Bench, Made};
use ioassay_device::Status;
use ioassay_device::command::Drive;
use ioassay_device::transport::fuse::{Reply, Session};

const WRITE: u32 = 16;
const FALLOCATE: u32 = 43;
const PUNCH_HOLE: u32 = 3;

/// A request of the kernel: a header, and numbers and data behind it.
fn request(opcode: u32, long: [u64; 4], data: &[u8]) -> Vec<u8> {
    let mut body: Vec<u8> = long.into_iter().flat_map(u64::to_ne_bytes).collect();
    if opcode == WRITE {
        body.resize(40, 0);
        body.extend(data);
    }
    let mut bytes = (40 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(opcode.to_ne_bytes());
    bytes.resize(40, 0);
    bytes.extend(body);
    bytes
}

/// A write of `wx` at byte 5 and a hole of 9 bytes at 1 to a drive that was never read.
fn change(bench: &mut Bench) {
    let mut session = Session::new(0, (0, 0));
    let requests = [
        request(WRITE, [0, 4096 + 5, 2, 0], b"wx"),
        request(FALLOCATE, [0, 8192 + 1, 9, u64::from(PUNCH_HOLE)], &[]),
    ];
    let mut out = Vec::new();
    for one in &requests {
        session.received(one, &mut bench.drive, &mut out);
    }
    assert!(out.is_empty());
    for one in bench.settle() {
        assert_eq!(one.status, Status::Done);
        let told = session.answered(&one.command, one.status);
        assert!(matches!(told, Some(Reply::Short(_))));
    }
}

#[test]
fn what_lies_beside_a_write_or_a_hole_stays_as_the_backing_file_has_it() {
    for (model, policy) in [("none", "none"), ("thesis", "none"), ("thesis", "lru")] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backing");
        let made = Made {
            model,
            policy,
            ..Made::default()
        };
        let mut wanted = vec![7; made.size_bytes() as usize];
        fs::write(&path, &wanted).expect("a file");
        let mut bench = Bench::backed(&made, &path);
        change(&mut bench);
        bench.drive.finish().expect("a file that takes all");
        wanted[4096 + 5..4096 + 7].copy_from_slice(b"wx");
        wanted[8192 + 1..8192 + 10].fill(0);
        assert!(
            fs::read(&path).expect("a file") == wanted,
            "{model}, {policy}"
        );
        bench.drive.load(0, made.size_bytes()).expect("content");
        assert!(bench.content() == wanted, "{model}, {policy}");
    }
}
