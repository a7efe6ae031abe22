//! Power cuts while commands are in flight, over sockets and shared memory: what was answered as durable is there, what
//! was answered with an error or never may be, page by page, and no page is half of each.

use std::any::Any;
use std::time::{Duration, Instant};

use crate::served::{Reach, ServedDrive, Writer, read_of};
use ioassay_block::SplitMix64;
use ioassay_device::client::{Initiator, Request, nvme_tcp, vfio_user};
use serde_json::json;

const PAGE: u64 = 4096;
const PAGES: u64 = 256;
/// Writes of a round that are in flight when power is cut.
const IN_FLIGHT: u16 = 24;
const ROUNDS: u32 = 6;
/// What a cut is told as: `ESHUTDOWN` by NBD, Power Loss Notification by NVMe.
const POWER_LOST: [u32; 2] = [108, 5];

fn start(policy: &str) -> ServedDrive {
    ServedDrive::start(&json!({
        "size_bytes": PAGES * PAGE,
        "transports": ["nbd:unix:FOLDER/drive.sock", "nvme-tcp:127.0.0.1:0", "vfio-user:FOLDER"],
        "backing_file": "FOLDER/backing",
        "geometry": {"elements": 4, "planes": 1, "dies": 1, "pages_per_block": 16},
        "buffer": {"policy": policy, "buffer": 64 * PAGE},
    }))
}

/// Waits until everybody who left is forgotten, with all that they had in flight.
fn wait_until_alone(drive: &ServedDrive) {
    let begin = Instant::now();
    loop {
        let stats = drive.statistics();
        let mut ways = stats["ways"].as_array().expect("ways").iter();
        if ways.all(|way| way["connections"] == 0) && stats["depth_now"] == 0 {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(300), "{stats}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A connection, and what has to stay for it.
type Connection = (Box<dyn Initiator>, Option<Box<dyn Any>>);

fn by_nbd(drive: &ServedDrive) -> Connection {
    (Box::new(drive.client("")), None)
}

fn by_nvme_tcp(drive: &ServedDrive) -> Connection {
    let settings = nvme_tcp::Settings { entries: 1024, ..nvme_tcp::Settings::default() };
    let (admin, [queue]) = drive.host(&settings, [1]);
    (Box::new(queue), Some(Box::new(admin)))
}

fn by_vfio_user(drive: &ServedDrive) -> Connection {
    let data_bytes = (PAGES / u64::from(IN_FLIGHT) * PAGE) as usize;
    let settings = vfio_user::Settings { entries: 512, data_bytes, ..vfio_user::Settings::default() };
    let path = drive.transport("vfio-user").address.as_ref();
    let (admin, queue) = vfio_user::connect(path, &settings).expect("a controller");
    (Box::new(queue), Some(Box::new(admin)))
}

/// Reads all after a cut.
fn check_all(client: &mut dyn Initiator, writer: &mut Writer) {
    let content: Vec<u8> =
        (0..PAGES).flat_map(|page| client.call(read_of(page * PAGE, PAGE as u32)).expect("a page")).collect();
    writer.check(&content);
    client.call(Request::Flush).expect("a flush");
}

/// Writes that are answered, some of them flushed; then many in flight, and the cut.
fn round(drive: &ServedDrive, client: &mut dyn Initiator, writer: &mut Writer, chance: &mut SplitMix64) {
    for _ in 0..chance.below_wide(6) {
        writer.write(client, 0, (chance.below_wide(PAGES), 1), false);
        assert_eq!(writer.finish(client), [0]);
        if chance.below_wide(2) == 0 {
            writer.flush(client, 0, true);
            assert_eq!(writer.finish(client), [0]);
        }
    }
    for tag in 0..IN_FLIGHT {
        // Places of their own, so that no write in flight overtakes another.
        let (tags, most) = (u64::from(IN_FLIGHT), PAGES / u64::from(IN_FLIGHT));
        let most = if chance.below_wide(3) == 0 { most } else { 2 };
        let pages = (u64::from(tag) * PAGES / tags, 1 + chance.below_wide(most));
        writer.write(client, tag, pages, chance.below_wide(3) == 0);
    }
    writer.flush(client, IN_FLIGHT, false);
    client.push().expect("a drive that serves");
    std::thread::sleep(Duration::from_micros(chance.below_wide(6000)));
    assert_eq!(drive.ask(&json!({"request": "power-cut", "keep_connections": true}))["ok"], true);
}

fn cut_with_each_policy(connect: fn(&ServedDrive) -> Connection, first_seed: u64) {
    for (policy, seed) in ["none", "lru", "epo"].into_iter().zip(first_seed..) {
        cut_again_and_again(connect, policy, seed);
    }
}

fn cut_again_and_again(connect: fn(&ServedDrive) -> Connection, policy: &str, seed: u64) {
    println!("seed {seed}, policy {policy}");
    let (drive, mut chance) = (start(policy), SplitMix64(seed));
    let mut writer = Writer::new(PAGES, policy != "none");
    let mut counts = [0, 0];
    for number in 0.. {
        let (mut client, admin) = connect(&drive);
        round(&drive, client.as_mut(), &mut writer, &mut chance);
        // A client that vanishes knows of none of its writes what became of it.
        if chance.below_wide(4) > 0 {
            for error in writer.finish(client.as_mut()) {
                assert!(error == 0 || POWER_LOST.contains(&error), "{error:#x}");
                counts[usize::from(error == 0)] += 1;
            }
        }
        drop((client, admin));
        wait_until_alone(&drive);
        let (mut client, admin) = connect(&drive);
        check_all(client.as_mut(), &mut writer);
        drop((client, admin));
        wait_until_alone(&drive);
        // On a busy machine the drive may not have begun, or have done all, when power is cut.
        if number >= ROUNDS && counts.iter().all(|&count| count > 0) {
            break;
        }
        // Or never were there commands in flight.
        assert!(number < 50 * ROUNDS, "{counts:?}");
    }
    assert!(drive.statistics()["power_cuts"].as_u64() >= Some(ROUNDS.into()));
    let (_, folder) = drive.stop();
    let file = std::fs::read(folder.path().join("backing")).expect("the backing file");
    assert!(file.chunks(PAGE as usize).map(|page| vec![page[0]]).eq(writer.history.allowed));
}

#[test]
fn over_nbd_no_cut_takes_what_was_answered_as_durable() {
    cut_with_each_policy(by_nbd, 1);
}

#[test]
fn over_nvme_tcp_no_cut_takes_what_was_answered_as_durable() {
    cut_with_each_policy(by_nvme_tcp, 4);
}

#[test]
fn over_vfio_user_no_cut_takes_what_was_answered_as_durable() {
    cut_with_each_policy(by_vfio_user, 7);
}
