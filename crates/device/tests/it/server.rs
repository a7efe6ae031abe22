//! A drive served from its options to its end, and the socket that steers it.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::served::{Reach, ServedDrive, ask, options, read, read_of, write, write_of};
use ioassay_device::client::nvme_tcp::{Queue, Settings};
use ioassay_device::client::{Initiator, Request, vfio_user};
use ioassay_device::server::{Options, serve};
use serde_json::{Value, json};

#[test]
fn doorbells_in_shared_memory_are_seen_by_a_drive_that_sleeps() {
    let drive = ServedDrive::start(&json!({
        "transports": ["vfio-user:FOLDER/cntrl"],
        "model": "none",
        "geometry": {},
        "calibrate": true,
        "idle_ms": 1,
    }));
    let path = Path::new(&drive.ready.transports[0].address);
    assert!(path.ends_with("cntrl"));
    let connect = || vfio_user::connect(path, &vfio_user::Settings::default());
    let (mut admin, mut queue) = connect().expect("a device");
    for pause_ms in [0, 1, 5, 20, 0] {
        std::thread::sleep(Duration::from_millis(pause_ms)); // so that it may sleep
        queue.call(Request::Flush).expect("a flush");
    }
    assert_eq!(drive.statistics()["ways"][0]["connections"], 1);
    // A power cut is an unplugged device, and the next client is served.
    drive.ask(&json!({"request": "power-cut"}));
    let lost = queue.call(Request::Flush).expect_err("it is unplugged").kind();
    assert!([ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&lost), "{lost}");
    assert!(admin.state().is_err());
    let (_admin, mut queue) = connect().expect("a device");
    queue.call(Request::Flush).expect("a flush");
    let path = path.to_owned();
    drive.stop();
    assert!(!path.exists());
}

#[test]
fn power_cuts_take_what_was_not_flushed_and_connections_unless_these_are_kept() {
    let drive = ServedDrive::start(&json!({"buffer": {"policy": "lru", "buffer": 1 << 20}}));
    assert_eq!((&drive.ready.policy[..], drive.ready.buffer_pages), ("lru", 256));
    let (mut client, mut other) = (drive.client(""), drive.client(""));
    write(&mut client, 0, 1);
    client.call(Request::Flush).expect("a flush");
    write(&mut client, 0, 2);
    write(&mut client, 1, 2);
    assert_eq!(read(&mut client, 0), 2);
    let cut = json!({"request": "power-cut", "keep_connections": true});
    assert_eq!(drive.ask(&cut), json!({"ok": true, "lost_pages": 2}));
    assert_eq!((read(&mut client, 0), read(&mut client, 1)), (1, 0));
    let stats = &drive.ask(&json!({"request": "stats", "buckets": true}))["stats"];
    assert_eq!(stats["power_cuts"], 1);
    assert_eq!(stats["writes"]["commands"], 3);
    assert_eq!(stats["ways"][0]["connections"], 2);
    assert!(stats["writes"]["latency_ns"]["buckets"].is_array());
    assert_eq!(drive.ask(&json!({"request": "reset-stats"})), json!({"ok": true}));
    assert_eq!(drive.statistics()["writes"]["commands"], 0);
    write(&mut client, 2, 3);
    assert_eq!(drive.ask(&json!({"request": "power-cut"})), json!({"ok": true, "lost_pages": 1}));
    for client in [&mut client, &mut other] {
        assert!(client.call(Request::Flush).is_err());
    }
    assert_eq!(drive.statistics()["ways"][0]["connections"], 0);
    assert_eq!(read(&mut drive.client(""), 2), 0, "new clients are served");
    assert!(drive.stop().0.lost.is_none());
}

