//! NBD, byte by byte, without a socket: what the document says is answered to what.

use std::time::Instant;

use crate::host::nbd::{FLAGS, option, request};
use crate::memory_drive::{Memory, sent};
use ioassay_device::command::{Op, Status};
use ioassay_device::transport::nbd::{Export, Nbd, NbdSession};
use ioassay_device::transport::socket::{End, Output, Protocol, SharedMemory, Then};

/// A client whose bytes go in by hand.
pub struct Talk {
    nbd: Nbd,
    session: NbdSession,
    pub drive: Memory,
    out: Vec<u8>,
    unread: Vec<u8>,
    then: Then,
}

impl Talk {
    fn new() -> Self {
        Self::over(Memory::new(1 << 20, 512))
    }

    fn over(drive: Memory) -> Self {
        let mut nbd = Nbd::new(Export::default());
        let (mut out, memory) = (Vec::new(), SharedMemory::default());
        let session = nbd.open(1, 5, Instant::now(), &memory, &mut out);
        Self { nbd, session, drive, out, unread: Vec::new(), then: Then::Wants(1) }
    }

    /// After the greeting, which both know.
    pub fn greeted(drive: Memory) -> Self {
        let mut talk = Self::over(drive);
        talk.send(&FLAGS);
        talk.out.clear();
        talk
    }

    fn usual() -> Self {
        Self::greeted(Memory::new(1 << 20, 512))
    }

    fn agreed(structured: bool) -> Self {
        let options: &[_] = if structured { &[option(8, b"")] } else { &[] };
        Self::after(options)
    }

    /// After the greeting, these options, and `GO`.
    fn after(options: &[Vec<u8>]) -> Self {
        let mut talk = Self::usual();
        for option in options {
            talk.send(option);
        }
        talk.send(&option(7, &info_request("", &[])));
        talk.out.clear();
        talk
    }

    fn with_extents() -> Self {
        let context = contexts("", &["base:allocation"]);
        Self::after(&[option(8, b""), option(10, &context)])
    }

    fn send(&mut self, bytes: &[u8]) -> Then {
        self.unread.extend_from_slice(bytes);
        let (session, out) = (&mut self.session, &mut self.out);
        let received = (self.nbd).received(session, &self.unread, out, &mut self.drive);
        self.unread.drain(..received.consumed);
        self.then = received.then;
        self.then
    }

    fn answer(&mut self) {
        let mut out = Output::default();
        while let Some(answer) = self.drive.due.pop_front() {
            let session = &mut self.session;
            self.nbd.answer(session, answer, &mut out, &self.drive);
        }
        self.out.extend(sent(out, &self.drive));
    }

    /// Sends, lets the drive answer, and gives what came back.
    pub fn ask(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.send(bytes);
        self.answer();
        std::mem::take(&mut self.out)
    }

    fn kinds(&mut self, kind: u32, data: &[u8]) -> Vec<u32> {
        kinds(&self.ask(&option(kind, data)))
    }
}

/// What `INFO` and `GO` ask of an export.
pub fn info_request(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(infos.len() as u16).to_be_bytes());
    data.extend(infos.iter().flat_map(|info| info.to_be_bytes()));
    data
}

fn simple(error: u32) -> Vec<u8> {
    let magic = 0x6744_6698u32.to_be_bytes();
    [&magic[..], &error.to_be_bytes(), b"a cookie"].concat()
}

/// The head of a chunk of a structured reply.
fn chunk(kind: [u8; 2], length: u32) -> Vec<u8> {
    let magic = 0x668e_33efu32.to_be_bytes();
    let head = [&magic[..], &[0, 1], &kind, b"a cookie"].concat();
    [head, length.to_be_bytes().to_vec()].concat()
}

fn write(offset: u64) -> Vec<u8> {
    [request(1, 0, offset, 512), vec![0; 512]].concat()
}

