//! NVMe over TCP, byte by byte, without a socket: commands of I/O queues and their data.

use crate::host::{Capsule, Entry, NAME, Scene, Unit, completed, completions, copy, data, end_of, read, set};
use crate::host::{status_of, vain, write};
use ioassay_device::command::{Op, Status};
use ioassay_device::transport::socket::Then;

/// What reached the drive: the operation, the bytes, and whether it is to be durable.
fn seen(scene: &Scene) -> Vec<(Op, u64, bool)> {
    let seen = scene.drive.seen.iter();
    seen.map(|command| (command.op, command.length_bytes, command.fua)).collect()
}

#[test]
fn reads_and_writes_reach_the_drive() {
    let mut scene = Scene::connected();
    let durable = write(1, 5, 1).word(12, 1 << 30);
    assert_eq!(scene.ask_with(1, write(1, 3, 2), &[7; 1024]), (0, 0));
    assert_eq!(scene.ask_with(1, durable, &[8; 512]), (0, 0));
    let (id, data) = (2, [[7; 512], [8; 512]].concat());
    let completed = Unit::Completed { id, status: 0, result: 0, head: 3 };
    assert_eq!(scene.send(1, &read(2, 4, 2).alone()), [Unit::Data { id, data, success: false }, completed]);
    assert_eq!(seen(&scene), [(Op::Write, 1024, false), (Op::Write, 512, true), (Op::Read, 1024, false)]);
}

#[test]
fn what_is_there_is_compared_and_verified() {
    let mut scene = Scene::connected();
    scene.drive.bytes[2048..3072].fill(9);
    let compare = Entry::new(5, 3).blocks(4, 2).pointer(0x01, 0, 1024);
    assert_eq!(scene.ask_with(1, compare, &[9; 1024]), (0, 0));
    assert_eq!(scene.ask_with(1, compare, &[0; 1024]).0, vain(0x285));
    let verify = |blocks| Entry::new(0x0c, 3).blocks(0, blocks);
    assert_eq!(scene.ask(1, verify(2048)), (0, 0));
    assert_eq!(scene.ask(1, verify(2049)), (vain(2), 0), "VSL is 1 MiB");
    assert_eq!(seen(&scene), [1024, 1024, 1 << 20].map(|bytes| (Op::Read, bytes, false)));
}

#[test]
fn flushes_zeroes_and_deallocated_ranges_reach_the_drive() {
    let mut scene = Scene::connected();
    let zeroes = Entry::new(8, 3);
    assert_eq!(scene.ask(1, Entry::new(0, 3).namespace(1)), (0, 0));
    assert_eq!(scene.ask(1, Entry::new(0, 3).namespace(u32::MAX)), (0, 0));
    assert_eq!(scene.ask(1, zeroes.blocks(0, 4)), (0, 0));
    assert_eq!(scene.ask(1, zeroes.blocks(4, 1).word(12, 1 << 25)), (0, 0));
    let ranges = [8 << 32, 5, 0, 1, 1 << 32, 100_u64].map(u64::to_le_bytes).concat();
    let deallocate = Entry::new(9, 3).namespace(1).word(10, 2).word(11, 4);
    assert_eq!(scene.ask_with(1, deallocate.pointer(0x01, 0, 48), &ranges), (0, 0));
    // Linux sends a whole page of ranges, however few there are.
    assert_eq!(scene.ask_with(1, deallocate.pointer(0x01, 0, 4096), &[0; 4096]), (0, 0));
    let zeroes_and_trims = [(Op::WriteZeroes, 2048), (Op::Trim, 512), (Op::Trim, 4096), (Op::Trim, 512)];
    let expected = [(Op::Flush, 0); 2].into_iter().chain(zeroes_and_trims);
    assert!(seen(&scene).into_iter().eq(expected.map(|(op, bytes)| (op, bytes, false))));
}

#[test]
fn a_copy_has_what_its_sources_had() {
    let mut scene = Scene::connected();
    for block in 0..8 {
        scene.drive.bytes[block * 512..(block + 1) * 512].fill(block as u8 + 1);
    }
    let first = |scene: &Scene, blocks: [usize; 4]| blocks.map(|block| scene.drive.bytes[block * 512]);
    let (entry, ranges) = copy(100, &[(6, 1), (0, 3)]);
    assert_eq!(scene.ask_with(1, entry.word(12, 1 | (1 << 30)), &ranges), (0, 0));
    assert_eq!(first(&scene, [100, 101, 102, 103]), [7, 1, 2, 3]);
    assert_eq!(seen(&scene), [(Op::Read, 512, false), (Op::Read, 1536, false), (Op::Write, 2048, true)]);
    // Ranges that overlap each other and the destination.
    let (entry, ranges) = copy(1, &[(0, 3), (1, 1)]);
    assert_eq!(scene.ask_with(1, entry, &ranges), (0, 0));
    assert_eq!(first(&scene, [1, 2, 3, 4]), [1, 2, 3, 2]);
    // A read that fails fails the command.
    scene.drive.status = Status::Media;
    assert_eq!(scene.ask_with(1, entry, &ranges).0, vain(0x281));
}

