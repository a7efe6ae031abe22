//! The loop over connections, with real sockets: limits, clients that vanish, that do not read, that
//! dawdle and that talk nonsense, each beside one that behaves.

use crate::host;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::memory_drive::{EmulatedDrive, Memory, round};
use crate::served::{read_of, write_of};
use ioassay_device::client::{Initiator, Waiting, nbd as nbd_client};
use ioassay_device::command::Drive;
use ioassay_device::transport::Transport;
use ioassay_device::transport::nbd::{self, Export, Nbd};
use ioassay_device::transport::nvme_tcp::{self, Subsystem};
use ioassay_device::transport::socket::{Endpoint, Server, SharedMemory};

/// After so long without anything nothing more is expected.
const QUIET: Duration = Duration::from_millis(60);

/// What has to come comes within this, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(300);

fn nbd_server(connections: usize) -> (Server<Nbd>, std::net::SocketAddr) {
    let export = Export {
        connections,
        ..Export::default()
    };
    let server = nbd::serve(export, 0, &"127.0.0.1:0".parse().unwrap()).unwrap();
    let Endpoint::Tcp(at) = *server.endpoint() else {
        panic!("asked for TCP")
    };
    (server, at)
}

/// Says hello and begins the transmission.
fn begin(at: std::net::SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(at).unwrap();
    client
        .write_all(&[&3u32.to_be_bytes()[..], b"IHAVEOPT\0\0\0\x01\0\0\0\0"].concat())
        .unwrap();
    client
}

fn read_request(length: u32) -> Vec<u8> {
    [
        &0x2560_9513u32.to_be_bytes()[..],
        &[0; 20],
        &length.to_be_bytes(),
    ]
    .concat()
}

/// Rounds until nothing has happened for a while.
fn settle(server: &mut Server<Nbd>, drive: &mut Memory) {
    let mut quiet = Instant::now();
    while quiet.elapsed() < QUIET {
        if round(server, drive) {
            quiet = Instant::now();
        }
    }
}

/// As [`settle`], but the drive answers nothing.
fn settle_unanswered(server: &mut Server<Nbd>, drive: &mut Memory) {
    let mut quiet = Instant::now();
    while quiet.elapsed() < QUIET {
        if server.poll(drive).unwrap() {
            quiet = Instant::now();
        }
        server.send(drive).unwrap();
    }
}

