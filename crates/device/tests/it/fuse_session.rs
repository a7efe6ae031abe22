//! A mounted file without its mount: requests as the kernel makes them, and what becomes of them.

use ioassay_device::command::{Op, Status};
use proptest::prelude::*;

use crate::hostile::mounted::{FALLOCATE, File, READ, SIZE_BYTES as SIZE, WRITE, allocation, transfer};

const BLOCK: u64 = 512;

const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const INIT: u32 = 26;

/// Modes of fallocate(2).
const KEEP: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
const PUNCH: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32;
const ZERO: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;

/// A file, and the commands of a request to it.
fn commands(opcode: u32, body: &[u8]) -> File {
    let mut file = file();
    assert_eq!(file.send(opcode, body), None);
    file
}

fn file() -> File {
    File::new(BLOCK as u32)
}

fn write(file: &mut File, offset: u64, data: &[u8]) -> i32 {
    let (error, body) = file.ask(WRITE, &transfer(offset, data.len() as u32, 0, data));
    assert_eq!(body.len(), if error == 0 { 8 } else { 0 });
    error
}

fn read(file: &mut File, offset: u64, length: usize) -> Vec<u8> {
    let (error, body) = file.ask(READ, &transfer(offset, length as u32, 0, &[]));
    assert_eq!(error, 0);
    body
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// A number of an answer's body.
fn word(body: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(body[at..at + 4].try_into().unwrap())
}

proptest! {
    #[test]
    fn ranges_that_are_not_whole_blocks_change_nothing_beside_them(
        writes in prop::collection::vec((0..SIZE, prop::collection::vec(any::<u8>(), 1..2000)), 1..20),
        reads in prop::collection::vec((0..SIZE + 10, 1_usize..3000), 1..20),
    ) {
        let (mut file, mut model) = (file(), vec![0_u8; SIZE as usize]);
        for (offset, data) in writes {
            prop_assert_eq!(write(&mut file, offset, &data), 0);
            let start = offset as usize;
            let length = data.len().min(SIZE as usize - start);
            model[start..start + length].copy_from_slice(&data[..length]);
        }
        for (offset, length) in reads {
            let start = (offset as usize).min(model.len());
            let end = (start + length).min(model.len());
            prop_assert_eq!(&read(&mut file, offset, length), &model[start..end]);
        }
    }
}

#[test]
fn the_end_of_the_file_is_the_end_of_the_drive() {
    let mut file = file();
    assert_eq!(write(&mut file, SIZE - 3, b"abcdef"), 0);
    assert_eq!(read(&mut file, SIZE - 3, 100), b"abc");
    assert_eq!(write(&mut file, SIZE, b"x"), libc::ENOSPC);
    assert_eq!(read(&mut file, SIZE, 100), b"");
    assert_eq!(read(&mut file, u64::MAX - 5, 100), b"");
}

#[test]
fn a_write_of_a_file_opened_for_synchronous_writes_is_durable() {
    for (flags, is_durable) in [(0, false), (libc::O_DSYNC, true), (libc::O_SYNC, true)] {
        let file = commands(WRITE, &transfer(0, 1, flags as u32, b"x"));
        assert_eq!(file.drive.due[0].command.fua, is_durable, "{flags:o}");
    }
}

#[test]
fn holes_are_trims_and_zeroes_are_written() {
    for (mode, op) in [(PUNCH | KEEP, Op::Trim), (ZERO | KEEP, Op::WriteZeroes)] {
        let command = commands(FALLOCATE, &allocation(BLOCK, BLOCK, mode)).drive.due[0].command;
        assert_eq!((command.op, command.offset_bytes), (op, BLOCK));
    }
    for mode in [0, KEEP, 8] {
        assert_eq!(file().ask(FALLOCATE, &allocation(0, BLOCK, mode)).0, libc::EOPNOTSUPP);
    }
}

#[test]
fn a_hole_that_fails_in_part_fails() {
    let mut file = commands(FALLOCATE, &allocation(5, 3 * BLOCK, PUNCH | KEEP));
    assert_eq!(file.session.in_flight(), 3);
    let statuses = [(1, Status::NoSpace), (0, Status::Done), (0, Status::Failed)];
    let told = statuses.map(|(number, status)| file.answer(number, status));
    assert_eq!(told, [None, None, Some((libc::ENOSPC, vec![]))]);
}

#[test]
fn no_allocation_makes_the_file_larger() {
    for (mode, error) in [(ZERO, libc::EFBIG), (ZERO | KEEP, 0)] {
        assert_eq!(file().ask(FALLOCATE, &allocation(SIZE - BLOCK, 2 * BLOCK, mode)).0, error);
    }
}

#[test]
fn a_read_only_drive_says_so() {
    let mut file = file();
    file.drive.facts.read_only = true;
    assert_eq!(write(&mut file, 0, b"x"), libc::EROFS);
    for (flags, error) in [(libc::O_RDWR, libc::EROFS), (libc::O_RDONLY, 0)] {
        assert_eq!(file.ask(OPEN, &flags.to_ne_bytes()).0, error);
    }
}

#[test]
fn reads_into_the_page_cache_are_remembered_or_refused() {
    let mut file = file();
    let mut body = transfer(4096, 4096, 0, &[]);
    assert_eq!(file.ask(READ, &body).0, 0);
    let cached = file.session.cached.as_ref().unwrap();
    assert!(cached.overlaps(&(8191..8192)) && !cached.overlaps(&(0..4096)));
    file.session.cached = None;
    assert_eq!(file.ask(READ, &body).0, libc::EOPNOTSUPP);
    body[20] = 2; // the read has an owner: a program
    assert_eq!(file.ask(READ, &body).0, 0);
}

#[test]
fn a_failed_command_is_an_error_of_its_program() {
    for (status, error) in
        [(Status::Failed, libc::EIO), (Status::NoSpace, libc::ENOSPC), (Status::PowerLost, libc::EIO)]
    {
        let mut file = commands(READ, &transfer(0, 512, 0, &[]));
        assert_eq!(file.answer(0, status), Some((error, vec![])));
    }
}

#[test]
fn the_size_stays_as_with_a_block_device() {
    let (size, handle) = (1 << 3, 1 << 6);
    for (valid, bytes, error) in
        [(size | handle, 100, libc::EINVAL), (size | handle, SIZE as u32, 0), (size, 0, 0), (size, 100, libc::EINVAL)]
    {
        let mut body = words(&[valid, 0, 0, 0, bytes]);
        body.resize(88, 0);
        let (said, attributes) = file().ask(SETATTR, &body);
        assert_eq!(said, error);
        assert!(error != 0 || u64::from(word(&attributes, 24)) == SIZE);
    }
}

#[test]
fn an_older_kernel_is_spoken_to_in_its_version() {
    let mut file = file();
    let flags = 1 << 15; // asynchronous direct I/O
    let (error, body) = file.ask(INIT, &words(&[7, 31, 0, flags]));
    assert_eq!((error, body.len(), word(&body, 4), word(&body, 12)), (0, 64, 31, flags));
    assert_eq!(file.ask(INIT, &words(&[6, 31, 0, 0])).0, libc::EOPNOTSUPP);
    assert_eq!(file.ask(1, &[]).0, libc::ENOSYS);
}