#[test]
fn the_floor_is_measured_and_taken_off() {
    let drive = ServedDrive::start(&json!({"calibrate": true, "buffer": {"policy": "lru", "buffer": 1 << 20}}));
    let transport = &drive.ready.transports[0];
    let kinds: Vec<&str> = drive.ready.warnings.iter().map(|warning| warning.kind).collect();
    match transport.floor_ns {
        // 1.9 microseconds over the channel are less than a way through sockets takes.
        Some(floor_ns) => assert!(floor_ns > 1000 && kinds.contains(&"faster-than-transport")),
        None => assert!(kinds.contains(&"floor-unknown")),
    }
    assert_eq!(drive.statistics()["reads"]["commands"], 0);
    let mut client = drive.client("");
    write(&mut client, 3, 9);
    assert_eq!(read(&mut client, 3), 9);
    drop(client);
    drive.stop();
}

#[test]
fn answers_never_leave_before_the_model_says() {
    let drive = ServedDrive::start(&json!({}));
    let mut client = drive.client("");
    for block in 0..50 {
        read(&mut client, block);
    }
    let least = &drive.statistics()["reads"]["latency_ns"]["min"];
    assert!(least.as_u64() >= Some(25_000 + 105_600 + 1_907), "{least}");
    drive.stop();
}

#[test]
fn the_socket_is_private_and_hostile_lines_harm_nobody() {
    let drive = ServedDrive::start(&json!({}));
    let path = drive.socket();
    assert_eq!(std::fs::metadata(path).expect("a socket").permissions().mode() & 0o777, 0o600);
    for bytes in [
        &b"\n"[..],
        b"{}\n",
        b"{\"request\": \"explode\"}\n",
        b"{\"request\": \"stats\", \"more\": 1}\n",
        b"\xff\xfe\x00\n",
        "[".repeat(70_000).as_bytes(),
    ] {
        assert_eq!(ask(path, bytes)["ok"], false, "{bytes:?}");
    }
    // Clients that say nothing take no place for long: further ones are turned away, not queued.
    let silent: Vec<UnixStream> = (0..40).map_while(|_| UnixStream::connect(path).ok()).collect();
    let (mut turned_away, patience) = (0, Some(Duration::from_secs(300)));
    for mut stream in silent.iter().rev().take(10) {
        stream.set_read_timeout(patience).expect("a timeout");
        turned_away += usize::from(stream.read(&mut [0]).is_ok_and(|bytes| bytes == 0));
    }
    assert_eq!(turned_away, 10);
    drop(silent);
    let mut answer = json!(null);
    while answer["ok"] != true {
        answer = std::panic::catch_unwind(|| drive.ready.ask(&json!({"request": "stats"}))).unwrap_or_default();
    }
    drive.stop();
}

#[test]
fn what_cannot_be_served_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, place) = (folder.path().join("backing"), folder.path().display().to_string());
    for row in include_str!("wrong_options.tsv").lines().skip(1) {
        let (options, wanted) = row.split_once('\t').expect("a row");
        let options: Options = serde_json::from_str(&options.replace("FOLDER", &place)).expect("options");
        let seen = serve(&options, |_| panic!("it is served")).expect_err("an error").to_string();
        assert!(seen.contains(wanted), "{row}: {seen}");
        // No file is left of a drive that was never served.
        assert!(!file.exists() || wanted == "pin is 1000");
    }
    assert!(serde_json::from_value::<Options>(json!({"sise_bytes": 1})).is_err());
}

#[test]
fn a_preconditioned_drive_cleans_from_its_first_overwrites_on_and_always_alike() {
    let swift = json!({"elements": 4, "planes": 1, "dies": 1, "read_us": 0, "program_us": 0, "erase_us": 0});
    let drives = [0.0, 1.0, 1.0].map(|share| {
        let drive = ServedDrive::start(&json!({"precondition": share, "geometry": swift, "size_bytes": 128 << 20}));
        let mut client = drive.client("");
        for step in 0..2000 {
            write(&mut client, step * 15_973 % (128 << 8), 1);
        }
        let flash = drive.statistics()["flash"].clone();
        let before = drive.ready.preconditioned.clone();
        drop(client);
        drive.stop();
        (before, flash)
    });
    let [(none, new), (before, old), again] = drives;
    assert!(none.is_none());
    assert_eq!(new["write_amplification"], 1.0);
    let settled = before.as_ref().expect("it was asked for");
    assert!(settled.settled && settled.rounds >= 3 && settled.written_pages > 128 << 8);
    assert_eq!(old["written_pages"], 2000, "its own writes are not counted");
    assert!(old["write_amplification"].as_f64() > Some(1.2), "{old}, before: {settled:?}");
    assert_eq!((before, old), again);
}

