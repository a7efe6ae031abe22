//! NVMe over TCP of a zoned drive: what hosts are told of it, and the commands of its own.

use std::collections::BTreeSet;

use crate::drives::is_all;
use crate::host::{Capsule, ENABLED, Entry, NAME, Scene, Unit, completed, configure, copy, data, event, get, property};
use crate::host::{read, set, status_of, units, vain, write, zones};
use ioassay_device::zones::ZoneAction;

const ZONE_BLOCKS: u64 = 128;
const CAPACITY_BLOCKS: u64 = 96;
const SETTINGS: u32 = ENABLED | (0b110 << 4);

/// Queue 0 and 1 of a controller of a drive with 64 zones.
fn zoned() -> Scene {
    let mut scene = Scene::new();
    scene.drive.zones = Some(zones(64, ZONE_BLOCKS * 512));
    scene.admin(NAME, 0);
    assert_eq!(scene.ask(0, configure(0)), (0, 0));
    assert_eq!(scene.ask(0, configure(SETTINGS)), (0, 0));
    scene.io(1, 32);
    scene
}

fn append(id: u16, zone: u64, blocks: u32) -> Entry {
    Entry::new(0x7d, id).blocks(zone * ZONE_BLOCKS, blocks).pointer(0x01, 0, blocks * 512)
}

fn manage(action: u32, zone: u64) -> Entry {
    let entry = Entry::new(0x79, 1).namespace(1).pointer(0x5a, 0, 0);
    entry.word(10, (zone * ZONE_BLOCKS) as u32).word(13, action)
}

const SELECT_ALL: u32 = 1 << 8;

/// A zone in a report: its state, first block, and write pointer.
type Described = (u8, u64, u64);

/// A report: how many zones it says there are, and of each its state, first block, and write pointer.
fn report(scene: &mut Scene, from: u64, room: u32, how: u32) -> Result<(u64, Vec<Described>), u16> {
    let length = 64 * (room + 1);
    let entry = Entry::new(0x7a, 1).namespace(1).pointer(0x5a, 0, length);
    let entry = entry.word(10, from as u32).word(12, length / 4 - 1);
    let data = scene.fetch(1, &entry.word(13, how))?;
    let number = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let zones = (64..data.len()).step_by(64).take_while(|&at| data[at] != 0);
    let zones = zones.map(|at| {
        assert_eq!((data[at], number(at + 8)), (2, CAPACITY_BLOCKS));
        (data[at + 1], number(at + 16), number(at + 24))
    });
    Ok((number(0), zones.collect()))
}

/// The state of one zone, its first block and write pointer.
fn described(scene: &mut Scene, zone: u64) -> Described {
    report(scene, zone * ZONE_BLOCKS, 1, 0).unwrap().1[0]
}

fn word(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().unwrap())
}

#[test]
fn a_controller_tells_of_both_command_sets_and_of_the_zones() {
    let mut scene = zoned();
    assert_eq!((scene.ask(0, property(0).word(10, 1)).1 >> 37) & 0xff, 0b100_0001);
    assert_eq!(scene.ask(0, property(0x1c)).1 & 3, 1); // it is ready with all command sets

    let namespace = scene.identify_of(5, 2, 1).unwrap();
    // Reads cross boundaries, and nothing else is different.
    assert_eq!(namespace[..4], [0, 0, 1, 0]);
    // Active and open zones, less one.
    assert_eq!([4, 8].map(|at| word(&namespace, at)), [2, 1]);
    assert_eq!(u64::from(word(&namespace, 2816)), ZONE_BLOCKS);
    assert_eq!(namespace[2824], 0); // no descriptor extensions
    // Nor is there a key-value namespace.
    for (what, set, namespace, status) in [(5, 2, 2, 0x0b), (7, 2, u32::MAX, 0x0b), (5, 1, 1, 0x02)] {
        assert_eq!(scene.identify_of(what, set, namespace), Err(vain(status)));
    }
    let both_sets = [&[5, 0, 0, 0][..], &[0; 12]].concat();
    for (what, set, namespace, at, wanted) in [
        (6, 2, 0, 0, &[1][..]), // appends of 8 KiB
        (7, 2, 0, 0, &[1, 0, 0, 0, 0, 0, 0, 0]),
        (7, 0, 0, 0, &[0; 4]),
        (2, 0, 0, 0, &[1, 0, 0, 0]),
        (0x1c, 0, 0, 0, &both_sets),
        (3, 0, 1, 40, &[4, 1, 0, 0, 2, 0, 0, 0]),
        (1, 0, 0, 92, &[0, 1, 0, 8]),
        (0, 0, 1, 0, &8192_u32.to_le_bytes()),
    ] {
        let page = scene.identify_of(what, set, namespace).unwrap();
        assert_eq!(page[at..at + wanted.len()], *wanted, "{what:#x}, {set}");
    }
}

