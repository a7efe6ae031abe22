//! NVMe over TCP, byte by byte, without a socket: properties, Identify, features, logs and events.

use std::time::Duration;

use crate::host::{
    Capsule, ENABLED, Entry, HOST, NAME, Scene, completed, completions, configure, connect, connect_data, event, get,
    property, read, set, status_of, vain, write,
};
use ioassay_device::Op;
use ioassay_device::transport::nvme_tcp::DISCOVERY_NAME;
use ioassay_device::transport::socket::Then;

#[test]
fn properties_say_what_the_controller_can_and_is() {
    let mut scene = Scene::connected();
    assert_eq!(scene.ask(0, property(0).word(10, 1)), (0, 1023 | (1 << 16) | (10 << 24) | (1 << 37)));
    assert_eq!(scene.ask(0, property(8)), (0, 0x0001_0400));
    assert_eq!(scene.ask(0, property(0x1c)), (0, 1));
    assert_eq!(scene.ask(0, property(0)).0, vain(2));
    assert_eq!(scene.ask(0, property(0x30)).0, vain(2));
    for (to, state) in [(ENABLED | (1 << 14), 1 | (2 << 2)), (0, 0)] {
        assert_eq!(scene.ask(0, configure(to)), (0, 0));
        assert_eq!(scene.ask(0, property(0x1c)), (0, state));
    }
    assert_eq!(scene.ask(1, read(1, 0, 1)).0, vain(0x0c)); // it is not ready
    assert_eq!(scene.ask(0, configure(ENABLED | (7 << 4))), (0, 0));
    assert_eq!(scene.ask(0, property(0x1c)), (0, 2));
}

