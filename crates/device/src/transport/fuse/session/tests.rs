//! Requests as the kernel makes them, and what becomes of them.

use super::super::abi::{self, Fields, allocate, attribute, init};
use super::super::file_request::O_DSYNC;
use super::*;
use crate::command::{Answer, DriveInfo, Health};
use proptest::prelude::*;

const BLOCK: u64 = 512;
const SIZE: u64 = 64 * BLOCK;

struct Ram {
    facts: DriveInfo,
    data: Vec<u8>,
    due: Vec<Answer>,
}

impl Ram {
    fn new() -> Self {
        let facts = DriveInfo { size_bytes: SIZE, block_bytes: BLOCK as u32, ..DriveInfo::default() };
        Self { facts, data: vec![0; SIZE as usize], due: Vec::new() }
    }
}

impl Drive for Ram {
    fn facts(&self) -> &DriveInfo {
        &self.facts
    }

    fn submit(&mut self, command: Command, data: &[u8]) {
        let range = command.offset_bytes as usize..(command.offset_bytes + command.length_bytes) as usize;
        assert_eq!(command.offset_bytes % BLOCK, 0);
        assert_eq!(command.length_bytes % BLOCK, 0);
        match command.op {
            Op::Write => self.data[range].copy_from_slice(data),
            Op::Trim | Op::WriteZeroes => self.data[range].fill(0),
            Op::Read | Op::Flush | Op::Zone(..) => {}
        }
        self.due.push(Answer { command, status: Status::Done, arrived_ps: 0, deadline_ps: 0 });
    }

    fn content(&self, offset_bytes: u64, length_bytes: u64) -> &[u8] {
        &self.data[offset_bytes as usize..(offset_bytes + length_bytes) as usize]
    }

    fn health(&self) -> Health {
        Health::default()
    }
}

