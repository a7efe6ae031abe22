//! A drive served from its options to its end, and the socket that steers it.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use crate::served::{ServedDrive, ask, ask_raw, read, read_of, write, write_of};
use ioassay_device::client::nvme_tcp::{Settings, connect};
use ioassay_device::client::{Initiator, Request, vfio_user};
use ioassay_device::server::{Options, serve};
use serde_json::{Value, json};

#[test]
fn power_cuts_drop_all_connections_and_new_clients_are_served() {
    let drive = ServedDrive::start(&json!({"buffer": {"policy": "lru", "bytes": 1 << 20}}));
    let mut clients = [drive.client(), drive.client()];
    write(&mut clients[0], 0, 1);
    let answer = drive.ask(&json!({"request": "power-cut"}));
    assert_eq!(answer, json!({"ok": true, "lost_pages": 1}));
    for client in &mut clients {
        assert!(client.call(Request::Flush).is_err());
    }
    let stats = &drive.ask(&json!({"request": "stats"}))["stats"];
    assert_eq!(stats["ways"][0]["connections"], 0);
    let mut client = drive.client();
    assert_eq!(read(&mut client, 0), 0);
    drive.stop();
}

#[test]
fn doorbells_in_shared_memory_are_seen_by_a_drive_that_sleeps() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cntrl");
    let drive = ServedDrive::start(&json!({
        "transports": [format!("vfio-user:{}", path.display())],
        "model": "none",
        "geometry": {},
        "calibrate": true,
        "idle_ms": 1,
    }));
    assert_eq!(drive.ready.transports[0].address, path.to_string_lossy());
    let (mut admin, mut queue) =
        vfio_user::connect(&path, &vfio_user::Settings::default()).expect("a device");
    for pause_ms in [0, 1, 5, 20, 0] {
        std::thread::sleep(std::time::Duration::from_millis(pause_ms)); // so that it may sleep
        queue.call(Request::Flush).expect("a flush");
    }
    let statistics = drive.ask(&json!({"request": "stats"}));
    let connections = &statistics["stats"]["ways"][0]["connections"];
    assert_eq!(connections, 1, "{statistics}");
    // A power cut is an unplugged device, and the next client is served.
    drive.ask(&json!({"request": "power-cut"}));
    assert!(queue.call(Request::Flush).is_err());
    assert!(admin.state().is_err());
    let (_admin, mut queue) =
        vfio_user::connect(&path, &vfio_user::Settings::default()).expect("a device");
    queue.call(Request::Flush).expect("a flush");
    drive.stop();
    assert!(!path.exists());
}

