//! Several drives, and several namespaces, served from their options to their end.

use std::thread::JoinHandle;

use crate::served::{Reach, ServedDrive, check_left, options, read, read_of, spawn, stop, trim_of, write};
use ioassay_device::Error;
use ioassay_device::client::nbd::Client;
use ioassay_device::client::nvme_tcp::Settings;
use ioassay_device::client::{Initiator, Request};
use ioassay_device::server::{Options, Ready, Summary, serve_group};
use serde_json::{Value, json};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

struct Group {
    thread: JoinHandle<Result<Vec<Result<Summary, Error>>, Error>>,
    ready: Vec<Ready>,
    folder: TempDir,
}

impl Group {
    fn start(drives: &[Value]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = all_options(&folder, drives);
        let (thread, ready) = spawn(move |tell| serve_group(&options, |ready| tell(ready.to_vec())));
        Self { thread, ready, folder }
    }

    fn end(self) -> Vec<Result<Summary, Error>> {
        let ended = self.thread.join().expect("no panic").expect("a clean end");
        check_left(&self.folder);
        ended
    }
}

fn all_options(folder: &TempDir, drives: &[Value]) -> Vec<Options> {
    let numbered = drives.iter().enumerate();
    numbered.map(|(number, changes)| options(folder.path(), &number.to_string(), changes)).collect()
}

// Several drives

#[test]
fn one_drive_stops_and_the_others_go_on() {
    let (smaller, at_once) = (json!({"size_bytes": 8 * MIB}), json!({"model": "none"}));
    let group = Group::start(&[json!({}), smaller, at_once]);
    assert!(group.ready.iter().map(|ready| ready.size_bytes).eq([16 * MIB, 8 * MIB, 16 * MIB]));
    let mut clients: Vec<Client> = (0..3).map(|drive| group.ready[drive].client("")).collect();
    for (client, value) in clients.iter_mut().zip(1..) {
        write(client, 7, value);
    }
    stop(&group.ready[1]);
    assert!(!group.folder.path().join("1.sock").exists());
    assert!(clients[1].call(Request::Flush).is_err());
    for (drive, value) in [(0, 1), (2, 3)] {
        assert_eq!(read(&mut clients[drive], 7), value);
        assert_eq!(read(&mut group.ready[drive].client(""), 7), value);
    }
    stop(&group.ready[0]);
    assert_eq!(read(&mut clients[2], 7), 3);
    stop(&group.ready[2]);
    for ended in group.end() {
        assert_eq!(ended.expect("a summary").report.counters.blocks.writes.counters.commands, 1);
    }
}

#[test]
fn drives_are_loaded_at_once_and_a_client_that_vanishes_harms_none() {
    let group = Group::start(&[json!({}), json!({})]);
    std::thread::scope(|scope| {
        for drive in 0..2_usize {
            let mut client = group.ready[drive].client("");
            scope.spawn(move || {
                for step in 0..400 {
                    write(&mut client, step, (step % 100) as u8 + drive as u8);
                }
                for step in 0..400 {
                    assert_eq!(read(&mut client, step), (step % 100) as u8 + drive as u8);
                }
            });
        }
        for _ in 0..20 {
            let mut vanishes = group.ready[0].client("");
            for tag in 0..30 {
                vanishes.submit(tag, read_of(8 * MIB, 65_536));
            }
            vanishes.push().expect("requests that are taken");
        }
    });
    for drive in 0..2 {
        let writes = &group.ready[drive].statistics()["writes"];
        assert_eq!((&writes["commands"], &writes["errors"]), (&json!(400), &json!(0)));
        stop(&group.ready[drive]);
    }
    group.end();
}

#[test]
fn one_drive_that_cannot_be_served_refuses_all_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for row in include_str!("wrong_second_drives.tsv").lines().skip(1) {
        let (second, wanted) = row.split_once('\t').expect("a row");
        let second = serde_json::from_str(second).expect("JSON");
        let options = all_options(&folder, &[json!({"backing_file": "FOLDER/backing", "pin": 0}), second]);
        let said = serve_group(&options, |_| panic!("they are served")).expect_err("an error").to_string();
        assert!(said.contains(wanted), "{said}");
        for name in ["0.sock", "0.stats", "1.sock", "1.stats"] {
            assert!(!folder.path().join(name).exists(), "{name} after {said}");
        }
    }
    assert!(serve_group(&[], |_| ()).is_err());
}

#[test]
fn memory_of_one_drive_is_what_the_others_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = 16 * MIB + 16 * MIB / 20 + 352 * MIB; // with connections of both transports
    let with = |available_bytes: u64| {
        let drive = json!({"available_bytes": available_bytes, "transports": []});
        let with_nbd = json!({"available_bytes": available_bytes});
        // The last is refused, but not for its memory.
        let options = all_options(&folder, &[with_nbd.clone(), with_nbd, drive]);
        serve_group(&options, |_| panic!("they are served")).expect_err("an error")
    };
    let small = 16 * MIB + 16 * MIB / 20;
    let exact = 2 * one + small;
    assert!(matches!(with(exact - 1), Error::MemoryOfAll { drives: 3, .. }));
    assert!(matches!(with(exact), Error::OfDrive { number: 2, .. }));
}

// Several namespaces

/// A drive of three namespaces and a write buffer.
fn divided() -> Value {
    json!({
        "size_bytes": 8 * MIB,
        "namespaces_bytes": [4 * MIB, 2 * MIB, MIB],
        "buffer": {"policy": "lru", "buffer": MIB},
    })
}

