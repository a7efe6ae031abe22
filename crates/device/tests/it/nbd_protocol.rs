//! NBD, byte by byte, without a socket: what the document says is answered to what.

use crate::host::nbd::{FLAGS, Talk, contexts, info_request, kinds, option, request};
use ioassay_device::command::{Op, Status};
use ioassay_device::transport::socket::{End, Then};

const INVALID: u32 = 0x8000_0003;
const UNKNOWN: u32 = 0x8000_0006;

fn simple(error: u32) -> Vec<u8> {
    [&0x6744_6698u32.to_be_bytes()[..], &error.to_be_bytes(), b"a cookie"].concat()
}

/// The head of a chunk of a structured reply.
fn chunk(kind: [u8; 2], length: u32) -> Vec<u8> {
    [&0x668e_33efu32.to_be_bytes()[..], &[0, 1], &kind, b"a cookie", &length.to_be_bytes()].concat()
}

fn write(offset: u64) -> Vec<u8> {
    [request(1, 0, offset, 512), vec![0; 512]].concat()
}

#[test]
fn the_greeting_offers_fixed_newstyle_without_zeroes() {
    assert_eq!(Talk::new().output(0), b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let mut long = option(7, b"");
    long[12] = 0xff;
    for (mut talk, bytes) in [
        (Talk::new(), 7u32.to_be_bytes().to_vec()), // unknown flags
        (Talk::after(&[]), long),
        (Talk::after(&[]), vec![b'I' ^ 1; 16]),  // no option
        (Talk::after(&[]), option(1, b"other")), // no such export, and no way to say so
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
        talk.ask(&flags.to_be_bytes());
        let answer = talk.ask(&option(1, b"drive"));
        assert_eq!(answer.len(), 10 + zeroes);
        assert_eq!(answer[..8], (1u64 << 20).to_be_bytes());
        assert_eq!(answer[8..10], 0b1101_0110_1101_u16.to_be_bytes());
        assert_eq!(talk.ask(&request(3, 0, 0, 0)), simple(0)); // a flush afterwards
    }
}

#[test]
fn options_are_answered_as_the_document_says() {
    let name = |name| info_request(name, &[]);
    let cases: [(u32, &[u8], &[u32]); 13] = [
        (3, b"", &[2, 1]),
        (3, b"x", &[INVALID]),                // LIST has no data
        (5, b"", &[0x8000_0001]),             // no TLS
        (8, b"x", &[INVALID]),                // STRUCTURED_REPLY has no data
        (9, b"\0\0\0\0\0\0\0\0", &[INVALID]), // contexts need structured replies
        (10, b"", &[INVALID]),
        (11, b"", &[0x8000_0001]), // no extended headers
        (7, b"", &[INVALID]),
        (7, b"\xff\xff\xff\xff\0\0", &[INVALID]),
        (7, b"\0\0\0\0\0\x05\0\0", &[INVALID]),
        (7, &name("other"), &[UNKNOWN]),
        (6, &name("drive"), &[3, 3, 1]),
        (6, &info_request("drive", &[0, 1, 2, 3, 77]), &[3, 3, 3, 3, 1]),
    ];
    let mut talk = Talk::after(&[]);
    for (kind, data, answers) in cases {
        assert_eq!(talk.kinds(kind, data), answers, "option {kind} {data:?}");
    }
    assert_eq!(talk.send(&option(2, b"")), Then::Ends(End::Now));
    assert_eq!(kinds(&talk.output(0)), [1]);
}

#[test]
fn the_context_of_allocation_is_listed_and_set() {
    let mut talk = Talk::after(&[option(8, b"")]);
    let good = contexts("", &["base:allocation"]);
    let longer = [&good[..], b"x"].concat();
    let huge = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    for (kind, data, answers) in [
        (9, contexts("drive", &[]), &[4, 1][..]),
        (9, contexts("drive", &["base:"]), &[4, 1]),
        (9, contexts("drive", &["qemu:dirty-bitmap:x", "base:allocation"]), &[4, 1]),
        (9, contexts("drive", &["base"]), &[1]),
        (9, contexts("drive", &["base:allocations"]), &[1]),
        (10, contexts("", &["base:"]), &[1]),
        (10, contexts("", &[]), &[1]),
        (10, contexts("", &["base"]), &[1]),
        (10, contexts("other", &[]), &[UNKNOWN]),
        (10, good.clone(), &[4, 1]),
        (10, huge.to_vec(), &[INVALID]),
        (9, longer, &[INVALID]),
    ] {
        let told = talk.ask(&option(kind, &data));
        assert_eq!(kinds(&told), answers, "{kind} {data:?}");
        assert_eq!(told.windows(15).any(|text| text == b"base:allocation"), answers[0] == 4);
    }
    for end in 0..good.len() {
        assert_eq!(talk.kinds(10, &good[..end]), [INVALID], "{end}");
    }
}

#[test]
fn options_without_end_end_the_connection() {
    let mut talk = Talk::after(&[]);
    let goes_on = |_: &u32| talk.send(&option(3, b"")) == Then::Wants(16);
    assert!((0..10_000).take_while(goes_on).count() < 300);
}

#[test]
fn bytes_one_at_a_time_mean_the_same() {
    let whole = [&FLAGS[..], &option(8, b""), &option(7, &info_request("drive", &[3]))].concat();
    let (mut fast, mut slow) = (Talk::new(), Talk::new());
    fast.send(&whole);
    for byte in whole {
        slow.send(&[byte]);
    }
    assert_eq!(fast.output(0), slow.output(0));
    let write = [request(1, 1, 512, 512), vec![9; 512]].concat();
    for byte in write {
        slow.send(&[byte]);
    }
    assert_eq!(slow.drive.bytes[512..1024], [9; 512]);
    assert!(slow.drive.seen[0].fua);
}

#[test]
fn reads_are_answered_with_simple_or_structured_replies() {
    let structured = [chunk([0, 1], 520), 1024u64.to_be_bytes().to_vec()].concat();
    let mut talk = Talk::new();
    for (is_structured, flags, head) in [(false, 0, simple(0)), (true, 4, structured)] {
        talk = Talk::agreed(is_structured);
        talk.drive.bytes[1024..1536].fill(7);
        assert_eq!(talk.ask(&request(0, flags, 1024, 512)), [head, vec![7; 512]].concat());
    }
    let refused = [chunk([0x80, 1], 6), vec![0, 0, 0, 22, 0, 0]].concat();
    assert_eq!(talk.ask(&request(0, 0, 1 << 20, 512)), refused);
}

fn with_extents() -> Talk {
    let context = contexts("", &["base:allocation"]);
    Talk::after(&[option(8, b""), option(10, &context), option(7, &info_request("", &[]))])
}

/// The extents of an answer about allocation: their lengths and flags.
fn extents(answer: &[u8]) -> Vec<(u32, u32)> {
    let words: Vec<u32> = answer[20..].chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(answer[..20], chunk([0, 5], 4 * words.len() as u32));
    assert_eq!(words[0], 1);
    words[1..].chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn what_is_allocated_is_told_in_extents() {
    let mut talk = with_extents();
    talk.drive.bytes[1024..2048].fill(7);
    assert_eq!(extents(&talk.ask(&request(7, 0, 0, 1 << 20))), [(1024, 3), (1024, 0), ((1 << 20) - 2048, 3)]);
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
    let mut talk = with_extents();
    for block in talk.drive.bytes.chunks_mut(1024) {
        block[0] = 1;
    }
    assert_eq!(talk.send(&request(7, 0, 0, 1 << 20).repeat(10_000)), Then::Blocked);
    let told = talk.output(0).len();
    assert!(told < 5 << 20, "{told}");
    assert_eq!(talk.send(&[]), Then::Blocked);
    assert!(!talk.output(0).is_empty());
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
    assert!(seen.eq([(Op::Flush, false), (Op::Trim, true), (Op::WriteZeroes, false), (Op::Trim, false)]));
    // Caching is nothing to do, nor is writing nothing.
    for nothing in [request(5, 0, 0, 512), request(1, 0, 0, 0)] {
        assert_eq!(talk.ask(&nothing), simple(0));
    }
    assert_eq!(talk.drive.seen.len(), 4);
}

#[test]
fn a_read_only_drive_says_so_and_refuses_writes() {
    let mut talk = Talk::after(&[]);
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
    let mut talk = Talk::agreed(false);
    for (status, error) in [
        (Status::OutOfRange, 28),
        (Status::ReadOnly, 1),
        (Status::NoSpace, 28),
        (Status::Failed, 5),
        (Status::PowerLost, 108),
    ] {
        talk.drive.status = status;
        assert_eq!(talk.ask(&write(0)), simple(error), "{status:?}");
    }
}

#[test]
fn requests_in_flight_and_bytes_that_reads_bring_are_bounded() {
    let mut talk = Talk::agreed(true);
    let (flushes, reads) = (request(3, 0, 0, 0).repeat(2000), request(0, 0, 0, 1 << 20).repeat(20));
    for (sent, then, in_flight) in [
        (&flushes[..], Then::Blocked, 1024),
        (b"", Then::Wants(28), 976),
        (&reads, Then::Blocked, 8),
        (b"", Then::Blocked, 8),
    ] {
        assert_eq!((talk.send(sent), talk.drive.due.len()), (then, in_flight));
        talk.output(0);
    }
}

#[test]
fn a_disconnect_waits_for_what_is_in_flight() {
    let mut talk = Talk::agreed(true);
    let requests = [3, 2, 3].map(|kind| request(kind, 0, 0, 0)).concat();
    assert_eq!(talk.send(&requests), Then::Ends(End::WhenAnswered));
    assert_eq!(talk.drive.seen.len(), 1, "nothing is taken after it");
}