#[test]
fn a_drive_without_zones_knows_none_of_it() {
    let mut scene = Scene::connected();
    assert_eq!((scene.ask(0, property(0).word(10, 1)).1 >> 37) & 0xff, 1);
    assert_eq!(scene.identify_of(5, 2, 1), Err(vain(0x02)));
    assert_eq!(scene.ask(1, manage(4, 0)).0, vain(0x01));
    assert_eq!(scene.ask_with(1, append(1, 0, 1), &[0; 512]).0, vain(0x01));
    assert_eq!(report(&mut scene, 0, 4, 0), Err(vain(0x01)));
    assert_eq!(scene.log(0xbf, 4096, 0), Err(0x4109));
    assert_eq!(scene.ask(0, get(0x19)).0, vain(0x02));
    scene.ask(0, configure(0));
    scene.ask(0, configure(SETTINGS));
    assert_eq!(scene.ask(0, property(0x1c)).1 & 3, 2); // fatal
}

#[test]
fn command_sets_have_logs_and_one_profile() {
    let mut scene = zoned();
    let commands = |scene: &mut Scene, set: u32| {
        let entry = Entry::new(2, 9).pointer(0x5a, 0, 4096).word(14, set << 24);
        scene.fetch(0, &entry.word(10, 5 | (1023 << 16)))
    };
    let support = |page: &[u8]| [0x01, 0x79, 0x7a, 0x7d].map(|code| page[1024 + code * 4]);
    assert_eq!(support(&commands(&mut scene, 0).unwrap()), [3, 0, 0, 0]);
    assert_eq!(support(&commands(&mut scene, 2).unwrap()), [3, 3, 1, 3]);
    assert_eq!(commands(&mut scene, 1), Err(0x4109));
    assert_eq!(scene.log(0, 1024, 0).unwrap()[0xbf * 4], 1);
    assert_eq!(scene.ask(0, get(0x19)), (0, 0));
    assert_eq!(scene.ask(0, set(0x19, 0)), (0, 0));
    assert_eq!(scene.ask(0, set(0x19, 1)).0, 0x412b);
}

#[test]
fn writes_move_the_pointer_and_are_refused_elsewhere_with_the_status_of_the_reason() {
    let mut scene = zoned();
    let inside = Entry::new(0x7d, 1).blocks(8, 1).pointer(0x01, 0, 512);
    let beyond = Entry::new(0x7d, 1).blocks(64 * 128, 1).pointer(0x01, 0, 512);
    for (entry, blocks, status) in [
        (write(1, 8, 8), 8, vain(0x1bc)),
        (write(1, 0, 8), 8, 0),
        (write(1, 8, 16), 16, 0),
        (write(1, 8, 8), 8, vain(0x1bc)),
        (append(1, 0, 16), 16, 0),
        (append(1, 0, 16), 16, 0),
        (append(1, 0, 16), 16, 0),
        (append(1, 0, 16), 16, 0),
        (append(1, 0, 16), 16, vain(0x1b8)),
        (append(1, 0, 8), 8, 0),
        (append(1, 0, 8), 8, vain(0x1b9)),
        (write(1, 96, 8), 8, vain(0x1b9)),
        (inside, 1, vain(0x02)),                            // no zone begins there
        (append(1, 1, 1).word(12, 1 << 25), 1, vain(0x02)), // nothing is protected
        (beyond, 1, vain(0x80)),
    ] {
        assert_eq!(scene.ask_with(1, entry, &vec![7; blocks * 512]).0, status, "{:?}", &entry.0[40..52]);
    }
    // Data that are longer than the largest append do not fit a capsule.
    let asks = scene.send(1, &append(1, 1, 17).pointer(0x5a, 0, 17 * 512).alone());
    let [Unit::Asks { transfer, length, .. }] = asks[..] else { panic!("{asks:?}") };
    assert_eq!(length, 8704);
    assert_eq!(status_of(&scene.send(1, &data(1, transfer, 0, true, &[7; 8704]))), 0x4002);
    // Reads go anywhere.
    let read = scene.fetch(1, &read(1, 90, 64)).unwrap();
    let (written, rest) = read.split_at(6 * 512);
    assert!(is_all(written, 7) && is_all(rest, 0));
}