#[test]
fn copies_that_cannot_be_are_refused() {
    let mut scene = Scene::connected();
    for (to, sources, status) in [
        (8192, &[(0, 1)][..], 0x80),
        (8191, &[(0, 1), (1, 1)], 0x80),
        (0, &[(0, 1), (8192, 1)], 0x80),
        (0, &[(u64::MAX, 1)], 0x80),
        (0, &[(0, 2049)], 0x183),
        (0, &[(0, 2048), (0, 1)], 0x183),
        (0, &[(0, 1); 129], 0x183),
    ] {
        let (entry, ranges) = copy(to, sources);
        assert_eq!(scene.ask_with(1, entry, &ranges).0, vain(status), "{to} {sources:?}");
    }
    let (entry, ranges) = copy(0, &[(1, 1)]);
    assert_eq!(scene.ask_with(1, entry.word(12, 1 << 8), &ranges).0, vain(0x02)); // format 1
    assert_eq!(scene.ask_with(1, entry.namespace(2), &ranges).0, vain(0x0b));
    assert_eq!(scene.ask_with(1, entry.word(12, 1), &ranges).0, vain(0x0f)); // one range of two
    assert_eq!(scene.ask(1, entry.pointer(0x01, 0, 0)).0, vain(0x0f)); // none at all
    scene.drive.facts.read_only = true;
    assert_eq!(scene.ask_with(1, entry, &ranges).0, vain(0x20));
    assert_eq!(seen(&scene), []);
    // As Identify says.
    let (controller, namespace) = (scene.identify(1, 0).unwrap(), scene.identify(0, 1).unwrap());
    assert_eq!((controller[521], controller[534]), (1, 1));
    assert_eq!(namespace[74..81], [0, 8, 0, 8, 0, 0, 127]);
}

#[test]
fn commands_that_cannot_be_are_refused_and_the_connection_goes_on() {
    let mut scene = Scene::connected();
    let mut prp = read(1, 0, 1);
    prp.0[1] = 0;
    let mut fused = read(1, 0, 1);
    fused.0[1] |= 1;
    let deallocate = Entry::new(9, 1).namespace(1).word(11, 4);
    let cases: [(Entry, usize, u16); 18] = [
        (read(1, 8192, 1), 0, 0x80),
        (read(1, 8191, 2), 0, 0x80),
        (read(1, u64::MAX, 1), 0, 0x80),
        (read(1, 0, 1).namespace(2), 0, 0x0b),
        (read(1, 0, 1).namespace(u32::MAX), 0, 0x0b),
        (read(1, 0, 4096), 0, 0x02), // longer than MDTS
        (read(1, 0, 2).pointer(0x5a, 0, 512), 0, 0x0f),
        (read(1, 0, 1).pointer(0x01, 0, 512), 0, 0x11),
        (read(1, 0, 1).pointer(0x40, 0, 512), 0, 0x11), // keyed
        (prp, 0, 0x02),
        (fused, 0, 0x02),
        (write(1, 0, 1).pointer(0x01, 8, 512), 512, 0x16),
        (write(1, 0, 1).pointer(0x01, u64::MAX, 512), 512, 0x16),
        (write(1, 0, 2), 512, 0x16),
        (write(1, 0, 1).pointer(0x01, 0, 511), 512, 0x0f),
        (Entry::new(0x04, 1).blocks(0, 1), 0, 0x01), // Write Uncorrectable
        (Entry::new(0x7f, 1), 0, 0x01),              // fabrics on an I/O queue
        (deallocate.pointer(0x01, 0, 15), 16, 0x0f),
    ];
    for (at, (entry, bytes, status)) in cases.into_iter().enumerate() {
        assert_eq!(scene.ask_with(1, entry, &vec![0; bytes]).0, vain(status), "case {at}");
    }
    let beyond = [2 << 32, 8191_u64].map(u64::to_le_bytes).concat();
    assert_eq!(scene.ask_with(1, deallocate.pointer(0x01, 0, 16), &beyond).0, vain(0x80));
    assert!(scene.drive.seen.is_empty());
    assert_eq!(scene.ask(1, Entry::new(0, 1).namespace(1)), (0, 0));
    assert_eq!(scene.log(1, 64, 0).unwrap()[..8], (cases.len() as u64 + 1).to_le_bytes());
}

