//! NVMe over TCP, byte by byte, without a socket: properties, Identify, features and logs.

use crate::host::{ENABLED, Entry, Said, configure, connect, connect_data, status_of};
use crate::scene::{HOST, NAME, Scene, read, vain, write};
use ioassay_device::transport::nvme_tcp::DISCOVERY_NAME;
use ioassay_device::transport::socket::{Protocol, Then};

#[test]
fn properties_say_what_the_controller_can_and_is() {
    let mut scene = Scene::connected();
    let get = |offset: u32, wide: u32| {
        Entry::new(0x7f, 2)
            .namespace(4)
            .word(10, wide)
            .word(11, offset)
    };
    assert_eq!(
        scene.ask(0, get(0, 1)),
        (0, 1023 | (1 << 16) | (10 << 24) | (1 << 37))
    );
    assert_eq!(scene.ask(0, get(8, 0)), (0, 0x0001_0400));
    assert_eq!(scene.ask(0, get(0x1c, 0)), (0, 1));
    assert_eq!(scene.ask(0, get(0, 0)).0, vain(2));
    assert_eq!(scene.ask(0, get(0x30, 0)).0, vain(2));
    assert_eq!(
        scene.ask(0, configure(ENABLED | (1 << 14))),
        (0, 0),
        "a shutdown"
    );
    assert_eq!(scene.ask(0, get(0x1c, 0)), (0, 1 | (2 << 2)));
    assert_eq!(scene.ask(0, configure(0)), (0, 0));
    assert_eq!(scene.ask(0, get(0x1c, 0)), (0, 0));
    assert_eq!(scene.ask(1, read(1, 0, 1)).0, vain(0x0c), "it is not ready");
    assert_eq!(
        scene.ask(0, configure(ENABLED | (7 << 4))),
        (0, 0),
        "a command set that there is not"
    );
    assert_eq!(scene.ask(0, get(0x1c, 0)), (0, 2));
}

#[test]
fn identify_describes_the_controller_and_its_namespace() {
    let mut scene = Scene::connected();
    let controller = scene.identify(1, 0).unwrap();
    assert_eq!(&controller[4..24], b"IA0001              ");
    assert_eq!(&controller[768..768 + NAME.len()], NAME.as_bytes());
    assert_eq!(
        (controller[77], controller[111], controller[525]),
        (8, 1, 7)
    );
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
    assert_eq!(
        (&descriptors[..2], &descriptors[20..22]),
        (&[2, 16][..], &[3, 16][..])
    );
    assert_eq!(descriptors[4..20], namespace[104..120]);
    for (what, namespace, status) in [
        (0, 2, 0x0b),
        (0, u32::MAX, 0x0b),
        (2, u32::MAX, 0x0b),
        (0x42, 0, 2),
    ] {
        assert_eq!(
            scene.identify(what, namespace),
            Err(vain(status)),
            "{what:#x}"
        );
    }
    scene.drive.facts.read_only = true;
    assert_eq!(scene.identify(0, 1).unwrap()[99], 1);
    assert_eq!(scene.identify(8, 1).unwrap()[4..9], [0, 0, 0, 0, 1]);
    assert_eq!(scene.ask_with(1, write(1, 0, 1), &[0; 512]).0, vain(0x20));
}

#[test]
fn features_are_set_and_read_back() {
    let mut scene = Scene::connected();
    let get = |feature: u32| Entry::new(0x0a, 3).word(10, feature);
    let set = |feature: u32, value: u32| Entry::new(9, 3).word(10, feature).word(11, value);
    assert_eq!(scene.ask(0, set(7, (3 << 16) | 5)), (0, (3 << 16) | 3));
    assert_eq!(scene.ask(0, get(7)), (0, (3 << 16) | 3));
    assert_eq!(scene.ask(0, set(7, 0x01f4_01f4)), (0, (15 << 16) | 15));
    assert_eq!(scene.ask(0, set(7, 0xffff)).0, vain(2));
    for (feature, value) in [
        (1, 7),
        (4, 350),
        (5, 9),
        (0x0a, 1),
        (0x0b, 0x100),
        (0x0f, 12_000),
    ] {
        assert_eq!(scene.ask(0, set(feature, value)), (0, 0));
        assert_eq!(
            scene.ask(0, get(feature)),
            (0, value.into()),
            "{feature:#x}"
        );
    }
    assert_eq!(
        scene.ask(0, set(2, 1)).0,
        vain(2),
        "there is one power state"
    );
    assert_eq!(scene.ask(0, set(0x77, 0)).0, vain(2));
    assert_eq!(scene.ask(0, set((1 << 31) | 1, 0)).0, vain(0x10d));
    let timestamp = set(0x0e, 0).pointer(0x01, 0, 8);
    assert_eq!(
        scene.ask_with(0, timestamp, &[1, 2, 3, 4, 5, 6, 0, 0]),
        (0, 0)
    );
    let get_time = get(0x0e).pointer(0x5a, 0, 8).capsule(&[], (false, false));
    let Said::Data { data, .. } = &scene.send(0, &get_time)[0] else {
        panic!("no data");
    };
    let set_ms = u64::from_le_bytes([1, 2, 3, 4, 5, 6, 0, 0]);
    let is_ms = u64::from_le_bytes(data[..].try_into().unwrap());
    assert_eq!(is_ms >> 48, 0b10, "the host set it");
    assert!(is_ms & ((1 << 48) - 1) >= set_ms, "it goes on");
    assert_eq!(
        scene.ask(0, get((3 << 8) | 6)),
        (0, 4),
        "the write cache can be switched"
    );
}

