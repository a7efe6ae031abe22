//! A zoned drive from its options to its end: what is refused, and what its backing file keeps.

use std::path::Path;

use crate::served::{ask, changed, read_of, spawn, write_of};
use ioassay_device::client::Initiator;
use ioassay_device::client::nvme_tcp::{Settings, connect};
use ioassay_device::server::{Options, serve};
use serde_json::{Value, json};

const ZONE: u64 = 1 << 20;

fn options(changes: &Value) -> Options {
    let options = json!({
        "size_bytes": 16 << 20,
        "transports": ["nvme-tcp:127.0.0.1:0,nqn=nqn.2016-06.io.example:drive"],
        "geometry": {"elements": 4, "planes": 1, "dies": 1},
        "calibrate": false,
        "idle_ms": 5,
        "zones": {"zone_bytes": ZONE, "capacity_bytes": ZONE / 2, "open": 4},
    });
    changed(options, changes)
}

fn refused(changes: &Value) -> String {
    let served = serve(&options(changes), |_| panic!("it is refused"));
    served.expect_err("it is refused").to_string()
}

/// Serves a drive, and what it is asked: its zones before and after.
fn during(changes: &Value, stats: &Path, act: impl FnOnce(&str)) -> (Value, Value) {
    let mut options = options(changes);
    options.stats_socket = Some(stats.to_owned());
    let (thread, ready) = spawn(options);
    act(&ready.transports[0].address);
    let after = ask(stats, &json!({"request": "stats"}));
    ask(stats, &json!({"request": "stop"}));
    let summary = thread.join().expect("no panic").expect("it served");
    assert_eq!(summary.lost, None);
    let before = serde_json::to_value(ready.zones).expect("JSON");
    (before, after["stats"]["zones"].clone())
}

#[test]
fn transports_that_know_no_zones_are_refused_together_with_them() {
    let nbd = format!("nbd:unix:{}", "/nowhere/drive.sock");
    let said = refused(&json!({"transports": ["nvme-tcp:127.0.0.1:0", nbd]}));
    assert!(said.contains("NBD and FUSE know none"), "{said}");
    let said = refused(&json!({"precondition": 1.0}));
    assert!(said.starts_with("precondition is 1"), "{said}");
    let said = refused(&json!({"zones": {"zone_bytes": 3 << 20}}));
    assert!(said.contains("a power of two"), "{said}");
    let said = refused(&json!({"size_bytes": (16 << 20) + 4096}));
    assert!(said.contains("whole zones"), "{said}");
}

#[test]
fn a_backing_file_keeps_zones_and_is_taken_for_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, stats) = (folder.path().join("file"), folder.path().join("stats"));
    let of_file = json!({"backing_file": file});
    let (before, after) = during(&of_file, &stats, |at| {
        let at = at.parse().expect("an address");
        let name = "nqn.2016-06.io.example:drive";
        let (_admin, mut queue) = connect(&at, name, &Settings::default()).expect("a host");
        for (offset_bytes, length) in [(ZONE, 8192), (2 * ZONE, ZONE / 2)] {
            let data = vec![7; length as usize];
            queue
                .call(write_of(offset_bytes, &data, false))
                .expect("it is written");
        }
    });
    assert_eq!(
        (&before["zones"], &before["empty"]),
        (&json!(16), &json!(16))
    );
    assert_eq!(
        (&after["implicitly_opened"], &after["full"]),
        (&json!(1), &json!(1))
    );
    // The size is that of the drive, without the table.
    let again = json!({"backing_file": file, "size_bytes": null});
    let (before, _) = during(&again, &stats, |at| {
        let at = at.parse().expect("an address");
        let name = "nqn.2016-06.io.example:drive";
        let (_admin, mut queue) = connect(&at, name, &Settings::default()).expect("a host");
        assert_eq!(queue.size_bytes(), 16 << 20);
        let read = read_of(ZONE, 16384);
        let content = queue.call(read).expect("it is read");
        assert!(content[..8192].iter().all(|&byte| byte == 7));
        assert!(content[8192..].iter().all(|&byte| byte == 0));
    });
    assert_eq!((&before["closed"], &before["full"]), (&json!(1), &json!(1)));
    let said = refused(&json!({"backing_file": file, "zones": null, "size_bytes": null}));
    assert!(
        said.contains("holds a drive with zones; wanted zones of 1048576"),
        "{said}"
    );
    let said = refused(&json!({"backing_file": file, "zones": {"zone_bytes": ZONE}}));
    assert!(said.contains("wanted the same zones"), "{said}");
    let plain = folder.path().join("plain");
    std::fs::write(&plain, vec![0; 16 << 20]).expect("a file");
    let said = refused(&json!({"backing_file": plain}));
    assert!(said.contains("holds a drive without zones"), "{said}");
}