#[test]
fn write_zeroes_move_the_pointer_also_where_they_deallocate_and_deallocations_do_not() {
    let mut scene = zoned();
    let zeroes = |first| Entry::new(8, 1).blocks(first, 8);
    assert_eq!(scene.ask(1, zeroes(0)).0, 0);
    assert_eq!(scene.ask(1, zeroes(8).word(12, 7 | (1 << 25))).0, 0);
    assert_eq!(scene.ask(1, zeroes(8)).0, vain(0x1bc));
    let deallocate = Entry::new(9, 1).namespace(1).word(11, 4).pointer(0x01, 0, 16);
    assert_eq!(scene.ask_with(1, deallocate, &[8_u64 << 32, 0].map(u64::to_le_bytes).concat()).0, 0);
    assert_eq!(described(&mut scene, 0), (0x20, 0, 16));
}

#[test]
fn copies_go_to_the_write_pointer() {
    let mut scene = zoned();
    assert_eq!(scene.ask_with(1, write(1, 0, 8), &[7; 4096]).0, 0);
    for (to, status) in [(16, vain(0x1bc)), (8, 0), (ZONE_BLOCKS, 0)] {
        let (entry, ranges) = copy(to, &[(0, 8)]);
        assert_eq!(scene.ask_with(1, entry, &ranges).0, status, "to {to}");
    }
    assert_eq!(described(&mut scene, 0), (0x20, 0, 16));
    assert!(is_all(&scene.fetch(1, &read(1, ZONE_BLOCKS, 8)).unwrap(), 7));
}

#[test]
fn zones_are_managed_one_by_one_and_all_together() {
    let mut scene = zoned();
    let states = [(3, 0x30, 0), (1, 0x40, 0), (2, 0xe0, u64::MAX), (4, 0x10, 0)];
    for (action, state, pointer) in states {
        assert_eq!(scene.ask(1, manage(action, 0)).0, 0);
        assert_eq!(described(&mut scene, 0), (state, 0, pointer));
    }
    for (entry, status) in [
        (manage(1, 0), vain(0x1bf)), // an empty zone is not closed
        (manage(5, 0), vain(0x1bf)), // and not given up
        (manage(3, 0), 0),
        (manage(3, 1), 0),
        (manage(3, 2), vain(0x1be)),
        (manage(1 | SELECT_ALL, 9), 0),
        (manage(3, 2), 0),
        (manage(3, 3), vain(0x1bd)),
        (manage(4 | SELECT_ALL, 0), 0),
    ] {
        assert_eq!(scene.ask(1, entry).0, status, "{:?}", &entry.0[40..56]);
    }
    assert_eq!(report(&mut scene, 0, 64, 1 << 8).unwrap().0, 64);
    for unknown in [0, 6, 0x10, 0x11] {
        assert_eq!(scene.ask(1, manage(unknown, 0)).0, vain(0x02));
    }
    assert_eq!(scene.ask(1, manage(4, 0).word(10, 5)).0, vain(0x02));
    assert_eq!(scene.ask(1, manage(4, 64)).0, vain(0x80));
    assert_eq!(scene.ask(1, manage(4, 0).namespace(2)).0, vain(0x0b));
    scene.drive.facts.read_only = true;
    assert_eq!(scene.ask(1, manage(4, 0)).0, vain(0x20));
}