/// Rounds until so many bytes came, or the server closed the connection; the bytes.
fn receive(
    server: &mut dyn Transport,
    drive: &mut Memory,
    client: &mut TcpStream,
    most: usize,
) -> Vec<u8> {
    client.set_nonblocking(true).unwrap();
    let (mut all, start) = (vec![0; most], Instant::now());
    let mut came = 0;
    while came < most {
        assert!(start.elapsed() < PATIENCE, "{came} of {most} bytes came");
        round(server, drive);
        match client.read(&mut all[came..]) {
            Ok(0) => break,
            Ok(bytes) => came += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    all.truncate(came);
    all
}

/// Whether the server closes the connection.
fn ends(server: &mut dyn Transport, drive: &mut Memory, client: &mut TcpStream) -> bool {
    receive(server, drive, client, 1000).len() < 1000
}

/// Whether it has not closed it.
fn is_open(client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let mut rest = Vec::new();
    client
        .read_to_end(&mut rest)
        .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn more_clients_than_allowed_are_turned_away_until_one_leaves() {
    let (mut server, at) = nbd_server(2);
    let mut drive = Memory::new(1 << 20, 512);
    let mut clients: Vec<_> = (0..3).map(|_| begin(at)).collect();
    settle(&mut server, &mut drive);
    assert_eq!(server.connections(), 2);
    assert!(ends(&mut server, &mut drive, &mut clients[2]));
    assert!(is_open(&mut clients[0]));
    clients.remove(0);
    settle(&mut server, &mut drive);
    let mut late = begin(at);
    settle(&mut server, &mut drive);
    assert!(is_open(&mut late));
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_crowd_that_is_turned_away_takes_nothing() {
    let (mut server, at) = nbd_server(2);
    let mut drive = Memory::new(1 << 20, 512);
    let mut first = begin(at);
    settle(&mut server, &mut drive);
    let mut most = 0;
    for _ in 0..2000 {
        drop(TcpStream::connect(at).unwrap());
        round(&mut server, &mut drive);
        most = most.max(server.connections());
    }
    assert!(most <= 2, "{most} connections");
    settle(&mut server, &mut drive);
    assert_eq!(server.connections(), 1);
    first.write_all(&read_request(512)).unwrap();
    let answer = 18 + 10 + 16 + 512;
    let came = receive(&mut server, &mut drive, &mut first, answer);
    assert_eq!(came.len(), answer);
}

#[test]
fn clients_that_come_when_all_others_left_are_served() {
    let (mut server, at) = nbd_server(4);
    let mut drive = Memory::new(1 << 20, 512);
    for _ in 0..5 {
        let mut clients: Vec<_> = (0..4).map(|_| begin(at)).collect();
        settle(&mut server, &mut drive);
        assert!(clients.iter_mut().all(is_open));
        // More than is read at once: their end lies behind it.
        for client in &mut clients {
            client.set_nonblocking(false).unwrap();
            client.write_all(&read_request(512).repeat(1000)).unwrap();
        }
    }
}

#[test]
fn a_vanished_clients_slot_is_free_when_its_last_answer_came() {
    let (mut server, at) = nbd_server(1);
    let mut drive = Memory::new(1 << 20, 512);
    let mut client = begin(at);
    client.write_all(&read_request(4096).repeat(5)).unwrap();
    settle_unanswered(&mut server, &mut drive);
    assert_eq!(drive.due.len(), 5);
    drop(client);
    settle_unanswered(&mut server, &mut drive);
    assert_eq!(server.connections(), 0);
    let mut early = begin(at);
    settle_unanswered(&mut server, &mut drive);
    assert_eq!(
        server.connections(),
        0,
        "answers to its number are still due"
    );
    settle(&mut server, &mut drive);
    assert_eq!(server.connections(), 1);
    assert!(is_open(&mut early));
}

#[test]
fn a_client_that_does_not_read_is_read_no_further_and_gets_everything_later() {
    const READS: usize = 400;
    let (mut server, at) = nbd_server(2);
    let mut drive = Memory::new(1 << 20, 512);
    drive.bytes.fill(7);
    let mut lazy = begin(at);
    lazy.write_all(&read_request(1 << 20).repeat(READS))
        .unwrap();
    settle(&mut server, &mut drive);
    let taken = drive.seen.len();
    assert!(taken < 60, "{taken} reads of 1 MiB were taken");
    let mut other = begin(at);
    other.write_all(&read_request(512)).unwrap();
    settle(&mut server, &mut drive);
    let answer = 18 + 10 + 16 + 512;
    assert_eq!(
        receive(&mut server, &mut drive, &mut other, answer).len(),
        answer
    );
    let wanted = 18 + 10 + READS * (16 + (1 << 20));
    assert_eq!(
        receive(&mut server, &mut drive, &mut lazy, wanted).len(),
        wanted
    );
    assert_eq!(drive.seen.len(), READS + 1);
}

#[test]
fn nonsense_and_dawdling_disturb_nobody() {
    let (mut server, at) = nbd_server(8);
    let mut drive = Memory::new(1 << 20, 512);
    let mut slow = begin(at);
    let mut mad = begin(at);
    let request = read_request(512);
    for (turn, byte) in request.iter().enumerate() {
        slow.write_all(&[*byte]).unwrap();
        if turn == 9 {
            mad.write_all(&[0xee; 100]).unwrap();
        }
        round(&mut server, &mut drive);
    }
    assert!(ends(&mut server, &mut drive, &mut mad));
    let answer = 18 + 10 + 16 + 512;
    assert_eq!(
        receive(&mut server, &mut drive, &mut slow, answer).len(),
        answer
    );
    assert_eq!(drive.seen.len(), 1);
}

#[test]
fn a_disconnect_is_answered_to_the_end() {
    let (mut server, at) = nbd_server(1);
    let mut drive = Memory::new(1 << 20, 512);
    let mut client = begin(at);
    let mut bye = read_request(0);
    bye[7] = 2;
    client
        .write_all(&[read_request(4096), bye].concat())
        .unwrap();
    settle_unanswered(&mut server, &mut drive);
    let all = receive(&mut server, &mut drive, &mut client, 10_000);
    assert_eq!(all.len(), 18 + 10 + 16 + 4096);
    drop(client);
    settle(&mut server, &mut drive);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_host_that_breaks_the_rules_is_told_why() {
    let subsystem = Subsystem::of("test");
    let mut server = nvme_tcp::serve(subsystem, 0, &"127.0.0.1:0".parse().unwrap()).unwrap();
    let Endpoint::Tcp(at) = *server.endpoint() else {
        panic!("asked for TCP")
    };
    let mut drive = Memory::new(1 << 20, 512);
    let mut client = TcpStream::connect(at).unwrap();
    client.write_all(&host::initialize(0, 0)).unwrap();
    client.write_all(&[0xee; 4096]).unwrap();
    let all = receive(&mut server, &mut drive, &mut client, 1000);
    let said = host::said(&all);
    assert!(matches!(
        said[..],
        [
            host::Said::Initialized { .. },
            host::Said::Ends {
                status: 1,
                about: 0
            }
        ]
    ));
}

#[test]
fn nothing_follows_a_request_to_end_the_connection() {
    let (mut server, at) = nbd_server(1);
    let mut drive = Memory::new(1 << 20, 512);
    let mut client = begin(at);
    client.write_all(&read_request(4096)).unwrap();
    settle_unanswered(&mut server, &mut drive);
    client.write_all(&[0xee; 28]).unwrap();
    settle_unanswered(&mut server, &mut drive);
    let all = receive(&mut server, &mut drive, &mut client, 10_000);
    assert_eq!(all.len(), 18 + 10);
}

#[test]
fn a_drive_that_sleeps_is_woken_by_all_that_concerns_it() {
    const READS: usize = 64;
    let (mut server, at) = nbd_server(1);
    let mut drive = Memory::new(1 << 20, 512);
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let reader = std::thread::spawn(move || {
        let mut client = begin(at);
        client
            .write_all(&read_request(1 << 20).repeat(READS))
            .unwrap();
        let mut all = vec![0; 18 + 10 + READS * (16 + (1 << 20))];
        client.read_exact(&mut all).unwrap();
        is_done.store(true, Ordering::SeqCst); // before the connection ends, which wakes the drive
    });
    let mut descriptors = Vec::new();
    server.descriptors(&mut descriptors);
    let (mut sleeps, mut in_vain) = (0, 0);
    while !done.load(Ordering::SeqCst) {
        while round(&mut server, &mut drive) {}
        sleeps += 1;
        assert!(sleeps < 100_000, "it is woken for nothing");
        // Once the reader has all, the end of its connection may be handled already: then nothing comes any more.
        in_vain += u32::from(!is_woken(descriptors[0]) && !done.load(Ordering::SeqCst));
    }
    reader.join().unwrap();
    assert_eq!(in_vain, 0, "it slept for as long as it could");
}

/// Sleeps until a descriptor is readable, for at most two seconds: whether it is.
#[allow(unsafe_code)]
fn is_woken(descriptor: std::os::fd::RawFd) -> bool {
    let mut waits = libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor is described, and it is open while its server lives.
    unsafe { libc::poll(&raw mut waits, 1, 2_000) != 0 }
}

#[test]
fn both_transports_measure_their_floor_and_leave() {
    for (name, slow) in [("nbd", false), ("nbd", true), ("nvme-tcp", true)] {
        let at: Endpoint = "127.0.0.1:0".parse().unwrap();
        let mut drive = Memory::new(1 << 20, 512);
        drive.keeps = false;
        let mut transport: Box<dyn Transport> = match name {
            "nbd" => Box::new(nbd::serve(Export::default(), 0, &at).unwrap()),
            _ => Box::new(nvme_tcp::serve(Subsystem::of("test"), 0, &at).unwrap()),
        };
        let mut probe = transport.probe().unwrap();
        let client = std::thread::spawn(move || probe.run(100, slow));
        while !client.is_finished() {
            round(transport.as_mut(), &mut drive);
        }
        assert!(!client.join().unwrap().unwrap().is_empty(), "{name}");
        let start = Instant::now();
        while transport.connections() > 0 {
            assert!(start.elapsed() < PATIENCE, "{name}");
            round(transport.as_mut(), &mut drive);
        }
    }
}

#[test]
fn many_clients_at_once_read_what_they_wrote() {
    let (server, at) = nbd_server(16);
    let mut drive = Memory::new(16 << 20, 512);
    drive.keeps = false;
    assert_eq!(drive.facts().block_bytes, 512);
    let _served = EmulatedDrive::start(server, drive);
    let clients: Vec<_> = (0..8u64)
        .map(|number| {
            std::thread::spawn(move || {
                let to = Endpoint::Tcp(at);
                let structured = number % 2 == 0;
                let mut client =
                    nbd_client::Client::connect(&to, "", structured, Waiting::Sleeps).unwrap();
                for turn in 0..50u64 {
                    let (offset_bytes, length) = (
                        number * (2 << 20) + turn * 512,
                        512 * (turn as usize * 7 + 1),
                    );
                    let data = vec![(number * 31 + turn) as u8; length];
                    client.call(write_of(offset_bytes, &data, false)).unwrap();
                    let length_bytes = length as u32;
                    let read = client.call(read_of(offset_bytes, length_bytes)).unwrap();
                    assert!(read == data, "client {number}, turn {turn}");
                }
                client.disconnect().unwrap();
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
}

/// The head of a write.
fn write_request(length: u32) -> Vec<u8> {
    [
        &0x2560_9513u32.to_be_bytes()[..],
        &[0, 0, 0, 1],
        &[0; 16],
        &length.to_be_bytes(),
    ]
    .concat()
}

/// A client that sends all of this when it can, in a thread of its own; dropped when told to.
fn sends(mut client: TcpStream, bytes: Vec<u8>) -> std::thread::JoinHandle<TcpStream> {
    std::thread::spawn(move || {
        client.write_all(&bytes).unwrap();
        client
    })
}

#[test]
fn long_messages_share_a_bounded_memory_and_all_of_them_are_taken_in_the_end() {
    const LENGTH: usize = 4 << 20;
    let (mut server, at) = nbd_server(20);
    // Enough for one of them at a time.
    server.share_memory(&SharedMemory::new(LENGTH as u64));
    let mut drive = Memory::new(LENGTH as u64, 512);
    let clients: Vec<_> = (0..12u8)
        .map(|number| {
            let data = vec![number; LENGTH];
            sends(begin(at), [write_request(LENGTH as u32), data].concat())
        })
        .collect();
    let start = Instant::now();
    while !clients.iter().all(std::thread::JoinHandle::is_finished) {
        assert!(start.elapsed() < PATIENCE, "they wait for ever");
        round(&mut server, &mut drive);
    }
    let hello = 18 + 10;
    for client in clients {
        let mut client = client.join().unwrap();
        let came = receive(&mut server, &mut drive, &mut client, hello + 16);
        assert_eq!(came.len(), hello + 16);
    }
}

#[test]
fn who_keeps_memory_and_sends_nothing_makes_room_for_those_who_wait() {
    const LENGTH: usize = 4 << 20;
    let (mut server, at) = nbd_server(4);
    server.share_memory(&SharedMemory::new(LENGTH as u64));
    let mut drive = Memory::new(LENGTH as u64, 512);
    let mut keeper = begin(at);
    // Half of a message, and no more.
    let half = [write_request(LENGTH as u32), vec![1; LENGTH / 2]].concat();
    let sent = sends(keeper.try_clone().unwrap(), half);
    while !sent.is_finished() {
        round(&mut server, &mut drive);
    }
    settle(&mut server, &mut drive);
    // A small request is answered meanwhile.
    let mut other = begin(at);
    other.write_all(&read_request(512)).unwrap();
    let small = 18 + 10 + 16 + 512;
    assert_eq!(
        receive(&mut server, &mut drive, &mut other, small).len(),
        small
    );
    assert!(is_open(&mut keeper));
    other.set_nonblocking(false).unwrap();
    let long = [write_request(LENGTH as u32), vec![2; LENGTH]].concat();
    let waits = sends(other, long);
    let start = Instant::now();
    while !waits.is_finished() {
        assert!(start.elapsed() < PATIENCE, "it waits for ever");
        round(&mut server, &mut drive);
    }
    let mut other = waits.join().unwrap();
    assert_eq!(receive(&mut server, &mut drive, &mut other, 16).len(), 16);
    assert!(ends(&mut server, &mut drive, &mut keeper));
}
