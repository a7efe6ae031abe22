//! Several namespaces of a drive: what each transport shows of them, and that none reaches another.

use crate::host::nbd::{Talk, answers, contexts, info_request, option, request};
use crate::host::{Capsule, Entry, NAME, Scene, Unit, copy, read, vain};
use crate::hostile::mounted::{self, FALLOCATE, READ, WRITE, allocation, transfer};
use crate::memory_drive::Memory;
use ioassay_device::Status;
use ioassay_device::namespace::NamespaceDrive;
use ioassay_device::transport::fuse;
use proptest::prelude::*;

const BLOCK: u64 = 512;
/// The third ends within a page.
const SIZES: [u64; 3] = [16 << 10, 8 << 10, 5 << 10];
const INVALID_NAMESPACE: u16 = 0x0b;
const OUT_OF_RANGE: u16 = 0x80;

/// A drive whose namespaces hold their numbers.
fn drive() -> Memory {
    let mut drive = Memory::divided(&SIZES, 512);
    for (id, range) in places() {
        drive.bytes[range].fill(id as u8);
    }
    drive
}

fn places() -> Vec<(u32, std::ops::Range<usize>)> {
    let starts = SIZES.iter().scan(0, |end, &size| Some(std::mem::replace(end, *end + size as usize)));
    (1..).zip(starts.zip(SIZES)).map(|(id, (start, size))| (id, start..start + size as usize)).collect()
}

fn written(id: u32) -> u8 {
    0x40 | id as u8
}

/// Whether each namespace has what it may: its number, what was written to it, and zeroes. Whatever
/// a client of `id` did, the others are as they were.
fn check_apart(drive: &Memory, before: &[u8], id: u32) {
    for (other, range) in places() {
        assert!(other == id || drive.bytes[range.clone()] == before[range], "namespace {other}");
    }
}

fn check_own(data: &[u8], id: u32) {
    let own = [0, id as u8, written(id)];
    assert!(data.iter().all(|byte| own.contains(byte)), "of {id}: {data:?}");
}

// What hosts are told

#[test]
fn a_host_is_told_of_each_namespace() {
    let mut scene = Scene::over(drive());
    scene.admin(NAME, 0);
    let controller = scene.identify(1, 0).unwrap();
    assert_eq!(controller[516..520], [3, 0, 0, 0]);
    assert_eq!(controller[540..544], [3, 0, 0, 0]);
    assert_eq!(controller[280..296], u128::from(SIZES.iter().sum::<u64>()).to_le_bytes());
    assert_eq!(controller[296..312], [0; 16]);
    let listed = |page: &[u8]| -> Vec<u8> { page.chunks(4).map(|id| id[0]).take_while(|&id| id > 0).collect() };
    let lists = [(0, &[1, 2, 3][..]), (1, &[2, 3]), (2, &[3]), (3, &[])];
    for (after, left) in lists.into_iter().chain([(0xffff_fffd, &[][..])]) {
        assert_eq!(listed(&scene.identify(2, after).unwrap()), left);
        assert_eq!(listed(&scene.identify(7, after).unwrap()), left);
    }
    let mut names = Vec::new();
    for (id, size) in (1..).zip(SIZES) {
        let described = scene.identify(0, id).unwrap();
        assert_eq!(described[..8], (size / BLOCK).to_le_bytes());
        assert_eq!(described[48..64], u128::from(size).to_le_bytes());
        let descriptors = scene.identify(3, id).unwrap();
        assert_eq!(descriptors[4..20], described[104..120]);
        names.push(descriptors[24..40].to_vec());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "each has an identifier of its own");
    for id in [0, 4, 0xffff_fffe] {
        for what in [0, 3, 5, 8] {
            assert_eq!(scene.identify(what, id), Err(vain(INVALID_NAMESPACE)));
        }
    }
}