fn request(opcode: u32, unique: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((abi::IN_HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.resize(abi::IN_HEADER, 0);
    bytes.extend(body);
    bytes
}

/// Of a read, or of a write with these data.
fn transfer(offset: u64, length: usize, flags: u32, data: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend(offset.to_ne_bytes());
    body.extend((length as u32).to_ne_bytes());
    body.resize(32, 0);
    body.extend(flags.to_ne_bytes());
    body.resize(abi::WRITE_IN, 0);
    body.extend(data);
    body
}

fn fallocate(offset: u64, length: u64, mode: u32) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend(offset.to_ne_bytes());
    body.extend(length.to_ne_bytes());
    body.extend(mode.to_ne_bytes());
    body.resize(32, 0);
    body
}

struct File {
    session: Session,
    ram: Ram,
}

impl File {
    fn new() -> Self {
        Self { session: Session::new(3, (7, 8)), ram: Ram::new() }
    }

    /// errno and body of the one reply.
    fn ask(&mut self, opcode: u32, body: &[u8]) -> (i32, Vec<u8>) {
        let mut out = Vec::new();
        self.session.received(&request(opcode, 99, body), &mut self.ram, &mut out);
        for answer in std::mem::take(&mut self.ram.due) {
            assert!(out.is_empty());
            assert_eq!(answer.command.tag.transport, 3);
            match self.session.answered(&answer.command, answer.status) {
                Some(Reply::Short(bytes)) => out = bytes,
                Some(Reply::Content(header, range)) => {
                    out.extend(header);
                    out.extend(self.ram.content(range.start, range.end - range.start));
                }
                None => assert!(self.session.in_flight() > 0, "nobody waits for it"),
            }
        }
        assert_eq!(u32::from_ne_bytes(out[..4].try_into().unwrap()) as usize, out.len());
        assert_eq!(u64::from_ne_bytes(out[8..16].try_into().unwrap()), 99);
        let error = -i32::from_ne_bytes(out[4..8].try_into().unwrap());
        (error, out[abi::OUT_HEADER..].to_vec())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> i32 {
        let (error, body) = self.ask(opcode::WRITE, &transfer(offset, data.len(), 0, data));
        if error == 0 {
            assert_eq!(body.len(), 8);
        }
        error
    }

    fn read(&mut self, offset: u64, length: usize) -> Vec<u8> {
        let (error, body) = self.ask(opcode::READ, &transfer(offset, length, 0, &[]));
        assert_eq!(error, 0);
        body
    }
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

    #[test]
    fn whatever_is_read_from_the_device_panics_nothing(
        opcode in 0_u32..60, body in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..240,
    ) {
        let mut file = File::new();
        let mut bytes = request(opcode, 1, &body);
        let mut out = Vec::new();
        file.session.received(&bytes, &mut file.ram, &mut out);
        bytes.truncate(cut);
        file.session.received(&bytes, &mut file.ram, &mut out);
    }
}

#[test]
fn the_end_of_the_file_is_the_end_of_the_drive() {
    let mut file = File::new();
    assert_eq!(file.write(SIZE - 3, b"abcdef"), 0);
    assert_eq!(file.read(SIZE - 3, 100), b"abc");
    assert_eq!(file.write(SIZE, b"x"), errno::NO_SPACE);
    assert_eq!(file.read(SIZE, 100), b"");
    assert_eq!(file.read(u64::MAX - 5, 100), b"");
}

#[test]
fn a_write_of_a_file_opened_for_synchronous_writes_is_durable() {
    let mut file = File::new();
    let mut out = Vec::new();
    for (flags, wanted) in [(0, false), (O_DSYNC, true), (0o4_010_000, true)] {
        let body = transfer(0, 1, flags, b"x");
        file.session.received(&request(opcode::WRITE, 1, &body), &mut file.ram, &mut out);
        assert_eq!(file.ram.due.pop().unwrap().command.fua, wanted);
    }
}

#[test]
fn holes_are_trims_and_zeroes_are_written() {
    let mut file = File::new();
    let keep = allocate::KEEP_SIZE;
    for (mode, wanted) in [(allocate::PUNCH_HOLE | keep, Op::Trim), (allocate::ZERO_RANGE | keep, Op::WriteZeroes)] {
        let mut out = Vec::new();
        let body = fallocate(BLOCK, BLOCK, mode);
        file.session.received(&request(opcode::FALLOCATE, 1, &body), &mut file.ram, &mut out);
        let answer = file.ram.due.pop().unwrap();
        assert_eq!((answer.command.op, answer.command.offset_bytes), (wanted, BLOCK));
    }
    for mode in [0, keep, 8] {
        assert_eq!(file.ask(opcode::FALLOCATE, &fallocate(0, BLOCK, mode)).0, errno::NOT_SUPPORTED);
    }
}

#[test]
fn holes_and_zeroes_spare_what_lies_beside_them() {
    let keep = allocate::KEEP_SIZE;
    for mode in [allocate::PUNCH_HOLE | keep, allocate::ZERO_RANGE] {
        for (start, end) in [(5, 15), (5, 700), (500, 520), (1, 5 * BLOCK - 1), (BLOCK, 1030)] {
            let mut file = File::new();
            file.ram.data.fill(7);
            let body = fallocate(start, end - start, mode);
            assert_eq!(file.ask(opcode::FALLOCATE, &body), (0, Vec::new()));
            let zeroed = |at: usize| (start as usize..end as usize).contains(&at);
            let mut content = file.ram.data.iter().enumerate();
            assert!(content.all(|(at, byte)| *byte == if zeroed(at) { 0 } else { 7 }));
        }
    }
}

#[test]
fn a_hole_that_fails_in_part_fails() {
    let mut file = File::new();
    let mut out = Vec::new();
    let body = fallocate(5, 3 * BLOCK, allocate::PUNCH_HOLE | allocate::KEEP_SIZE);
    let request = request(opcode::FALLOCATE, 5, &body);
    file.session.received(&request, &mut file.ram, &mut out);
    let parts: Vec<Command> = file.ram.due.drain(..).map(|one| one.command).collect();
    assert_eq!((parts.len(), file.session.in_flight()), (3, 3));
    let done = file.session.answered(&parts[1], Status::NoSpace);
    assert_eq!((done, out.len()), (None, 0));
    assert_eq!(file.session.answered(&parts[0], Status::Done), None);
    let result = file.session.answered(&parts[2], Status::Failed);
    let wanted = abi::out_header(5, errno::NO_SPACE, 0);
    assert_eq!(result, Some(Reply::Short(wanted.into())));
}

#[test]
fn no_allocation_makes_the_file_larger() {
    let mut file = File::new();
    let zeroes = |mode| fallocate(SIZE - BLOCK, 2 * BLOCK, mode);
    let mut ask = |mode| file.ask(opcode::FALLOCATE, &zeroes(mode)).0;
    assert_eq!(ask(allocate::ZERO_RANGE), errno::TOO_BIG);
    assert_eq!(ask(allocate::ZERO_RANGE | allocate::KEEP_SIZE), 0);
}

#[test]
fn a_read_only_drive_says_so() {
    let mut file = File::new();
    file.ram.facts.read_only = true;
    assert_eq!(file.write(0, b"x"), errno::READ_ONLY);
    assert_eq!(file.ask(opcode::OPEN, &2_u32.to_ne_bytes()).0, errno::READ_ONLY);
    assert_eq!(file.ask(opcode::OPEN, &0_u32.to_ne_bytes()).0, 0);
}

#[test]
fn reads_into_the_page_cache_are_remembered_or_refused() {
    let mut file = File::new();
    let mut body = transfer(4096, 4096, 0, &[]);
    assert_eq!(file.ask(opcode::READ, &body).0, 0);
    let cached = file.session.cached.as_ref().unwrap();
    assert!(cached.overlaps(&(8191..8192)) && !cached.overlaps(&(0..4096)));
    file.session.cached = None;
    assert_eq!(file.ask(opcode::READ, &body).0, errno::NOT_SUPPORTED);
    body[20..24].copy_from_slice(&abi::READ_HAS_OWNER.to_ne_bytes());
    assert_eq!(file.ask(opcode::READ, &body).0, 0);
}

#[test]
fn a_failed_command_is_an_error_of_its_program() {
    for (status, wanted) in
        [(Status::Failed, errno::IO), (Status::NoSpace, errno::NO_SPACE), (Status::PowerLost, errno::IO)]
    {
        let mut file = File::new();
        let mut out = Vec::new();
        let body = transfer(0, 512, 0, &[]);
        file.session.received(&request(opcode::READ, 5, &body), &mut file.ram, &mut out);
        let answer = file.ram.due.pop().unwrap();
        let result = file.session.answered(&answer.command, status);
        assert_eq!(result, Some(Reply::Short(abi::out_header(5, wanted, 0).into())));
        assert_eq!(file.session.answered(&answer.command, status), None);
    }
}

#[test]
fn the_size_stays_as_with_a_block_device() {
    let mut file = File::new();
    let resize = |valid: u32, size: u64| {
        let mut body = valid.to_ne_bytes().to_vec();
        body.resize(16, 0);
        body.extend(size.to_ne_bytes());
        body.resize(88, 0);
        body
    };
    let by_handle = attribute::SIZE | attribute::HANDLE;
    assert_eq!(file.ask(opcode::SETATTR, &resize(by_handle, 100)).0, errno::INVALID);
    assert_eq!(file.ask(opcode::SETATTR, &resize(by_handle, SIZE)).0, 0);
    let (error, body) = file.ask(opcode::SETATTR, &resize(attribute::SIZE, 0));
    assert_eq!(error, 0);
    assert_eq!(u64::from_ne_bytes(body[24..32].try_into().unwrap()), SIZE);
}

#[test]
fn an_older_kernel_is_spoken_to_in_its_version() {
    let mut file = File::new();
    let hello = |major: u32, minor: u32, flags: u32| {
        let mut body = Vec::new();
        for number in [major, minor, 0, flags] {
            body.extend(number.to_ne_bytes());
        }
        body
    };
    let (error, body) = file.ask(opcode::INIT, &hello(7, 31, init::ASYNC_DIO));
    assert_eq!((error, body.len()), (0, 64));
    assert_eq!(Fields(&body).u32(4), Some(31));
    assert_eq!(Fields(&body).u32(12), Some(init::ASYNC_DIO));
    assert_eq!(file.ask(opcode::INIT, &hello(6, 31, 0)).0, errno::NOT_SUPPORTED);
    assert_eq!(file.ask(1, &[]).0, errno::NOT_IMPLEMENTED);
}

#[test]
fn a_ring_is_agreed_on_where_both_sides_have_it() {
    let hello = |flags: u32, more: u32| -> Vec<u8> {
        let numbers = [7_u32, 42, 0, flags, more];
        numbers.into_iter().flat_map(u32::to_ne_bytes).collect()
    };
    let offered = hello(init::EXTENDED | init::MAX_PAGES, init::OVER_IO_URING);
    for (over_ring, offer, agreed) in [
        (true, offered.clone(), true),
        (false, offered, false),
        (true, hello(init::MAX_PAGES, init::OVER_IO_URING), false),
        (true, hello(init::EXTENDED, 0), false),
    ] {
        let mut file = File::new();
        file.session.over_ring = over_ring;
        let (error, body) = file.ask(opcode::INIT, &offer);
        let number = |at| Fields(&body).u32(at).unwrap();
        assert_eq!((error, body.len()), (0, 64));
        assert_eq!(number(12) & init::EXTENDED != 0, agreed);
        assert_eq!(number(32) == init::OVER_IO_URING, agreed);
        // No request has more data than an entry has room for.
        let most = if agreed { 64 << 10 } else { 1 << 20 };
        assert_eq!((number(20), number(28) & 0xffff), (most, most / 4096));
    }
}