#[test]
fn identify_describes_the_controller_and_its_namespace() {
    let mut scene = Scene::connected();
    let controller = scene.identify(1, 0).unwrap();
    assert_eq!(&controller[4..24], b"IA0001              ");
    assert_eq!(&controller[768..768 + NAME.len()], NAME.as_bytes());
    assert_eq!([77, 111, 525].map(|at| controller[at]), [8, 1, 7]);
    assert_eq!(controller[1792..1796], 516u32.to_le_bytes());
    let namespace = scene.identify(0, 1).unwrap();
    assert_eq!(namespace[..8], 8192u64.to_le_bytes());
    assert_eq!((namespace[130], namespace[33], namespace[99]), (9, 9, 0));
    // Pages of 4 KiB, in blocks less one: atomic units, their boundaries, and preferred sizes.
    assert_eq!(namespace[24], 0b1_0010);
    for at in [34, 36, 40, 44, 64, 66, 68, 70, 72] {
        assert_eq!(namespace[at..at + 2], [7, 0], "at {at}");
    }
    assert_eq!(scene.identify(2, 0).unwrap()[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(scene.identify(2, 1).unwrap()[..4], [0; 4]);
    let descriptors = scene.identify(3, 1).unwrap();
    assert_eq!(descriptors[..2], [2, 16]);
    assert_eq!(descriptors[20..22], [3, 16]);
    assert_eq!(descriptors[4..20], namespace[104..120]);
    for (what, namespace) in [(0, 2), (0, u32::MAX), (2, u32::MAX)] {
        assert_eq!(scene.identify(what, namespace), Err(vain(0x0b)));
    }
    assert_eq!(scene.identify(0x42, 0), Err(vain(2)));
    scene.drive.facts.read_only = true;
    assert_eq!(scene.identify(0, 1).unwrap()[99], 1);
    assert_eq!(scene.identify(8, 1).unwrap()[4..9], [0, 0, 0, 0, 1]);
    assert_eq!(scene.ask_with(1, write(1, 0, 1), &[0; 512]).0, vain(0x20));
}

#[test]
fn features_are_set_and_read_back() {
    let mut scene = Scene::connected();
    assert_eq!(scene.ask(0, set(7, (3 << 16) | 5)), (0, (3 << 16) | 3));
    assert_eq!(scene.ask(0, get(7)), (0, (3 << 16) | 3));
    assert_eq!(scene.ask(0, set(7, 0x01f4_01f4)), (0, (15 << 16) | 15));
    assert_eq!(scene.ask(0, set(7, 0xffff)).0, vain(2));
    let features = [(1, 7), (4, 350), (5, 9), (0x0a, 1), (0x0b, 0x100), (0x0f, 12_000)];
    for (feature, value) in features {
        assert_eq!(scene.ask(0, set(feature, value)), (0, 0));
        assert_eq!(scene.ask(0, get(feature)), (0, value.into()), "{feature:#x}");
    }
    assert_eq!(scene.ask(0, set(2, 1)).0, vain(2)); // there is one power state
    assert_eq!(scene.ask(0, set(0x77, 0)).0, vain(2));
    assert_eq!(scene.ask(0, set((1 << 31) | 1, 0)).0, vain(0x10d));
    let (timestamp, time) = (set(0x0e, 0).pointer(0x01, 0, 8), [1, 2, 3, 4, 5, 6, 0, 0]);
    assert_eq!(scene.ask_with(0, timestamp, &time), (0, 0));
    let data = scene.fetch(0, &get(0x0e).pointer(0x5a, 0, 8)).unwrap();
    let is_ms = u64::from_le_bytes(data[..].try_into().unwrap());
    assert_eq!(is_ms >> 48, 0b10); // the host set it
    assert!(is_ms & ((1 << 48) - 1) >= u64::from_le_bytes(time)); // it goes on
    assert_eq!(scene.ask(0, get((3 << 8) | 6)), (0, 4)); // the write cache can be switched
}

#[test]
fn log_pages_are_given_in_parts() {
    let mut scene = Scene::connected();
    let health = scene.log(2, 512, 0).unwrap();
    assert_eq!((health[48], health[64], health[144]), (2, 3, 7));
    assert_eq!(scene.log(2, 64, 32).unwrap(), health[32..96]);
    let firmware = scene.log(3, 512, 0).unwrap();
    assert_eq!(firmware[..9], [1, 0, 0, 0, 0, 0, 0, 0, b'1']);
    let commands = scene.log(5, 4096, 0).unwrap();
    assert_eq!(commands[1028..1032], [3, 0, 0, 0]);
    assert_eq!(scene.log(2, 512, 1024), Err(vain(2)));
    assert_eq!(scene.log(2, 64, 2), Err(vain(2)));
    assert_eq!(scene.log(0x70, 64, 0), Err(vain(0x109))); // only the discovery service has it
    let endless = Entry::new(2, 9).pointer(0x5a, 0, u32::MAX).word(10, 0xffff_0002).word(11, 0xffff);
    assert_eq!(scene.ask(0, endless).0, vain(0x0f));
}

#[test]
fn log_pages_that_are_not_read_take_a_bounded_memory() {
    let mut scene = Scene::connected();
    let log = Entry::new(2, 9).pointer(0x5a, 0, 1 << 20).word(10, 1 | (0xffff << 16)).word(11, 3);
    assert_eq!(scene.arrive(0, &log.alone().repeat(100)), Then::Blocked);
    let told = scene.output(0).len();
    assert!(told < 6 << 20, "{told} bytes");
}

#[test]
fn queues_are_not_made_by_commands_and_unknown_commands_are_refused() {
    let mut scene = Scene::connected();
    for opcode in [0x00, 0x01, 0x04, 0x05, 0x0d, 0x10, 0x80, 0x84, 0xff] {
        assert_eq!(scene.ask(0, Entry::new(opcode, 3)).0, vain(1), "{opcode:#x}");
    }
}

#[test]
fn the_discovery_controller_only_discovers() {
    let mut scene = Scene::new();
    scene.admin(DISCOVERY_NAME, 0);
    assert_eq!(scene.identify(1, 0).unwrap()[111], 2);
    assert_eq!(scene.identify(2, 0), Err(vain(2)));
    assert_eq!(scene.log(2, 512, 0), Err(vain(0x109)));
    assert_eq!(scene.log(0x70, 1024, 0).unwrap()[..8], [0; 8]);
    let (at, data) = (scene.open(), connect_data(1, DISCOVERY_NAME, HOST));
    assert_eq!(scene.ask_with(at, connect(1, 32, 0), &data).0, 0x4182);
}

/// SPDK's tools have none unless they are told one.
#[test]
fn a_host_needs_no_name_and_keeps_to_the_one_that_it_has() {
    let mut scene = Scene::new();
    for (queue, controller, host, answer) in
        [(0, 0xffff, "", (0, 1)), (1, 1, "", (0, 1)), (2, 1, HOST, (0x4182, 512 | (1 << 16)))]
    {
        let (at, data) = (scene.open(), connect_data(controller, NAME, host));
        assert_eq!(scene.ask_with(at, connect(queue, 32, 0), &data), answer);
        assert_eq!(scene.ask(0, configure(ENABLED)), (0, 0));
    }
}

// Events

#[test]
fn events_are_held_told_once_and_aborted() {
    const CHANGED: u64 = 0x0004_0002;
    let mut scene = Scene::connected();
    for id in 10..14 {
        assert_eq!(scene.send(0, &event(id)), []);
    }
    assert_eq!(status_of(&scene.send(0, &event(14))), 0x4105);
    scene.drive.facts.read_only ^= true;
    assert_eq!(scene.next_event(), None); // the host did not ask for notices
    assert_eq!(scene.ask(0, set(0x0b, 1 << 8)), (0, 0));
    for told in [Some((10, CHANGED)), None] {
        scene.drive.facts.read_only ^= true;
        assert_eq!(scene.next_event(), told);
    }
    for changed in [1, 0] {
        assert_eq!(scene.log(4, 4096, 0).unwrap()[..4], [changed, 0, 0, 0]);
    }
    scene.drive.facts.read_only ^= true;
    assert_eq!(scene.next_event(), Some((11, CHANGED))); // the log was read: it is told again
    let abort = |id: u32| Entry::new(8, 20).word(10, id << 16);
    assert_eq!(completions(&scene.send(0, &abort(13).alone())), [(13, 0x4007, 0), (20, 0, 0)]);
    assert_eq!(scene.ask(0, abort(99)), (0, 1)); // nothing to abort
}

#[test]
fn commands_that_the_drive_has_not_done_are_aborted_on_their_own_queue() {
    let mut scene = Scene::connected();
    scene.io(2, 32);
    let abort = |id, queue: u32, of: u32| Entry::new(8, id).word(10, (of << 16) | queue).alone();
    for id in [5, 6] {
        assert_eq!(scene.receive(1, &read(id, 0, 1).alone()), []);
    }
    for (id, queue, of, result) in [(20, 1, 6, 0), (21, 2, 6, 1), (22, 1, 7, 1), (23, 9, 6, 1)] {
        assert_eq!(completed(&scene.receive(0, &abort(id, queue, of))), (id, 0, result));
    }
    assert_eq!(completions(&scene.send(1, &[])), [(5, 0, 0), (6, 0x4007, 0)]);
    assert_eq!(scene.ask_with(1, write(6, 0, 1), &[1; 512]).0, 0, "its number is free again");
}

#[test]
fn a_host_is_told_once_of_each_thing_that_is_wrong_with_the_drive() {
    const UNRELIABLE: u64 = 0x0002_0001;
    let mut scene = Scene::connected();
    for id in 10..13 {
        assert_eq!(scene.send(0, &event(id)), []);
    }
    scene.drive.trouble.unreliable = true;
    assert_eq!(scene.next_event(), None); // the host did not ask for it
    assert_eq!(scene.ask(0, set(0x0b, 0xff)), (0, 0));
    assert_eq!(scene.next_event(), Some((10, UNRELIABLE)));
    scene.drive.trouble.worn_out = true;
    assert_eq!(scene.next_event(), None); // it has not read the log
    let keeping = scene.log(2 | (1 << 15), 512, 0).unwrap();
    assert_eq!((keeping[0], keeping[3], keeping[4]), (0b1101, 0, 10));
    assert_eq!(scene.next_event(), None); // it wants to read it again
    assert_eq!(scene.log(2, 512, 0).unwrap(), keeping);
    assert_eq!(scene.next_event(), None); // it was told of both
    scene.drive.trouble.unreliable = false;
    assert_eq!(scene.next_event(), None);
    assert_eq!(scene.log(2, 512, 0).unwrap()[0], 0b1001);
    scene.drive.trouble.unreliable = true;
    assert_eq!(scene.next_event(), Some((11, UNRELIABLE))); // it came back
}

#[test]
fn a_log_that_is_not_given_is_not_read() {
    let mut scene = Scene::connected();
    scene.identify(1, 0).unwrap();
    scene.drive.facts.read_only = true;
    scene.pass(0, Duration::ZERO);
    assert_eq!(scene.log(4, 64, 8192), Err(vain(2)));
    assert_eq!(scene.log(4, 4096, 0).unwrap()[..4], [1, 0, 0, 0]);
}

#[test]
fn a_shutdown_is_complete_when_all_that_was_answered_is_durable() {
    let mut scene = Scene::connected();
    let state_of = |scene: &mut Scene| (completed(&scene.receive(0, &property(0x1c).alone())).2 >> 2) & 3;
    assert_eq!(status_of(&scene.receive(0, &configure(ENABLED | (1 << 14)).alone())), 0);
    assert_eq!(scene.drive.due[0].command.op, Op::Flush);
    assert_eq!(state_of(&mut scene), 1); // it goes on
    assert_eq!(scene.send(0, &[]), []); // the command was complete before
    assert_eq!(state_of(&mut scene), 2); // it is complete
}

#[test]
fn a_threshold_below_the_temperature_is_told_of() {
    let mut scene = Scene::connected();
    let threshold = |of: u32| get(4).word(11, of);
    let cold = 1 << 20;
    assert_eq!(scene.ask(0, threshold(0)), (0, 343)); // as Identify says
    assert_eq!(scene.ask(0, threshold(cold)), (0, 0));
    assert_eq!(scene.ask(0, set(4, (3 << 16) + 300)).0, vain(2)); // no such sensor
    assert_eq!(scene.ask(0, set(0x0b, 1 << 1)), (0, 0));
    for (threshold, usual) in [(300, 343), (cold + 320, cold)] {
        assert_eq!(scene.send(0, &event(10)), []);
        assert_eq!(scene.ask(0, set(4, threshold)), (0, 0));
        assert_eq!(scene.next_event(), Some((10, 0x0002_0101)));
        assert_eq!(scene.log(2, 512, 0).unwrap()[..3], [0b10, 57, 1]);
        assert_eq!(scene.ask(0, set(4, usual)), (0, 0));
        assert_eq!(scene.next_event(), None);
        assert_eq!(scene.log(2, 512, 0).unwrap()[0], 0);
    }
}

/// SPDK's host does so when it leaves: its property commands carry the number of an event request.
#[test]
fn a_property_may_have_the_number_of_a_held_event_request() {
    let mut scene = Scene::connected();
    assert_eq!(scene.send(0, &event(2)), []);
    assert_eq!(scene.ask(0, property(0x1c)), (0, 1));
    assert_eq!(scene.ask(0, property(0x30)).0, vain(2));
    assert_eq!(scene.ask(0, Entry::new(0x18, 2)).0, vain(3)); // no other command may
    // The request is still held, and its number is its own.
    scene.drive.facts.read_only ^= true;
    assert_eq!(scene.ask(0, set(0x0b, 1 << 8)), (0, 0));
    scene.drive.facts.read_only ^= true;
    assert_eq!(scene.next_event().map(|(id, _)| id), Some(2));
    assert_eq!(scene.send(0, &event(2)), []);
    let shutdown = Entry::new(0x7f, 2).word(11, 0x14).word(12, ENABLED | (1 << 14));
    assert_eq!(scene.ask(0, shutdown), (0, 0));
    assert_eq!(scene.ask(0, property(0x1c)), (0, 1 | (2 << 2)));
}