/// Answers to an option: their types and data.
pub fn answers(mut out: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut answers = Vec::new();
    while !out.is_empty() {
        assert_eq!(out[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
        let number = |at: usize| u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
        let end = 20 + number(16) as usize;
        answers.push((number(12), out[20..end].to_vec()));
        out = &out[end..];
    }
    answers
}

fn kinds(out: &[u8]) -> Vec<u32> {
    answers(out).into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn the_greeting_offers_fixed_newstyle_without_zeroes() {
    assert_eq!(Talk::new().out, b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let mut long = option(7, b"");
    long[12] = 0xff;
    for (mut talk, bytes) in [
        (Talk::new(), 7u32.to_be_bytes().to_vec()), // unknown flags
        (Talk::usual(), long),
        (Talk::usual(), vec![b'I' ^ 1; 16]),  // no option
        (Talk::usual(), option(1, b"other")), // no such export, and no way to say so
        (Talk::agreed(true), request(1, 0, 0, (32 << 20) + 512)),
        (Talk::agreed(true), vec![0; 28]), // no request
    ] {
        assert_eq!(talk.send(&bytes), Then::Ends(End::Now), "{bytes:?}");
    }
}

#[test]
fn export_name_begins_at_once_with_zeroes_or_without() {
    for (flags, zeroes) in [(3u32, 0), (1, 124), (0, 124)] {
        let mut talk = Talk::new();
        talk.out.clear();
        talk.send(&flags.to_be_bytes());
        let answer = talk.ask(&option(1, b"drive"));
        assert_eq!(answer.len(), 10 + zeroes);
        assert_eq!(answer[..8], (1u64 << 20).to_be_bytes());
        assert_eq!(answer[8..10], 0b1101_0110_1101_u16.to_be_bytes());
        assert_eq!(talk.ask(&request(3, 0, 0, 0)), simple(0)); // a flush afterwards
    }
}

#[test]
fn a_name_that_is_not_exported_is_refused() {
    let mut talk = Talk::usual();
    assert_eq!(talk.kinds(7, &info_request("other", &[])), [0x8000_0006]);
    assert_eq!(talk.kinds(6, &info_request("drive", &[])), [3, 3, 1]);
    let all = info_request("drive", &[0, 1, 2, 3, 77]);
    assert_eq!(talk.kinds(6, &all), [3, 3, 3, 3, 1]);
}

#[test]
fn options_are_answered_as_the_document_says() {
    let cases: [(u32, &[u8], u32); 9] = [
        (3, b"x", 0x8000_0003),                // LIST has no data
        (5, b"", 0x8000_0001),                 // no TLS
        (8, b"x", 0x8000_0003),                // STRUCTURED_REPLY has no data
        (9, b"\0\0\0\0\0\0\0\0", 0x8000_0003), // contexts need structured replies
        (10, b"", 0x8000_0003),
        (11, b"", 0x8000_0001), // no extended headers
        (7, b"", 0x8000_0003),
        (7, b"\xff\xff\xff\xff\0\0", 0x8000_0003),
        (7, b"\0\0\0\0\0\x05\0\0", 0x8000_0003),
    ];
    let mut talk = Talk::usual();
    for (kind, data, answer) in cases {
        assert_eq!(talk.kinds(kind, data), [answer], "option {kind} {data:?}");
    }
    assert_eq!(talk.kinds(3, b""), [2, 1]);
    assert_eq!(talk.send(&option(2, b"")), Then::Ends(End::Now));
    assert_eq!(kinds(&talk.out), [1]);
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
pub fn contexts(export: &str, queries: &[&str]) -> Vec<u8> {
    let word = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let mut all = word(export);
    all.extend((queries.len() as u32).to_be_bytes());
    all.extend(queries.iter().flat_map(|query| word(query)));
    all
}

#[test]
fn the_context_of_allocation_is_listed_and_set() {
    let mut talk = Talk::usual();
    talk.ask(&option(8, b""));
    let listed: [(&[&str], bool); 5] = [
        (&[], true),
        (&["base:"], true),
        (&["qemu:dirty-bitmap:x", "base:allocation"], true),
        (&["base"], false),
        (&["base:allocations"], false),
    ];
    for (queries, is_listed) in listed {
        let told = talk.ask(&option(9, &contexts("drive", queries)));
        let mut texts = told.windows(15);
        assert_eq!(texts.any(|text| text == b"base:allocation"), is_listed);
        let expected: &[u32] = if is_listed { &[4, 1] } else { &[1] };
        assert_eq!(kinds(&told), expected, "{queries:?}");
    }
    for queries in [&["base:"][..], &[], &["base"]] {
        assert_eq!(talk.kinds(10, &contexts("", queries)), [1]);
    }
    let other = contexts("other", &[]);
    assert_eq!(talk.kinds(10, &other), [0x8000_0006]);
    let good = contexts("", &["base:allocation"]);
    assert_eq!(talk.kinds(10, &good), [4, 1]);
    for end in 0..good.len() {
        assert_eq!(talk.kinds(10, &good[..end]), [0x8000_0003], "{end}");
    }
    let huge = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(talk.kinds(10, &huge), [0x8000_0003]);
    let longer = [&good[..], b"x"].concat();
    assert_eq!(talk.kinds(9, &longer), [0x8000_0003]);
}

#[test]
fn options_without_end_end_the_connection() {
    let mut talk = Talk::usual();
    let goes_on = |_: &u32| talk.send(&option(3, b"")) == Then::Wants(16);
    assert!((0..10_000).take_while(goes_on).count() < 300);
}

#[test]
fn bytes_one_at_a_time_mean_the_same() {
    let flags = 3u32.to_be_bytes();
    let go = option(7, &info_request("drive", &[3]));
    let whole = [&flags[..], &option(8, b""), &go].concat();
    let (mut fast, mut slow) = (Talk::new(), Talk::new());
    fast.send(&whole);
    for byte in whole {
        slow.send(&[byte]);
    }
    assert_eq!(fast.out, slow.out);
    let write = [request(1, 1, 512, 512), vec![9; 512]].concat();
    for byte in write {
        slow.send(&[byte]);
    }
    assert_eq!(slow.drive.bytes[512..1024], [9; 512]);
    assert!(slow.drive.seen[0].fua);
}

#[test]
fn reads_are_answered_with_simple_or_structured_replies() {
    let data = vec![7; 512];
    let mut talk = Talk::agreed(false);
    talk.drive.bytes[1024..1536].fill(7);
    let wanted = [simple(0), data.clone()].concat();
    assert_eq!(talk.ask(&request(0, 0, 1024, 512)), wanted);
    let mut talk = Talk::agreed(true);
    talk.drive.bytes[1024..1536].fill(7);
    let offset = 1024u64.to_be_bytes().to_vec();
    let wanted = [chunk([0, 1], 520), offset, data].concat();
    assert_eq!(talk.ask(&request(0, 4, 1024, 512)), wanted);
    let refused = [chunk([0x80, 1], 6), vec![0, 0, 0, 22, 0, 0]].concat();
    assert_eq!(talk.ask(&request(0, 0, 1 << 20, 512)), refused);
    assert_eq!(talk.drive.seen[0].tag.queue, 5);
}

/// The extents of an answer about allocation: their lengths and flags.
fn extents(answer: &[u8]) -> Vec<(u32, u32)> {
    let words = answer[20..].chunks(4);
    let words: Vec<u32> = words.map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(answer[..20], chunk([0, 5], 4 * words.len() as u32));
    assert_eq!(words[0], 1);
    let pairs = words[1..].chunks(2);
    pairs.map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn what_is_allocated_is_told_in_extents() {
    let mut talk = Talk::with_extents();
    talk.drive.bytes[1024..2048].fill(7);
    let whole = talk.ask(&request(7, 0, 0, 1 << 20));
    let rest = (1 << 20) - 2048;
    assert_eq!(extents(&whole), [(1024, 3), (1024, 0), (rest, 3)]);
    assert_eq!(extents(&talk.ask(&request(7, 8, 512, 1 << 18))), [(512, 3)]);
    assert_eq!(extents(&talk.ask(&request(7, 0, 1536, 512))), [(512, 0)]);
    for (flags, offset, length) in [(0, 0, 0), (0, 1 << 20, 512), (0, 1, 512), (4, 0, 512)] {
        let answer = talk.ask(&request(7, flags, offset, length));
        assert_eq!(answer[4..8], [0, 1, 0x80, 1]);
        assert_eq!(answer[20..24], [0, 0, 0, 22]);
    }
    assert!(talk.drive.seen.is_empty());
}

#[test]
fn questions_for_extents_wait_where_answers_are_not_taken() {
    let mut talk = Talk::with_extents();
    for block in talk.drive.bytes.chunks_mut(1024) {
        block[0] = 1;
    }
    let many = request(7, 0, 0, 1 << 20).repeat(10_000);
    assert_eq!(talk.send(&many), Then::Blocked);
    assert!(talk.out.len() < 5 << 20, "{}", talk.out.len());
    talk.out.clear();
    assert_eq!(talk.send(&[]), Then::Blocked);
    assert!(!talk.out.is_empty());
}

#[test]
fn requests_that_cannot_be_are_refused_and_the_connection_goes_on() {
    let mib = 1u64 << 20;
    let cases = [
        (request(0, 0, mib - 512, 1024), 22),
        (request(0, 0, u64::MAX - 511, 512), 22),
        (request(0, 0, 1, 512), 22),
        (request(0, 0, 512, 100), 22),
        (request(0, 4, 0, 512), 22),  // DF without structured replies
        (request(0, 64, 0, 512), 22), // no such flag
        (request(7, 0, 0, 512), 22),  // block status
        (request(99, 0, 0, 512), 22),
        (request(4, 0, mib, 512), 22),
        (request(6, 0, mib, 512), 28),
        (request(6, 18, 0, 512), 95), // fast, and written: zeroes take as long as data
        (request(5, 0, mib, 512), 22),
        (write(mib), 28),
        (write(3), 22),
    ];
    let mut talk = Talk::agreed(false);
    for (bytes, error) in cases {
        assert_eq!(talk.ask(&bytes), simple(error), "{:?}", &bytes[..28]);
    }
    assert!(talk.drive.seen.is_empty());
    assert_eq!(talk.ask(&request(3, 0, 0, 0)), simple(0));
}

#[test]
fn commands_reach_the_drive_as_they_are_meant() {
    let mut talk = Talk::agreed(true);
    let requests = [request(3, 0, 0, 0), request(4, 1, 0, 512), request(6, 2, 0, 1024), request(6, 16, 512, 512)];
    assert_eq!(talk.ask(&requests.concat()), simple(0).repeat(4));
    let seen = talk.drive.seen.iter().map(|command| (command.op, command.fua));
    let wanted = [(Op::Flush, false), (Op::Trim, true), (Op::WriteZeroes, false), (Op::Trim, false)];
    assert!(seen.eq(wanted));
    // Caching is nothing to do, nor is writing nothing.
    for nothing in [request(5, 0, 0, 512), request(1, 0, 0, 0)] {
        assert_eq!(talk.ask(&nothing), simple(0));
    }
    assert_eq!(talk.drive.seen.len(), 4);
}

#[test]
fn a_read_only_drive_says_so_and_refuses_writes() {
    let mut talk = Talk::usual();
    talk.drive.facts.read_only = true;
    let answer = talk.ask(&option(1, b""));
    assert_eq!(answer[8..10], 0b101_0000_1111_u16.to_be_bytes());
    for kind in [4, 6] {
        assert_eq!(talk.ask(&request(kind, 0, 0, 512)), simple(1));
    }
    assert_eq!(talk.ask(&write(0)), simple(1));
}

#[test]
fn what_the_drive_says_becomes_an_error_of_the_protocol() {
    let cases = [
        (Status::OutOfRange, 28),
        (Status::ReadOnly, 1),
        (Status::NoSpace, 28),
        (Status::Failed, 5),
        (Status::PowerLost, 108),
    ];
    for (status, error) in cases {
        let mut talk = Talk::agreed(false);
        talk.drive.status = status;
        assert_eq!(talk.ask(&write(0)), simple(error), "{status:?}");
    }
}

#[test]
fn requests_in_flight_and_bytes_that_reads_bring_are_bounded() {
    let mut talk = Talk::agreed(true);
    talk.send(&request(3, 0, 0, 0).repeat(2000));
    assert_eq!((talk.then, talk.drive.due.len()), (Then::Blocked, 1024));
    talk.answer();
    talk.send(b"");
    assert_eq!((talk.then, talk.drive.due.len()), (Then::Wants(28), 976));
    talk.answer();
    talk.send(&request(0, 0, 0, 1 << 20).repeat(20));
    assert_eq!((talk.then, talk.drive.due.len()), (Then::Blocked, 8));
    talk.answer();
    talk.send(b"");
    assert_eq!(talk.drive.due.len(), 8);
    assert_eq!(talk.nbd.in_flight(&talk.session), 8);
}

#[test]
fn a_disconnect_waits_for_what_is_in_flight() {
    let mut talk = Talk::agreed(true);
    let requests = [3, 2, 3].map(|kind| request(kind, 0, 0, 0));
    let then = talk.send(&requests.concat());
    assert_eq!(then, Then::Ends(End::WhenAnswered));
    assert_eq!(talk.drive.seen.len(), 1, "nothing is taken after it");
}