#[test]
fn log_pages_are_given_in_parts() {
    let mut scene = Scene::connected();
    let health = scene.log(2, 512, 0).unwrap();
    assert_eq!((health[48], health[64], health[144]), (2, 3, 7));
    assert_eq!(scene.log(2, 64, 32).unwrap(), health[32..96]);
    assert_eq!(
        scene.log(3, 512, 0).unwrap()[..9],
        [1, 0, 0, 0, 0, 0, 0, 0, b'1']
    );
    assert_eq!(
        scene.log(5, 4096, 0).unwrap()[1024 + 4..1028 + 4],
        [3, 0, 0, 0]
    );
    assert_eq!(scene.log(2, 512, 1024), Err(vain(2)));
    assert_eq!(scene.log(2, 64, 2), Err(vain(2)));
    assert_eq!(
        scene.log(0x70, 64, 0),
        Err(vain(0x109)),
        "only the discovery service has it"
    );
    let endless = Entry::new(2, 9)
        .pointer(0x5a, 0, u32::MAX)
        .word(10, 0xffff_0002)
        .word(11, 0xffff);
    assert_eq!(scene.ask(0, endless).0, vain(0x0f));
}

#[test]
fn log_pages_that_are_not_read_take_a_bounded_memory() {
    let mut scene = Scene::connected();
    let log = Entry::new(2, 9).pointer(0x5a, 0, 1 << 20);
    let log = log.word(10, 1 | (0xffff << 16)).word(11, 3);
    let many = log.capsule(&[], (false, false)).repeat(100);
    let mut out = Vec::new();
    let session = &mut scene.sessions[0];
    let received = scene
        .nvme
        .received(session, &many, &mut out, &mut scene.drive);
    assert_eq!(received.then, Then::Blocked);
    assert!(out.len() < 6 << 20, "{} bytes", out.len());
}

#[test]
fn queues_are_not_made_by_commands_and_unknown_commands_are_refused() {
    let mut scene = Scene::connected();
    for opcode in [0x00, 0x01, 0x04, 0x05, 0x0d, 0x10, 0x80, 0x84, 0xff] {
        assert_eq!(
            scene.ask(0, Entry::new(opcode, 3)).0,
            vain(1),
            "{opcode:#x}"
        );
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
    let at = scene.open();
    let capsule = connect(1, 32, 0).capsule(&connect_data(1, DISCOVERY_NAME, HOST), (false, false));
    assert_eq!(status_of(&scene.send(at, &capsule)), 0x4182);
}

/// SPDK's tools have none unless they are told one.
#[test]
fn a_host_needs_no_name_and_keeps_to_the_one_that_it_has() {
    let mut scene = Scene::new();
    let mut connects = |queue: u16, controller: u16, host: &str| {
        let at = scene.open();
        let data = connect_data(controller, NAME, host);
        let said = scene.send(at, &connect(queue, 32, 0).capsule(&data, (false, false)));
        if queue == 0 && matches!(said[..], [Said::Completed { status: 0, .. }]) {
            assert_eq!(scene.ask(at, configure(ENABLED)), (0, 0));
        }
        match said[..] {
            [Said::Completed { status, result, .. }] => (status, result),
            _ => panic!("{said:?}"),
        }
    };
    assert_eq!(connects(0, 0xffff, ""), (0, 1));
    assert_eq!(connects(1, 1, ""), (0, 1));
    assert_eq!(connects(2, 1, HOST), (0x4182, 512 | (1 << 16)));
}