#[test]
fn power_cuts_take_what_was_not_flushed() {
    let drive = ServedDrive::start(&json!({"buffer": {"policy": "lru", "bytes": 1 << 20}}));
    assert_eq!(
        (drive.ready.policy.as_str(), drive.ready.buffer_pages),
        ("lru", 256)
    );
    let mut client = drive.client();
    write(&mut client, 0, 1);
    client.call(Request::Flush).expect("a flush");
    write(&mut client, 0, 2);
    write(&mut client, 1, 2);
    assert_eq!(read(&mut client, 0), 2);
    let kept = json!({"request": "power-cut", "keep_connections": true});
    let answer = drive.ask(&kept);
    assert_eq!(answer, json!({"ok": true, "lost_pages": 2}));
    assert_eq!((read(&mut client, 0), read(&mut client, 1)), (1, 0));
    let stats = &drive.ask(&json!({"request": "stats", "buckets": true}))["stats"];
    assert_eq!(
        (&stats["power_cuts"], &stats["writes"]["commands"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(stats["ways"][0]["connections"], 1);
    assert!(stats["writes"]["latency_ns"]["buckets"].is_array());
    assert_eq!(
        drive.ask(&json!({"request": "reset-stats"})),
        json!({"ok": true})
    );
    let stats = &drive.ask(&json!({"request": "stats"}))["stats"];
    assert_eq!(stats["writes"]["commands"], 0);
    let (socket, summary) = (drive.stats(), drive.stop());
    assert!(summary.lost.is_none());
    assert!(!socket.exists());
}

#[test]
fn the_floor_is_measured_and_taken_off() {
    let policy = json!({"policy": "lru", "bytes": 1 << 20});
    let drive = ServedDrive::start(&json!({"calibrate": true, "buffer": policy}));
    let transport = &drive.ready.transports[0];
    let kinds: Vec<&str> = drive
        .ready
        .warnings
        .iter()
        .map(|warning| warning.kind)
        .collect();
    match transport.floor_ns {
        // 1.9 microseconds over the channel are less than a way through sockets takes.
        Some(floor_ns) => assert!(floor_ns > 1000 && kinds.contains(&"faster-than-transport")),
        None => assert!(kinds.contains(&"floor-unknown")),
    }
    let stats = &drive.ask(&json!({"request": "stats"}))["stats"];
    assert_eq!(stats["reads"]["commands"], 0);
    let mut client = drive.client();
    write(&mut client, 3, 9);
    assert_eq!(read(&mut client, 3), 9);
    drop(client);
    drive.stop();
}

#[test]
fn answers_never_leave_before_the_model_says() {
    let drive = ServedDrive::start(&json!({}));
    let mut client = drive.client();
    for block in 0..50 {
        read(&mut client, block);
    }
    let stats = drive.ask(&json!({"request": "stats"}));
    let least = stats["stats"]["reads"]["latency_ns"]["min"]
        .as_u64()
        .expect("a read");
    assert!(least >= 25_000 + 105_600 + 1_907, "{least}");
    drive.stop();
}

#[test]
fn the_socket_is_private_and_hostile_lines_harm_nobody() {
    let drive = ServedDrive::start(&json!({}));
    let path = drive.stats();
    let mode = std::fs::metadata(&path)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    for bytes in [
        &b"\n"[..],
        b"{}\n",
        b"{\"request\": \"explode\"}\n",
        b"{\"request\": \"stats\", \"more\": 1}\n",
        b"\xff\xfe\x00\n",
        "[".repeat(70_000).as_bytes(),
    ] {
        assert_eq!(ask_raw(&path, bytes)["ok"], false, "{bytes:?}");
    }
    // Clients that say nothing take no place for long: further ones are turned away, not queued.
    let silent: Vec<UnixStream> = (0..40)
        .map_while(|_| UnixStream::connect(&path).ok())
        .collect();
    let mut turned_away = 0;
    for mut stream in silent.iter().rev().take(10) {
        stream
            .set_read_timeout(Some(std::time::Duration::from_secs(300)))
            .expect("a timeout");
        turned_away += usize::from(stream.read(&mut [0]).is_ok_and(|bytes| bytes == 0));
    }
    assert_eq!(turned_away, 10);
    drop(silent);
    let mut answer = json!(null);
    while answer["ok"] != true {
        answer = std::panic::catch_unwind(|| ask(&path, &json!({"request": "stats"})))
            .unwrap_or_default();
    }
    drive.stop();
}

#[test]
fn what_cannot_be_served_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let message = |options: Value| {
        let options: Options = serde_json::from_value(options).expect("options");
        let error = serve(&options, |_| panic!("it is served"))
            .map(|_| ())
            .expect_err("an error");
        error.to_string()
    };
    let transport = format!("nbd:unix:{}", folder.path().join("drive.sock").display());
    let (size, file) = (16 << 20, folder.path().join("backing"));
    for (options, wanted) in [
        (json!({"size_bytes": size}), "transports is 0"),
        (
            json!({"transports": [transport]}),
            "(os error 2); wanted a size to make it",
        ),
        (
            json!({"transports": [transport], "backing_file": null}),
            "size is absent",
        ),
        (
            json!({"transports": [transport], "size_bytes": 1000}),
            "size is 1000",
        ),
        (
            json!({"transports": [transport], "size_bytes": size, "block_bytes": 1024}),
            "block_bytes is 1024",
        ),
        (
            json!({"transports": [transport], "size_bytes": size, "model": "paper"}),
            "model is paper, wanted thesis or none",
        ),
        (
            json!({"transports": ["pigeon:x"], "size_bytes": size}),
            "transport is pigeon:x, wanted nbd:unix:PATH",
        ),
        (
            json!({"transports": ["nbd:tcp:8.8.8.8:1"], "size_bytes": size}),
            "wanted a loopback address, such as 127.0.0.1:1",
        ),
        (
            json!({"transports": [transport, transport], "size_bytes": size}),
            "drive.sock, wanted one of its own for each socket",
        ),
        (
            json!({"transports": [transport], "size_bytes": size, "available_bytes": size}),
            "takes 185388236 bytes of memory and 16777216 are available",
        ),
        (
            json!({"transports": [transport], "size_bytes": size, "buffer": {"policy": "magic"}}),
            "magic",
        ),
        (
            json!({"transports": [transport], "size_bytes": size, "namespaces_bytes": [size, 4096]}),
            "namespaces is 16781312, wanted at most the drive's 16777216 bytes together",
        ),
        (
            json!({"transports": [transport], "size_bytes": size, "namespaces_bytes": [512, 4096]}),
            "namespaces is 512, wanted whole pages of 4096 bytes",
        ),
        (
            json!({"transports": [transport], "size_bytes": size, "pin": 1000}),
            "pin is 1000",
        ),
    ] {
        let mut options = options;
        if options.get("backing_file").is_none() {
            options["backing_file"] = json!(file);
        }
        let seen = message(options.clone());
        assert!(seen.contains(wanted), "{options}: {seen}");
        // No file is left of a drive that was never served.
        assert!(!file.exists() || wanted == "pin is 1000");
    }
    assert!(serde_json::from_value::<Options>(json!({"sise_bytes": 1})).is_err());
}

#[test]
fn a_preconditioned_drive_cleans_from_its_first_overwrites_on_and_always_alike() {
    let swift = json!({"elements": 4, "planes": 1, "dies": 1, "read_us": 0, "program_us": 0, "erase_us": 0});
    let drives = [0.0, 1.0, 1.0].map(|share| {
        let drive = ServedDrive::start(
            &json!({"precondition": share, "geometry": swift, "size_bytes": 128 << 20}),
        );
        let mut client = drive.client();
        for step in 0..2000 {
            write(&mut client, step * 15_973 % (128 << 8), 1);
        }
        let counted = drive.ask(&json!({"request": "stats"}));
        let flash = counted["stats"]["flash"].clone();
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
    assert!(
        old["write_amplification"].as_f64() > Some(1.2),
        "{old}, before: {settled:?}"
    );
    assert_eq!((before, old), again);
}

/// A drive that does not notice protects the wrong bits: its data digests fit, and the host accepts them.
#[test]
fn rotten_bits_pass_the_data_digests_of_nvme_tcp() {
    let drive = ServedDrive::start(&json!({"transports": ["nvme-tcp:127.0.0.1:0"]}));
    let way = &drive.ready.transports[0];
    let settings = Settings {
        header_digests: true,
        data_digests: true,
        ..Settings::default()
    };
    let nqn = way.nqn.as_deref().expect("a name");
    let at = way.address.parse().expect("an address");
    let (_admin, mut queue) = connect(&at, nqn, &settings).unwrap();
    let data = vec![9; 64 << 10];
    let write = write_of(0, &data, true);
    queue.call(write).unwrap();
    let read = read_of(0, 64 << 10);
    assert!(queue.call(read).unwrap() == data);
    let rot = json!({"request": "fault-inject", "faults": [{"kind": "bit-rot", "count": 3}]});
    assert_eq!(drive.ask(&rot)["ok"], json!(true));
    let rotten = queue.call(read).unwrap();
    let flipped: u32 = rotten.iter().map(|byte| (byte ^ 9).count_ones()).sum();
    assert!((1..=3).contains(&flipped), "{flipped} bits");
    let counted = drive.ask(&json!({"request": "stats"}));
    assert_eq!(counted["stats"]["reads"]["errors"], json!(0));
}