#[test]
fn bounds_are_those_of_the_namespace_and_errors_name_it() {
    let mut scene = Scene::connected_to(drive());
    for (id, size) in (1..).zip(SIZES) {
        let blocks = size / BLOCK;
        assert_eq!(scene.fetch(1, &read(1, blocks - 1, 1).namespace(id)).unwrap(), [id as u8; 512]);
        for (first, count) in [(blocks, 1), (blocks - 1, 2), (u64::MAX, 1)] {
            assert_eq!(scene.ask(1, read(2, first, count).namespace(id)), (vain(OUT_OF_RANGE), 0));
            let log = scene.log(1, 64, 0).unwrap();
            assert_eq!(log[24..28], id.to_le_bytes());
            assert_eq!(log[16..24], first.to_le_bytes());
        }
    }
    for id in [0, 4, u32::MAX] {
        assert_eq!(scene.ask(1, read(3, 0, 1).namespace(id)), (vain(INVALID_NAMESPACE), 0));
    }
    for (id, status) in [(1, 0), (3, 0), (u32::MAX, 0), (4, vain(INVALID_NAMESPACE))] {
        assert_eq!(scene.ask(1, Entry::new(0, 4).namespace(id)), (status, 0));
    }
    // What fails later is logged with the block of its namespace.
    scene.drive.status = Status::Media;
    scene.ask(1, read(5, 3, 1).namespace(2));
    let log = scene.log(1, 64, 0).unwrap();
    assert_eq!((log[16], log[24]), (3, 2));
}

