//! NVMe over TCP, byte by byte, without a socket: what is a unit, who may connect, and when a connection ends.

use crate::host::{Capsule, Entry, HOST, NAME, Scene, Unit, connect, connect_data, data, end_of, initialize};
use crate::host::{read, status_of, unit, vain, write};
use ioassay_device::transport::socket::{End, Protocol, Then};

#[test]
fn the_initialization_agrees_on_digests_and_the_length_of_data() {
    for digests in 0..4 {
        let mut scene = Scene::new();
        scene.accept();
        let wanted = Unit::Initialized { digests, most_data: 128 << 10 };
        assert_eq!(scene.send(0, &initialize(0, digests)), [wanted]);
    }
}

#[test]
fn units_that_must_not_be_end_the_connection_and_say_why() {
    let capsule = read(1, 0, 1).alone();
    let with = |at: usize, value: u8| {
        let mut bytes = capsule.clone();
        bytes[at] = value;
        bytes
    };
    let long = [with(6, 1), vec![0; 1 << 16]].concat();
    let cases = [
        (with(0, 5), 1, 0),    // a response from a host
        (with(0, 77), 1, 0),   // no such type
        (with(1, 1), 1, 1),    // a digest that was not agreed on
        (with(1, 0x80), 1, 1), // no such flag
        (with(2, 24), 1, 2),   // a header of another length
        (with(4, 71), 1, 4),   // shorter than its header
        (long, 1, 4),
        (initialize(0, 0), 2, 0),                // a second initialization
        (data(1, 0, 0, true, &[0; 512]), 1, 10), // data that were not asked for
    ];
    for (bytes, status, about) in cases {
        let mut scene = Scene::connected();
        assert_eq!(end_of(&scene.send(1, &bytes)), (status, about), "{:?}", &bytes[..8]);
        assert_eq!(scene.all[1].then, Then::Ends(End::Now));
    }
}

#[test]
fn nothing_but_an_initialization_may_come_first_and_it_has_to_be_possible() {
    let mut other_format = initialize(0, 0);
    other_format[8] = 1;
    let cases = [(read(1, 0, 1).alone(), 2, 0), (initialize(32, 0), 1, 10), (other_format, 6, 8)];
    for (bytes, status, about) in cases {
        let mut scene = Scene::new();
        scene.accept();
        assert_eq!(end_of(&scene.send(0, &bytes)), (status, about));
    }
}

#[test]
fn a_host_that_ends_the_connection_gets_no_answer() {
    let mut scene = Scene::connected();
    assert_eq!(scene.send(1, &unit(2, 0, &[0; 16], &[0; 24], (false, false))), []);
    assert_eq!(scene.all[1].then, Then::Ends(End::Now));
}

#[test]
fn damaged_headers_are_fatal_and_damaged_data_are_the_commands_affair() {
    let mut scene = Scene::new();
    for (number, controller) in [(0, 0xffff), (1, 1)] {
        let at = scene.open_with((true, true));
        scene.join(at, (number, 32, 0), &connect_data(controller, NAME, HOST));
    }
    let mut capsule = write(1, 0, 1).capsule(&[3; 512], (true, true));
    capsule[100] ^= 1;
    assert_eq!(status_of(&scene.send(1, &capsule)), 0x22);
    assert_eq!(scene.ask_with(1, write(1, 0, 1), &[3; 512]), (0, 0));
    let mut capsule = read(1, 0, 1).capsule(&[], (true, true));
    capsule[50] ^= 1;
    assert_eq!(end_of(&scene.send(1, &capsule)).0, 3);
}

#[test]
fn connect_refuses_what_it_does_not_have_and_says_where() {
    let (in_data, any) = (1 << 16, 0xffff);
    let (admin, io) = (connect(0, 32, 0), connect(1, 32, 0));
    let (long, data) = ("h".repeat(224), connect_data);
    let cases = [
        (admin, data(any, "nqn.other", HOST), 0x182, 256 | in_data),
        (admin, data(5, NAME, HOST), 0x182, 16 | in_data),
        (admin, data(any, "", HOST), 0x182, 256 | in_data),
        (admin, data(any, NAME, &long), 0x182, 512 | in_data),
        (connect(0, 1, 0), data(any, NAME, HOST), 0x182, 44),
        (connect(0, 1025, 0), data(any, NAME, HOST), 0x182, 44),
        (admin.word(10, 1), data(any, NAME, HOST), 0x180, 0),
        (io, data(1, NAME, "nqn.thief"), 0x182, 512 | in_data),
        (io, data(9, NAME, HOST), 0x182, 16 | in_data),
        (connect(17, 32, 0), data(1, NAME, HOST), 0x182, 42),
        (connect(2, 32, 0), data(1, NAME, HOST), 0x181, 0),
        (admin, vec![0; 100], 0x16, 0),
    ];
    let mut scene = Scene::connected();
    scene.io(2, 32);
    for (entry, data, status, expected) in cases {
        let at = scene.open();
        assert_eq!(scene.ask_with(at, entry, &data), (vain(status), expected));
    }
    let at = scene.open();
    // Nothing but Connect comes first.
    assert_eq!(scene.ask(at, read(3, 0, 1)).0, vain(0x0c));
}

#[test]
fn more_hosts_than_controllers_are_refused_until_one_leaves() {
    let mut scene = Scene::new();
    for _ in 0..16 {
        scene.admin(NAME, 0);
    }
    let at = scene.open();
    let data = connect_data(0xffff, NAME, HOST);
    assert_eq!(scene.ask_with(at, connect(0, 32, 0), &data).0, 0x4181);
    scene.close(3);
    assert_eq!(scene.ask_with(at, connect(0, 32, 0), &data), (0, 4));
}

#[test]
fn a_host_that_is_silent_for_too_long_loses_all_its_connections() {
    let mut scene = Scene::new();
    scene.admin(NAME, 5000);
    scene.io(1, 32);
    assert_eq!([0, 5].map(|seconds| scene.end_after(0, seconds)), [None; 2]);
    scene.ask(0, Entry::new(0x18, 3));
    assert_eq!([8, 13, 15].map(|seconds| scene.end_after(0, seconds)), [None, None, Some(End::Now)]);
    assert!(scene.protocol.attention());
    assert_eq!(scene.end_after(1, 15), Some(End::Now));
}

#[test]
fn a_host_without_a_queue_is_not_waited_for_and_one_that_leaves_takes_its_queues_along() {
    let mut scene = Scene::connected();
    let idle = scene.open();
    assert_eq!([9, 11].map(|seconds| scene.end_after(idle, seconds)), [None, Some(End::Now)]);
    assert_eq!(scene.end_after(1, 900), None); // without a keep alive time
    scene.close(0);
    assert_eq!(scene.end_after(1, 900), Some(End::Now));
}
