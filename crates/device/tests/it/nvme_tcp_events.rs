//! NVMe over TCP, byte by byte, without a socket: what hosts are told unasked, and how they say that they leave.

use crate::host;
use std::time::Duration;

use crate::host::{ENABLED, Entry, Said, completed, configure, status_of};
use crate::scene::{Scene, read, vain, write};
use ioassay_device::Op;
use ioassay_device::transport::socket::Protocol;

#[test]
fn a_host_is_told_when_the_drive_can_only_be_read_from_now_on() {
    let mut scene = Scene::connected();
    let request = Entry::new(0x0c, 10).capsule(&[], (false, false));
    assert_eq!(
        scene.ask(0, Entry::new(9, 3).word(10, 0x0b).word(11, 1 << 8)),
        (0, 0)
    );
    assert_eq!(scene.send(0, &request), []);
    assert_eq!(scene.tick(0, Duration::ZERO).1, []);
    scene.drive.facts.read_only = true;
    assert_eq!(scene.ask_with(1, write(1, 0, 1), &[0; 512]).0, vain(0x20));
    assert_eq!(
        completed(&scene.tick(0, Duration::ZERO).1),
        (10, 0, 0x0004_0002)
    );
    assert_eq!(scene.log(4, 4096, 0).unwrap()[..4], [1, 0, 0, 0]);
    assert_eq!(scene.identify(0, 1).unwrap()[99], 1);
}

#[test]
fn events_are_held_told_once_and_aborted() {
    let mut scene = Scene::connected();
    let request = |id: u16| Entry::new(0x0c, id).capsule(&[], (false, false));
    let notices = Entry::new(9, 3).word(10, 0x0b).word(11, 1 << 8);
    for id in 10..14 {
        assert_eq!(scene.send(0, &request(id)), []);
    }
    assert_eq!(status_of(&scene.send(0, &request(14))), 0x4105);
    scene.drive.facts.read_only ^= true;
    assert_eq!(
        scene.tick(0, Duration::ZERO).1,
        [],
        "the host did not ask for notices"
    );
    assert_eq!(scene.ask(0, notices), (0, 0));
    for (expected, change) in [(1, 10), (0, 0)] {
        scene.drive.facts.read_only ^= true;
        let (_, said) = scene.tick(0, Duration::ZERO);
        assert_eq!(said.len(), expected);
        if let [
            Said::Completed {
                id, status, result, ..
            },
        ] = said[..]
        {
            assert_eq!((id, status, result), (change, 0, 0x0004_0002));
        }
    }
    assert_eq!(scene.log(4, 4096, 0).unwrap()[..4], [1, 0, 0, 0]);
    assert_eq!(scene.log(4, 4096, 0).unwrap()[..4], [0, 0, 0, 0]);
    scene.drive.facts.read_only ^= true;
    assert_eq!(
        scene.tick(0, Duration::ZERO).1.len(),
        1,
        "the log was read: the host is told again"
    );
    let abort = Entry::new(8, 20)
        .word(10, 13 << 16)
        .capsule(&[], (false, false));
    let said = scene.send(0, &abort);
    assert!(matches!(
        said[..],
        [
            Said::Completed {
                id: 13,
                status: 0x4007,
                ..
            },
            Said::Completed {
                id: 20,
                status: 0,
                result: 0,
                ..
            }
        ]
    ));
    assert_eq!(
        scene.ask(0, Entry::new(8, 20).word(10, 99 << 16)),
        (0, 1),
        "nothing to abort"
    );
}

#[test]
fn commands_that_the_drive_has_not_done_are_aborted_on_their_own_queue() {
    let mut scene = Scene::connected();
    scene.io(2, 32);
    let abort = |id: u16, queue: u32, of: u32| {
        let entry = Entry::new(8, id).word(10, (of << 16) | queue);
        entry.capsule(&[], (false, false))
    };
    for id in [5, 6] {
        let read = read(id, 0, 1).capsule(&[], (false, false));
        assert_eq!(scene.receive(1, &read), []);
    }
    for (id, queue, of, result) in [(20, 1, 6, 0), (21, 2, 6, 1), (22, 1, 7, 1), (23, 9, 6, 1)] {
        let said = scene.receive(0, &abort(id, queue, of));
        assert!(
            matches!(said[..], [Said::Completed { id: done, status: 0, result: told, .. }] if (done, told) == (id, result)),
            "{said:?}"
        );
    }
    let said = scene.answers(1);
    let ended = |wanted: u16| {
        said.iter().find_map(|said| match said {
            Said::Completed { id, status, .. } if *id == wanted => Some(*status),
            _ => None,
        })
    };
    assert_eq!((ended(5), ended(6)), (Some(0), Some(0x4007)), "{said:?}");
    let again = scene.ask_with(1, write(6, 0, 1), &[1; 512]);
    assert_eq!(again.0, 0, "its number is free again");
}