#[test]
fn a_drive_that_wears_out_changes_all_namespaces() {
    let mut scene = Scene::connected_to(drive());
    scene.identify(1, 0).unwrap();
    scene.drive.facts.read_only = true;
    if let Some(namespaces) = &mut scene.drive.namespaces {
        namespaces.refuse_writes();
    }
    assert_eq!(scene.log(4, 4096, 0).unwrap()[..16], [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(scene.identify(0, 3).unwrap()[99], 1);
}

// What no client of a namespace can do

/// A command, and where it would like to be.
type Wish = (u8, u32, u64, u32, bool);

/// The beginning, the ends of all namespaces and what lies around them, and far beyond.
fn block() -> impl Strategy<Value = u64> {
    let near = |ends: &'static [u64]| {
        (prop::sample::select(ends), 0..4_u64).prop_map(|(end, off)| (end + off).saturating_sub(2))
    };
    prop_oneof![0..64_u64, near(&[10, 16, 32, 48, 58]), near(&[1 << 32, 1 << 55]), Just(u64::MAX)]
}

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let id = prop_oneof![8 => 1..=3_u32, 1 => prop::sample::select(&[0, 4, u32::MAX][..])];
    prop::collection::vec((0..10_u8, id, block(), 1..20_u32, any::<bool>()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_nvme_command_reaches_another_namespace(wishes in wishes()) {
        let mut scene = Scene::connected_to(drive());
        for (op, id, first, blocks, fua) in wishes {
            let before = scene.drive.bytes.clone();
            let bytes = blocks as usize * 512;
            let in_capsule = |entry: Entry| entry.pointer(0x01, 0, bytes as u32);
            let flag = |entry: Entry, bit: u32| entry.word(12, (blocks - 1) | (u32::from(fua) << bit));
            let (entry, data) = match op {
                0 => (Entry::new(0, 7), vec![]),
                1 if bytes <= 8192 => {
                    (flag(in_capsule(Entry::new(1, 7).blocks(first, blocks)), 30), vec![written(id); bytes])
                }
                2 if bytes <= 8192 => (in_capsule(Entry::new(5, 7).blocks(first, blocks)), vec![id as u8; bytes]),
                3 => (flag(Entry::new(8, 7).blocks(first, blocks), 25), vec![]),
                4 => (Entry::new(0x0c, 7).blocks(first, blocks), vec![]),
                5 => (Entry::new(9, 7).word(10, 1).word(11, 4).pointer(0x01, 0, 32), {
                    let ranges = [u64::from(blocks) << 32, first, 1 << 32, 0];
                    ranges.map(u64::to_le_bytes).concat()
                }),
                6 => copy(first, &[(1, 1), (first, blocks as u16)]),
                7 => copy(u64::from(blocks), &[(first, blocks as u16)]),
                _ => (read(7, first, blocks), vec![]),
            };
            for said in scene.send(1, &entry.namespace(id).capsule(&data, (false, false))) {
                if let Unit::Data { data, .. } = said {
                    check_own(&data, id);
                }
            }
            check_apart(&scene.drive, &before, id);
        }
    }

    #[test]
    fn no_nbd_request_reaches_another_export(wishes in wishes()) {
        for id in 1..=3_u32 {
            let mut talk = client_of(id);
            for &(op, _, first, blocks, flag) in &wishes {
                let before = talk.drive.bytes.clone();
                let kind = [0, 1, 6, 3, 4, 5, 6, 7][usize::from(op.min(7))]; // not the end of the connection
                let flags = u16::from(flag && kind != 7);
                let bytes = blocks * 512;
                let mut message = request(kind, flags, first.wrapping_mul(BLOCK), bytes);
                if kind == 1 {
                    message.resize(message.len() + bytes as usize, written(id));
                }
                let answer = talk.ask(&message);
                if kind == 0 && answer.len() > 28 && answer[6..8] == [0, 1] {
                    assert_eq!(answer[20..28], first.wrapping_mul(BLOCK).to_be_bytes(), "its own address");
                    check_own(&answer[28..], id);
                }
                check_apart(&talk.drive, &before, id);
            }
        }
    }

    #[test]
    fn no_request_to_a_mounted_file_reaches_another_namespace(
        wishes in wishes(), shift in 0..512_u64,
    ) {
        for id in 1..=3_u32 {
            let (mut file, mut drive) = (fuse::FuseSession::new(0, (0, 0)), drive());
            for &(op, _, first, blocks, flag) in &wishes {
                let before = drive.bytes.clone();
                let offset = first.wrapping_mul(BLOCK).wrapping_add(shift);
                let bytes = blocks * 512 - u32::from(flag) * 100;
                let request = file_request(op, offset, bytes, written(id));
                let mut view = NamespaceDrive::new(&mut drive, id).expect("a namespace");
                file.received(&request, &mut view, &mut Vec::new());
                while let Some(answer) = drive.due.pop_front() {
                    let reply = file.answered(&answer.command, answer.status);
                    if let Some(fuse::Reply::Content(_, range)) = reply {
                        let start = places()[id as usize - 1].1.start;
                        check_own(&drive.bytes[start + range.start as usize..start + range.end as usize], id);
                    }
                }
                check_apart(&drive, &before, id);
            }
        }
    }
}

/// What the kernel asks of a mounted file.
fn file_request(op: u8, offset: u64, bytes: u32, value: u8) -> Vec<u8> {
    let data = vec![value; bytes as usize];
    let (code, body) = match op % 5 {
        0 => (20, vec![0; 16]), // fsync
        1 => (WRITE, transfer(offset, bytes, 0, &data)),
        2 => (FALLOCATE, allocation(offset, bytes.into(), 1 | 2)), // a hole
        3 => (FALLOCATE, allocation(offset, bytes.into(), 1 | 16)), // zeroes
        _ => {
            let mut body = transfer(offset, bytes, 0, &[]);
            body[20..24].copy_from_slice(&2_u32.to_ne_bytes()); // a program's own
            (READ, body)
        }
    };
    mounted::request(code, 1, &body)
}

// NBD

/// A client that agreed on structured replies and extents of one export.
fn client_of(id: u32) -> Talk {
    let mut talk = Talk::greeted(drive());
    talk.ask(&option(8, &[]));
    let name = name_of(id);
    talk.ask(&option(10, &contexts(&name, &["base:allocation"])));
    assert!(talk.ask(&option(7, &info_request(&name, &[]))).len() > 20);
    talk
}

fn name_of(id: u32) -> String {
    ["drive", "drive-2", "drive-3"][id as usize - 1].to_owned()
}

#[test]
fn each_namespace_is_an_export_with_its_size() {
    let mut talk = Talk::greeted(drive());
    let listed = answers(&talk.ask(&option(3, &[])));
    for (id, (kind, name)) in (1..=3).zip(&listed) {
        assert_eq!((*kind, &name[4..]), (2, name_of(id).as_bytes()));
    }
    assert_eq!((listed.len(), listed[3].0), (4, 1));
    let [first, second, third] = SIZES;
    for (name, size) in [("", first), ("drive", first), ("drive-2", second), ("drive-3", third)] {
        let told = answers(&talk.ask(&option(6, &info_request(name, &[]))));
        assert_eq!(told[0].1[2..10], size.to_be_bytes(), "{name}");
    }
    for name in ["drive-0", "drive-1", "drive-4", "drive-02", "drive-", "drives"] {
        assert_eq!(answers(&talk.ask(&option(6, &info_request(name, &[]))))[0].0, 0x8000_0006, "{name}");
    }
}

#[test]
fn what_was_set_for_one_export_does_not_hold_for_another() {
    let extents = client_of(2).ask(&request(7, 0, 0, 8192));
    assert_eq!(extents[20..], [&1_u32.to_be_bytes()[..], &8192_u32.to_be_bytes(), &[0; 4]].concat());
    let mut talk = Talk::greeted(drive());
    talk.ask(&option(8, &[]));
    talk.ask(&option(10, &contexts("drive-2", &["base:allocation"])));
    talk.ask(&option(7, &info_request("drive-3", &[])));
    assert_eq!(talk.ask(&request(7, 0, 0, 512))[4..8], [0, 1, 0x80, 1], "an error");
}
