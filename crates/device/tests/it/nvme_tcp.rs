//! NVMe over TCP through sockets, with this crate's own initiator.

use crate::host::NAME;
use crate::memory_drive::{Memory, Served};
use crate::served::{read_of, read_what_it_wrote, trim_of, write_of, zeroes_of};
use ioassay_device::client::nvme_tcp::{Admin, Settings, connect};
use ioassay_device::client::{Initiator, Request};
use ioassay_device::transport::nvme_tcp::{DISCOVERY_NAME, Subsystem};
use ioassay_device::transport::socket::Endpoint;

/// A subsystem of this drive, with more settings, and where it is.
fn serve(settings: &str, drive: Memory) -> (Served, Endpoint) {
    let served = Served::start(&format!("nvme-tcp:127.0.0.1:0,nqn={NAME}{settings}"), drive);
    let at = served.endpoint();
    (served, at)
}

#[test]
fn what_is_written_is_read_with_digests_and_without_and_at_any_alignment() {
    for (block_bytes, digests, alignment, flow_control) in
        [(512, 0, 0, false), (4096, 3, 31, false), (512, 1, 1, true), (4096, 2, 7, true)]
    {
        let (_served, at) = serve("", Memory::new(16 << 20, block_bytes));
        let settings = Settings {
            header_digests: digests & 1 != 0,
            data_digests: digests & 2 != 0,
            alignment,
            flow_control,
            ..Settings::default()
        };
        let (mut admin, mut queue) = connect(&at, NAME, &settings).unwrap();
        assert_eq!(queue.size_bytes(), 16 << 20);
        assert_eq!(queue.block_bytes(), block_bytes);
        read_what_it_wrote(&mut queue, &[(0, 4096), (4096, 8192), (1 << 20, 1 << 20), (12288, 12288)]);
        queue.call(Request::Flush).unwrap();
        queue.call(trim_of(0, 4096)).unwrap();
        queue.call(zeroes_of(4096, 4096)).unwrap();
        assert_eq!(queue.call(read_of(0, 8192)).unwrap(), [0; 8192]);
        assert_eq!(admin.identify(1, 0).unwrap()[77], 8);
    }
}

#[test]
fn a_second_host_gets_a_controller_of_its_own() {
    let (drive, at) = serve("", Memory::new(1 << 20, 4096));
    let (first, mut one) = connect(&at, NAME, &Settings::default()).unwrap();
    let settings = Settings { host_id: [2; 16], ..Settings::default() };
    let (second, mut two) = connect(&at, NAME, &settings).unwrap();
    assert_ne!(first.controller(), second.controller());
    one.call(write_of(0, &[5; 4096], true)).unwrap();
    assert_eq!(two.call(read_of(0, 4096)).unwrap(), [5; 4096]);
    drop((first, one));
    assert_eq!(two.call(read_of(0, 4096)).unwrap(), [5; 4096]);
    drop((second, two));
    assert!(drive.stop().seen[0].fua);
}

#[test]
fn hosts_that_are_not_listed_are_refused_and_told_of_nothing() {
    let mut subsystem = Subsystem::new(NAME).unwrap();
    let names = ["nqn.2016-06.io.example:one", "nqn.2016-06.io.example:two"];
    for name in ["", "one", "nqn.", DISCOVERY_NAME] {
        assert!(subsystem.allow(name).is_err(), "{name:?}");
    }
    let (_served, at) = serve(&format!(",host={},host={}", names[0], names[1]), Memory::new(1 << 20, 4096));
    let settings = |host: &str| Settings { host: host.to_owned(), ..Settings::default() };
    let entries = |host: &str| {
        let mut admin = Admin::connect(&at, DISCOVERY_NAME, &settings(host)).unwrap();
        admin.enable().unwrap();
        admin.log(0x70, 2048).unwrap()[8]
    };
    for name in names {
        let (_admin, mut queue) = connect(&at, NAME, &settings(name)).unwrap();
        queue.call(Request::Flush).unwrap();
        assert_eq!(entries(name), 1);
    }
    let (longer, upper) = (format!("{}x", names[0]), names[0].to_uppercase());
    for name in ["", "nqn.2016-06.io.example:on", &longer, &upper] {
        let refused = connect(&at, NAME, &settings(name)).err().unwrap();
        assert!(refused.to_string().contains("184"), "{refused}");
        assert_eq!(entries(name), 0);
    }
}

#[test]
fn the_discovery_service_says_where_the_subsystem_is() {
    let (_served, at) = serve("", Memory::new(1 << 20, 4096));
    let mut admin = Admin::connect(&at, DISCOVERY_NAME, &Settings::default()).unwrap();
    admin.enable().unwrap();
    let log = admin.log(0x70, 2048).unwrap();
    let text = |range: std::ops::Range<usize>| {
        let text = String::from_utf8_lossy(&log[range]);
        text.trim_end_matches(['\0', ' ']).to_owned()
    };
    assert_eq!((log[8], log[1024]), (1, 3));
    assert_eq!(text(1280..1536), NAME);
    let place = format!("{}:{}", text(1536..1792), text(1056..1088));
    assert_eq!(place, at.to_string());
}