#[test]
fn reports_begin_anywhere_choose_by_state_and_may_be_partial() {
    let mut scene = zoned();
    scene.ask(1, manage(2, 1));
    scene.ask(1, manage(3, 2));
    scene.ask_with(1, append(1, 3, 1), &[1; 512]);
    let zones = scene.drive.zones.as_mut().unwrap();
    zones.wear_out(4);
    zones.wear_out(5);
    zones.manage(ZoneAction::Offline, Some(5 * ZONE_BLOCKS * 512)).unwrap();
    let (count, zones) = report(&mut scene, 0, 64, 0).unwrap();
    assert_eq!((count, zones.len()), (64, 64));
    assert!(zones[..6].iter().map(|zone| zone.0 >> 4).eq([1, 0xe, 3, 2, 0xd, 0xf]));
    assert_eq!(zones[3].2, 3 * ZONE_BLOCKS + 1);
    for (filter, wanted) in [(1, 59), (2, 1), (3, 1), (4, 0), (5, 1), (6, 1), (7, 1)] {
        assert_eq!(report(&mut scene, 1, 64, filter << 8).unwrap().0, wanted);
    }
    let late = 60 * ZONE_BLOCKS + 9;
    assert_eq!(report(&mut scene, late, 2, 0).unwrap().0, 4); // all that there are
    let (count, zones) = report(&mut scene, late, 2, 1 << 16).unwrap();
    assert_eq!((count, zones[0].1), (2, 60 * ZONE_BLOCKS)); // as many as it has
    assert_eq!(report(&mut scene, 0, 4, 8 << 8), Err(vain(0x02)));
    assert_eq!(report(&mut scene, 0, 4, 1), Err(vain(0x02))); // no extended report
    assert_eq!(report(&mut scene, 64 * ZONE_BLOCKS, 4, 0), Err(vain(0x80)));
}

#[test]
fn hosts_are_told_of_zones_that_changed_by_themselves() {
    let mut scene = zoned();
    let append_to = |scene: &mut Scene| scene.ask_with(1, append(1, 7, 1), &[1; 512]).0;
    let wear_out = |scene: &mut Scene, zone| scene.drive.zones.as_mut().unwrap().wear_out(zone);
    assert_eq!(scene.ask(0, set(0x0b, 1 << 27)), (0, 0));
    assert_eq!(scene.send(0, &event(10)), []);
    wear_out(&mut scene, 7);
    assert_eq!(scene.next_event(), Some((10, 0x00bf_ef02)));
    assert_eq!(scene.send(0, &event(11)), []);
    wear_out(&mut scene, 9);
    assert_eq!(scene.next_event(), None); // not before it has read which
    let page = scene.log(0xbf, 4096, 0).unwrap();
    assert_eq!((page[0], word(&page, 8)), (2, 7 * 128));
    assert_eq!(word(&page, 16), 9 * 128);
    assert_eq!(scene.log(0xbf, 4096, 0).unwrap(), vec![0; 4096]);
    wear_out(&mut scene, 0);
    assert_eq!(scene.next_event().map(|(id, _)| id), Some(11));
    assert_eq!(scene.log(0xbf, 16, 0).unwrap()[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(append_to(&mut scene), vain(0x1ba));
    assert_eq!(scene.ask(1, manage(5, 7)).0, 0);
    assert_eq!(append_to(&mut scene), vain(0x1bb));
    assert_eq!(scene.ask(1, read(1, 7 * 128, 1)).0, vain(0x1bb));
    // Its host changed that.
    assert_eq!(scene.log(0xbf, 16, 0).unwrap()[..8], [0; 8]);
}

#[test]
fn appends_in_flight_of_many_queues_are_each_placed_once() {
    let mut scene = zoned();
    for number in 2..9 {
        scene.io(number, 32);
    }
    let mut placed = BTreeSet::new();
    for round in 0..10_u8 {
        for queue in 1..9_usize {
            let value = round * 8 + queue as u8;
            let capsule = append(u16::from(round), 1, 1).capsule(&[value; 512], (false, false));
            assert_eq!(scene.receive(queue, &capsule), []);
        }
        // Answered from the last to the first.
        while let Some(answer) = scene.drive.due.pop_back() {
            let queue = answer.command.tag.queue as usize;
            scene.deliver(answer);
            let (_, status, result) = completed(&units(&std::mem::take(&mut scene.all[queue].out)));
            assert_eq!(status, 0);
            assert_eq!(scene.drive.bytes[result as usize * 512], round * 8 + queue as u8); // where its host was told
            assert!(placed.insert(result));
        }
    }
    assert_eq!(placed, (ZONE_BLOCKS..ZONE_BLOCKS + 80).collect());
}