/// A drive that does not notice protects the wrong bits: its data digests fit, and the host accepts them.
#[test]
fn rotten_bits_pass_the_data_digests_of_nvme_tcp() {
    let drive = ServedDrive::start(&json!({}));
    let settings = Settings { header_digests: true, data_digests: true, ..Settings::default() };
    let (_admin, [mut queue]) = drive.host(&settings, [1]);
    let data = vec![9; 64 << 10];
    queue.call(write_of(0, &data, true)).unwrap();
    let read = read_of(0, 64 << 10);
    assert!(queue.call(read).unwrap() == data);
    let rot = json!({"request": "fault-inject", "faults": [{"kind": "bit-rot", "count": 3}]});
    assert_eq!(drive.ask(&rot)["ok"], json!(true));
    let flipped: u32 = queue.call(read).unwrap().iter().map(|byte| (byte ^ 9).count_ones()).sum();
    assert!((1..=3).contains(&flipped), "{flipped} bits");
    assert_eq!(drive.statistics()["reads"]["errors"], 0);
}

// A drive with zones

const ZONE: u64 = 1 << 20;

/// Changes that make a small drive one with zones over this file, and these.
fn zoned(file: &Path, changes: &Value) -> Value {
    let mut zoned = json!({
        "transports": ["nvme-tcp:127.0.0.1:0"],
        "zones": {"zone_bytes": ZONE, "capacity_bytes": ZONE / 2, "open": 4},
        "backing_file": file,
    });
    zoned.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
    zoned
}

/// Serves a drive to one host: its zones before and after.
fn during(changes: &Value, act: impl FnOnce(&mut Queue)) -> (Value, Value) {
    let drive = ServedDrive::start(changes);
    let (_admin, [mut queue]) = drive.host(&Settings::default(), [1]);
    act(&mut queue);
    let before = serde_json::to_value(drive.ready.zones).expect("JSON");
    let after = drive.statistics()["zones"].clone();
    assert_eq!(drive.stop().0.lost, None);
    (before, after)
}

#[test]
fn a_backing_file_keeps_zones_and_is_taken_for_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let (before, after) = during(&zoned(&file, &json!({})), |queue| {
        for (offset_bytes, length) in [(ZONE, 8192), (2 * ZONE, ZONE / 2)] {
            queue.call(write_of(offset_bytes, &vec![7; length as usize], false)).expect("it is written");
        }
    });
    let of = |zones: &Value, keys: [&str; 2]| keys.map(|key| zones[key].clone());
    assert_eq!(of(&before, ["zones", "empty"]), [16, 16]);
    assert_eq!(of(&after, ["implicitly_opened", "full"]), [1, 1]);
    // The size is that of the drive, without the table.
    let (before, _) = during(&zoned(&file, &json!({"size_bytes": null})), |queue| {
        assert_eq!(queue.size_bytes(), 16 << 20);
        assert!(queue.call(read_of(ZONE, 16384)).expect("it is read") == [[7; 8192], [0; 8192]].concat());
    });
    assert_eq!(of(&before, ["closed", "full"]), [1, 1]);
    let plain = folder.path().join("plain");
    std::fs::write(&plain, vec![0; 16 << 20]).expect("a file");
    for (file, changes, wanted) in [
        (&file, json!({"zones": null, "size_bytes": null}), "holds a drive with zones; expected zones of 1048576"),
        (&file, json!({"zones": {"zone_bytes": ZONE}}), "expected the same zones"),
        (&plain, json!({}), "holds a drive without zones"),
    ] {
        let options = options(folder.path(), "drive", &zoned(file, &changes));
        let refused = serve(&options, |_| panic!("it is refused")).expect_err("it is refused").to_string();
        assert!(refused.contains(wanted), "{refused}");
    }
}