#[test]
fn long_writes_are_asked_for_and_come_in_order() {
    let mut scene = Scene::connected();
    let begin = write(7, 0, 512).pointer(0x5a, 0, 256 << 10).alone();
    let (half, asks) = (128 << 10, [Unit::Asks { id: 7, transfer: 0, length: 256 << 10 }]);
    assert_eq!(scene.send(1, &begin), asks);
    assert_eq!(scene.send(1, &data(7, 0, 0, false, &vec![1; half])), []);
    let said = scene.send(1, &data(7, 0, half as u32, true, &vec![2; half]));
    assert_eq!(status_of(&said), 0);
    assert_eq!((scene.drive.bytes[0], scene.drive.bytes[half]), (1, 2));
    for (id, transfer, offset, is_last, bytes, status) in [
        (7, 0, 512, false, 512, 4),
        (7, 0, 0, true, 512, 1),
        (7, 1, 0, false, 512, 1),
        (8, 0, 0, false, 512, 1),
        (7, 0, u32::MAX, false, 512, 4),
        (7, 0, 0, false, 0, 1),
    ] {
        let mut scene = Scene::connected();
        assert_eq!(scene.send(1, &begin), asks);
        assert_eq!(end_of(&scene.send(1, &data(id, transfer, offset, is_last, &vec![1; bytes]))).0, status);
    }
}

#[test]
fn data_of_writes_take_a_bounded_memory() {
    let mut scene = Scene::new();
    scene.admin(NAME, 0);
    scene.io(1, 128);
    let mut asked = Vec::new();
    for id in 0..20 {
        asked.extend(scene.send(1, &write(id, 0, 2048).pointer(0x5a, 0, 1 << 20).alone()));
    }
    assert_eq!(asked.len(), 8, "asked for {asked:?}");
    let mut complete = 0;
    while let Some(ask) = asked.pop() {
        let Unit::Asks { id, transfer, .. } = ask else { panic!("{ask:?}") };
        for part in 0..8u32 {
            let mut said = scene.send(1, &data(id, transfer, part << 17, part == 7, &vec![9; 1 << 17]));
            complete += completions(&said).into_iter().filter(|&(_, status, _)| status == 0).count();
            said.retain(|said| matches!(said, Unit::Asks { .. }));
            asked.extend(said);
        }
    }
    assert_eq!(complete, 20);
}

#[test]
fn a_number_in_use_and_more_commands_than_entries_are_noticed() {
    let mut scene = Scene::connected();
    let waits = |id| write(id, 0, 512).pointer(0x5a, 0, 256 << 10).alone();
    scene.send(1, &waits(7));
    assert_eq!(completed(&scene.send(1, &waits(7))), (7, 0x4003, 0));
    let mut ends = |id: &u16| matches!(scene.send(1, &waits(*id))[..], [Unit::Ends { status: 2, .. }]);
    // 32 entries, of which one is in use already.
    assert_eq!((100..200).find(&mut ends), Some(131));
}

#[test]
fn reads_in_flight_are_bounded() {
    let mut scene = Scene::new();
    scene.admin(NAME, 0);
    scene.io(1, 128);
    let reads: Vec<u8> = (0..20).flat_map(|id| read(id, 0, 2048).alone()).collect();
    assert_eq!((scene.arrive(1, &reads), scene.drive.due.len()), (Then::Blocked, 8));
    assert_eq!(scene.all[1].unread.len(), 12 * 72);
}

#[test]
fn without_its_write_cache_every_write_is_durable() {
    let mut scene = Scene::connected();
    for (value, durable) in [(1, false), (0, true), (1, false)] {
        assert_eq!(scene.ask(0, set(6, value)), (0, 0));
        let flushed = scene.drive.seen.last().is_some_and(|last| last.op == Op::Flush);
        assert_eq!(flushed, durable, "what the cache had is durable first");
        scene.ask_with(1, write(1, 0, 1), &[0; 512]);
        assert_eq!(scene.drive.seen.last().unwrap().fua, durable);
    }
    scene.drive.facts.volatile_cache = false;
    assert_eq!(scene.ask(0, set(6, 0)).0, vain(2));
}

#[test]
fn what_the_drive_says_becomes_a_status() {
    let mut scene = Scene::connected();
    for (status, expected) in [
        (Status::OutOfRange, vain(0x80)),
        (Status::ReadOnly, vain(0x20)),
        (Status::NoSpace, vain(0x81)),
        (Status::PowerLost, 0x05),
        (Status::Failed, 0x280),
    ] {
        scene.drive.status = status;
        assert_eq!(scene.ask_with(1, write(1, 0, 1), &[0; 512]).0, expected, "{status:?}");
    }
    assert_eq!(scene.ask(1, read(1, 0, 1)).0, 0x281);
}
