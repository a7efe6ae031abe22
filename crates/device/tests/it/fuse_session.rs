//! A mounted file without its mount: requests as the kernel makes them, and what becomes of them.

use ioassay_device::command::{Command, Drive, Op, Status};
use ioassay_device::transport::fuse::{FuseSession, Reply};
use proptest::prelude::*;

use crate::hostile::mounted::{FALLOCATE, OUT_HEADER, READ, WRITE, allocation, request, said, transfer};
use crate::memory_drive::Memory;

const BLOCK: u64 = 512;
const SIZE: u64 = 64 * BLOCK;

const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const INIT: u32 = 26;

/// Modes of fallocate(2).
const KEEP: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
const PUNCH: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32;
const ZERO: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;

/// The number of all requests.
const NUMBER: u64 = 99;

struct File {
    session: FuseSession,
    drive: Memory,
}

impl File {
    fn new() -> Self {
        Self { session: FuseSession::new(3, (7, 8)), drive: Memory::new(SIZE, BLOCK as u32) }
    }

    /// The commands of a request that needs the drive. They are not answered.
    fn commands(&mut self, opcode: u32, body: &[u8]) -> Vec<Command> {
        let mut out = Vec::new();
        self.session.received(&request(opcode, NUMBER, body), &mut self.drive, &mut out);
        assert!(out.is_empty());
        self.drive.due.drain(..).map(|answer| answer.command).collect()
    }

    /// errno and body of the one reply, once all commands of the request are answered.
    fn ask(&mut self, opcode: u32, body: &[u8]) -> (i32, Vec<u8>) {
        let mut out = Vec::new();
        self.session.received(&request(opcode, NUMBER, body), &mut self.drive, &mut out);
        for answer in std::mem::take(&mut self.drive.due) {
            assert_eq!((answer.command.tag.transport, out.len()), (3, 0));
            match self.session.answered(&answer.command, answer.status) {
                Some(Reply::Short(bytes)) => out = bytes,
                Some(Reply::Content(header, range)) => {
                    out.extend(header);
                    out.extend(self.drive.content(range.start, range.end - range.start));
                }
                None => assert!(self.session.in_flight() > 0, "nobody waits for it"),
            }
        }
        said(&out, NUMBER)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> i32 {
        let (error, body) = self.ask(WRITE, &transfer(offset, data.len() as u32, 0, data));
        assert_eq!(body.len(), if error == 0 { 8 } else { 0 });
        error
    }

    fn read(&mut self, offset: u64, length: usize) -> Vec<u8> {
        let (error, body) = self.ask(READ, &transfer(offset, length as u32, 0, &[]));
        assert_eq!(error, 0);
        body
    }
}

/// The last reply to a request: its errno alone.
fn failed(error: i32) -> Reply {
    let mut header = (OUT_HEADER as u32).to_ne_bytes().to_vec();
    header.extend((-error).to_ne_bytes());
    header.extend(NUMBER.to_ne_bytes());
    Reply::Short(header)
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
        let (mut file, mut model) = (File::new(), vec![0_u8; SIZE as usize]);
        for (offset, data) in writes {
            prop_assert_eq!(file.write(offset, &data), 0);
            let start = offset as usize;
            let length = data.len().min(SIZE as usize - start);
            model[start..start + length].copy_from_slice(&data[..length]);
        }
        for (offset, length) in reads {
            let start = (offset as usize).min(model.len());
            let end = (start + length).min(model.len());
            prop_assert_eq!(&file.read(offset, length), &model[start..end]);
        }
    }
}

#[test]
fn the_end_of_the_file_is_the_end_of_the_drive() {
    let mut file = File::new();
    assert_eq!(file.write(SIZE - 3, b"abcdef"), 0);
    assert_eq!(file.read(SIZE - 3, 100), b"abc");
    assert_eq!(file.write(SIZE, b"x"), libc::ENOSPC);
    assert_eq!(file.read(SIZE, 100), b"");
    assert_eq!(file.read(u64::MAX - 5, 100), b"");
}

#[test]
fn a_write_of_a_file_opened_for_synchronous_writes_is_durable() {
    for (flags, is_durable) in [(0, false), (libc::O_DSYNC, true), (libc::O_SYNC, true)] {
        let commands = File::new().commands(WRITE, &transfer(0, 1, flags as u32, b"x"));
        assert_eq!(commands[0].fua, is_durable, "{flags:o}");
    }
}

#[test]
fn holes_are_trims_and_zeroes_are_written() {
    for (mode, op) in [(PUNCH | KEEP, Op::Trim), (ZERO | KEEP, Op::WriteZeroes)] {
        let commands = File::new().commands(FALLOCATE, &allocation(BLOCK, BLOCK, mode));
        assert_eq!((commands[0].op, commands[0].offset_bytes), (op, BLOCK));
    }
    for mode in [0, KEEP, 8] {
        assert_eq!(File::new().ask(FALLOCATE, &allocation(0, BLOCK, mode)).0, libc::EOPNOTSUPP);
    }
}

#[test]
fn a_hole_that_fails_in_part_fails() {
    let mut file = File::new();
    let parts = file.commands(FALLOCATE, &allocation(5, 3 * BLOCK, PUNCH | KEEP));
    assert_eq!((parts.len(), file.session.in_flight()), (3, 3));
    assert_eq!(file.session.answered(&parts[1], Status::NoSpace), None);
    assert_eq!(file.session.answered(&parts[0], Status::Done), None);
    assert_eq!(file.session.answered(&parts[2], Status::Failed), Some(failed(libc::ENOSPC)));
}

#[test]
fn no_allocation_makes_the_file_larger() {
    for (mode, error) in [(ZERO, libc::EFBIG), (ZERO | KEEP, 0)] {
        assert_eq!(File::new().ask(FALLOCATE, &allocation(SIZE - BLOCK, 2 * BLOCK, mode)).0, error);
    }
}

#[test]
fn a_read_only_drive_says_so() {
    let mut file = File::new();
    file.drive.facts.read_only = true;
    assert_eq!(file.write(0, b"x"), libc::EROFS);
    for (flags, error) in [(libc::O_RDWR, libc::EROFS), (libc::O_RDONLY, 0)] {
        assert_eq!(file.ask(OPEN, &flags.to_ne_bytes()).0, error);
    }
}

#[test]
fn reads_into_the_page_cache_are_remembered_or_refused() {
    let mut file = File::new();
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
        let mut file = File::new();
        let command = file.commands(READ, &transfer(0, 512, 0, &[]))[0];
        assert_eq!(file.session.answered(&command, status), Some(failed(error)));
        assert_eq!(file.session.answered(&command, status), None);
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
        let (said, attributes) = File::new().ask(SETATTR, &body);
        assert_eq!(said, error);
        assert!(error != 0 || u64::from(word(&attributes, 24)) == SIZE);
    }
}

#[test]
fn an_older_kernel_is_spoken_to_in_its_version() {
    let mut file = File::new();
    let flags = 1 << 15; // asynchronous direct I/O
    let (error, body) = file.ask(INIT, &words(&[7, 31, 0, flags]));
    assert_eq!((error, body.len(), word(&body, 4), word(&body, 12)), (0, 64, 31, flags));
    assert_eq!(file.ask(INIT, &words(&[6, 31, 0, 0])).0, libc::EOPNOTSUPP);
    assert_eq!(file.ask(1, &[]).0, libc::ENOSYS);
}