#[test]
fn a_host_is_told_once_of_each_thing_that_is_wrong_with_the_drive() {
    const UNRELIABLE: u64 = 0x0002_0001;
    let mut scene = Scene::connected();
    let request = |id: u16| Entry::new(0x0c, id).capsule(&[], (false, false));
    let told = |scene: &mut Scene| match scene.tick(0, Duration::ZERO).1[..] {
        [] => None,
        [Said::Completed { id, result, .. }] => Some((id, result)),
        ref other => panic!("{other:?}"),
    };
    for id in 10..13 {
        assert_eq!(scene.send(0, &request(id)), []);
    }
    scene.drive.trouble.unreliable = true;
    assert_eq!(told(&mut scene), None, "the host did not ask for it");
    let notices = Entry::new(9, 3).word(10, 0x0b).word(11, 0xff);
    assert_eq!(scene.ask(0, notices), (0, 0));
    assert_eq!(told(&mut scene), Some((10, UNRELIABLE)));
    scene.drive.trouble.worn_out = true;
    assert_eq!(told(&mut scene), None, "it has not read the log");
    let keeping = scene.log(2 | (1 << 15), 512, 0).unwrap();
    assert_eq!((keeping[0], keeping[3], keeping[4]), (0b1101, 0, 10));
    assert_eq!(told(&mut scene), None, "it wants to read it again");
    assert_eq!(scene.log(2, 512, 0).unwrap(), keeping);
    assert_eq!(told(&mut scene), None, "it was told of both");
    scene.drive.trouble.unreliable = false;
    assert_eq!(told(&mut scene), None);
    assert_eq!(scene.log(2, 512, 0).unwrap()[0], 0b1001);
    scene.drive.trouble.unreliable = true;
    assert_eq!(told(&mut scene), Some((11, UNRELIABLE)), "it came back");
}

#[test]
fn a_log_that_is_not_given_is_not_read() {
    let mut scene = Scene::connected();
    scene.identify(1, 0).unwrap();
    scene.drive.facts.read_only = true;
    scene.tick(0, Duration::ZERO);
    assert_eq!(scene.log(4, 64, 8192), Err(vain(2)));
    assert_eq!(scene.log(4, 4096, 0).unwrap()[..4], [1, 0, 0, 0]);
}

#[test]
fn a_shutdown_is_complete_when_all_that_was_answered_is_durable() {
    let mut scene = Scene::connected();
    let state = Entry::new(0x7f, 2)
        .namespace(4)
        .word(11, 0x1c)
        .capsule(&[], (false, false));
    let state_of = |scene: &mut Scene, out: &mut Vec<u8>| {
        let session = &mut scene.sessions[0];
        scene.nvme.received(session, &state, out, &mut scene.drive);
        match host::said(&std::mem::take(out))[..] {
            [Said::Completed { result, .. }] => (result >> 2) & 3,
            ref other => panic!("{other:?}"),
        }
    };
    let mut out = Vec::new();
    let shutdown = configure(ENABLED | (1 << 14)).capsule(&[], (false, false));
    let session = &mut scene.sessions[0];
    scene
        .nvme
        .received(session, &shutdown, &mut out, &mut scene.drive);
    assert_eq!(status_of(&host::said(&std::mem::take(&mut out))), 0);
    assert_eq!(scene.drive.due[0].command.op, Op::Flush);
    assert_eq!(state_of(&mut scene, &mut out), 1, "it goes on");
    assert_eq!(scene.answers(0), [], "the command was complete before");
    assert_eq!(state_of(&mut scene, &mut out), 2, "it is complete");
}

#[test]
fn a_threshold_below_the_temperature_is_told_of() {
    let mut scene = Scene::connected();
    let set = |feature: u32, value: u32| Entry::new(9, 3).word(10, feature).word(11, value);
    let get = |value: u32| Entry::new(0x0a, 3).word(10, 4).word(11, value);
    let cold = 1 << 20;
    assert_eq!(scene.ask(0, get(0)), (0, 343), "as Identify says");
    assert_eq!(scene.ask(0, get(cold)), (0, 0));
    assert_eq!(
        scene.ask(0, set(4, (3 << 16) + 300)).0,
        vain(2),
        "no such sensor"
    );
    assert_eq!(scene.ask(0, set(0x0b, 1 << 1)), (0, 0));
    for threshold in [300, cold + 320] {
        let request = Entry::new(0x0c, 10).capsule(&[], (false, false));
        assert_eq!(scene.send(0, &request), []);
        assert_eq!(scene.ask(0, set(4, threshold)), (0, 0));
        assert_eq!(
            completed(&scene.tick(0, Duration::ZERO).1),
            (10, 0, 0x0002_0101)
        );
        assert_eq!(scene.log(2, 512, 0).unwrap()[..3], [0b10, 57, 1]);
        let usual = if threshold == 300 { 343 } else { cold };
        assert_eq!(scene.ask(0, set(4, usual)), (0, 0));
        assert_eq!(scene.tick(0, Duration::ZERO).1, []);
        assert_eq!(scene.log(2, 512, 0).unwrap()[0], 0);
    }
}

/// SPDK's host does so when it leaves: its property commands carry the number of an event request.
#[test]
fn a_property_may_have_the_number_of_a_held_event_request() {
    let mut scene = Scene::connected();
    let request = Entry::new(0x0c, 2).capsule(&[], (false, false));
    assert_eq!(scene.send(0, &request), []);
    let get = |offset: u32| Entry::new(0x7f, 2).namespace(4).word(11, offset);
    assert_eq!(scene.ask(0, get(0x1c)), (0, 1));
    assert_eq!(scene.ask(0, get(0x30)).0, vain(2));
    assert_eq!(
        scene.ask(0, Entry::new(0x18, 2)).0,
        vain(3),
        "no other command may"
    );
    // The request is still held, and its number is its own.
    scene.drive.facts.read_only ^= true;
    assert_eq!(
        scene.ask(0, Entry::new(9, 3).word(10, 0x0b).word(11, 1 << 8)),
        (0, 0)
    );
    scene.drive.facts.read_only ^= true;
    assert!(matches!(
        scene.tick(0, Duration::ZERO).1[..],
        [Said::Completed { id: 2, .. }]
    ));
    assert_eq!(scene.send(0, &request), []);
    let leave = Entry::new(0x7f, 2)
        .word(11, 0x14)
        .word(12, ENABLED | (1 << 14));
    assert_eq!(scene.ask(0, leave), (0, 0), "a shutdown");
    assert_eq!(scene.ask(0, get(0x1c)), (0, 1 | (2 << 2)));
}