#[test]
fn namespaces_have_content_of_their_own_whichever_way_they_are_reached() {
    let drive = ServedDrive::start(&divided());
    let (mut admin, mut queues) = drive.host(&Settings::default(), [1, 2, 3]);
    let listed = admin.identify(2, 0).expect("a list");
    assert_eq!([0, 4, 8, 12].map(|at| listed[at]), [1, 2, 3, 0]);
    let controller = admin.identify(1, 0).expect("a controller");
    assert_eq!(controller[296..304], MIB.to_le_bytes()); // what belongs to none
    let mut clients = ["drive", "drive-2", "drive-3"].map(|name| drive.client(name));
    let sizes: Vec<u64> = clients.iter().map(Initiator::size_bytes).collect();
    assert_eq!(sizes, [4 * MIB, 2 * MIB, MIB]);
    for (number, (queue, client)) in queues.iter_mut().zip(&mut clients).enumerate() {
        assert_eq!(queue.size_bytes(), sizes[number]);
        let last = sizes[number] / 4096 - 1;
        write(queue, 0, 10 + number as u8);
        write(client, last, 20 + number as u8);
    }
    for (number, (queue, client)) in queues.iter_mut().zip(&mut clients).enumerate() {
        let last = sizes[number] / 4096 - 1;
        assert_eq!(read(client, 0), 10 + number as u8);
        assert_eq!(read(queue, last), 20 + number as u8);
        let beyond = read_of(sizes[number], 4096);
        assert!(client.call(beyond).is_err());
        assert!(queue.call(beyond).is_err());
    }
    clients[1].call(trim_of(0, 2 * MIB as u32)).expect("a trim");
    let pairs = queues.iter_mut().zip(&mut clients).zip(&sizes);
    let ends = pairs.map(|((queue, client), size)| [read(queue, 0), read(client, size / 4096 - 1)]);
    assert_eq!(ends.collect::<Vec<_>>(), [[10, 20], [0, 0], [12, 22]]);
    drop((admin, queues, clients));
    drive.stop();
}

#[test]
fn commands_are_counted_by_namespace() {
    let drive = ServedDrive::start(&divided());
    let mut third = drive.client("drive-3");
    let mut second = drive.client("drive-2");
    for step in 0..5 {
        write(&mut third, step, 1);
    }
    read(&mut second, 1);
    second.call(Request::Flush).expect("a flush");
    let stats = drive.statistics();
    let none = json!({"commands": 0, "bytes": 0, "errors": 0});
    let of = |id: u32, size_bytes: u64, reads: u64, writes: u64| {
        let some = |commands: u64| match commands {
            0 => none.clone(),
            _ => json!({"commands": commands, "bytes": commands * 4096, "errors": 0}),
        };
        json!({"id": id, "size_bytes": size_bytes, "reads": some(reads), "writes": some(writes), "trims": none})
    };
    assert_eq!(stats["namespaces"], json!([of(1, 4 * MIB, 0, 0), of(2, 2 * MIB, 1, 0), of(3, MIB, 0, 5)]));
    drive.ask(&json!({"request": "reset-stats"}));
    assert_eq!(drive.statistics()["namespaces"][2], of(3, MIB, 0, 0));
    drive.stop();
}

#[test]
fn a_fault_of_a_namespace_strikes_no_other() {
    let mut options = divided();
    options["faults"] = json!([{"kind": "read-error", "namespace": 2, "offset_bytes": 4096, "length_bytes": 4096}]);
    let drive = ServedDrive::start(&options);
    let (_admin, mut queues) = drive.host(&Settings::default(), [1, 2, 3]);
    // The same addresses, and the same place as that of the whole drive.
    for (queue, offset_bytes, fails) in
        [(0, 4096, false), (1, 0, false), (1, 4096, true), (1, 8192, false), (2, 4096, false), (0, 0, false)]
    {
        assert_eq!(queues[queue].call(read_of(offset_bytes, 4096)).is_err(), fails, "{queue} {offset_bytes}");
    }
    let fault = &drive.ask(&json!({"request": "fault-list"}))["faults"][0];
    let told = ["namespace", "offset_bytes", "fired"].map(|key| &fault[key]);
    assert_eq!(told, [&json!(2), &json!(4096), &json!(1)]);
    let beyond = json!({"kind": "read-error", "namespace": 3, "offset_bytes": MIB});
    let refused = drive.ask(&json!({"request": "fault-inject", "faults": [beyond]}));
    assert_eq!(refused["error"], "offset is 1048576, expected less than the namespace's size");
    drive.stop();
}

#[test]
fn a_flush_of_one_namespace_and_a_power_loss_keep_what_they_should() {
    let drive = ServedDrive::start(&divided());
    let (_admin, mut queues) = drive.host(&Settings::default(), [1, 2]);
    write(&mut queues[0], 0, 1);
    write(&mut queues[1], 0, 2);
    queues[1].call(Request::Flush).expect("a flush");
    write(&mut queues[0], 1, 3);
    let cut = json!({"request": "power-cut", "keep_connections": true});
    assert_eq!(drive.ask(&cut), json!({"ok": true, "lost_pages": 1}));
    assert_eq!((read(&mut queues[0], 0), read(&mut queues[1], 0)), (1, 2));
    assert_eq!(read(&mut queues[0], 1), 0);
    drive.stop();
}

#[test]
fn a_backing_file_has_all_namespaces_where_they_were() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut options = divided();
    options["backing_file"] = json!(file.path());
    for serving in 0..2_u8 {
        let drive = ServedDrive::start(&options);
        for (name, value) in ["drive", "drive-2", "drive-3"].into_iter().zip(1..) {
            let mut client = drive.client(name);
            assert_eq!(read(&mut client, 3), serving * value);
            write(&mut client, 3, value);
        }
        drive.stop();
    }
}
