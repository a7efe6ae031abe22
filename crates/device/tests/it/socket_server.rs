//! The loop over connections, with real sockets: limits, and clients that vanish, do not read, are slow or send nonsense,
//! each together with one that behaves.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::host;
use crate::host::nbd::{FLAGS, option, request};
use crate::memory_drive::{Memory, Served, endpoint, round};
use crate::served::read_what_they_wrote;
use ioassay_device::client::Waiting;
use ioassay_device::client::nbd::Client;
use ioassay_device::transport::nbd::{self, Export};
use ioassay_device::transport::socket::{Endpoint, SharedMemory};
use ioassay_device::transport::{self, Transport};

/// After this time and this number of rounds without an event nothing more is expected.
const QUIET: Duration = Duration::from_millis(60);
const QUIET_ROUNDS: u32 = 1000;

/// What has to come comes within this, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(300);

/// The greeting and the answer that the transmission begins.
const HELLO: usize = 18 + 10;

/// A server and its drive.
struct Scene {
    server: Box<dyn Transport>,
    drive: Memory,
    at: SocketAddr,
}

impl Scene {
    fn over(server: Box<dyn Transport>, size_bytes: u64) -> Self {
        let Endpoint::Tcp(at) = endpoint(&server.address()) else { panic!("asked for TCP") };
        Self { server, drive: Memory::new(size_bytes, 512), at }
    }

    /// With a limit of connections.
    fn of(connections: usize, size_bytes: u64) -> Self {
        let export = Export { connections, ..Export::default() };
        let server = nbd::serve(export, 0, &"127.0.0.1:0".parse().unwrap()).unwrap();
        Self::over(Box::new(server), size_bytes)
    }

    fn new(connections: usize) -> Self {
        Self::of(connections, 1 << 20)
    }

    /// A client that said hello and begins the transmission.
    fn begin(&self) -> TcpStream {
        self.begin_with(&[])
    }

    /// One that also sent this.
    fn begin_with(&self, bytes: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(self.at).unwrap();
        client.write_all(&[&FLAGS[..], &option(1, &[]), bytes].concat()).unwrap();
        client
    }

    fn round(&mut self) -> bool {
        round(self.server.as_mut(), &mut self.drive)
    }

    /// Rounds until nothing has happened for a while.
    fn settle(&mut self) {
        self.settle_with(Self::round);
    }

    /// As [`Self::settle`], but the drive answers nothing.
    fn settle_unanswered(&mut self) {
        self.settle_with(|scene| {
            let any = scene.server.poll(&mut scene.drive).unwrap();
            scene.server.send(&scene.drive).unwrap();
            any
        });
    }

    fn settle_with(&mut self, round: impl Fn(&mut Self) -> bool) {
        let (mut quiet, mut rounds) = (Instant::now(), 0);
        while quiet.elapsed() < QUIET || rounds < QUIET_ROUNDS {
            rounds += 1;
            if round(self) {
                (quiet, rounds) = (Instant::now(), 0);
            }
        }
    }

    /// Rounds until this is so.
    fn round_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "it waits for ever");
            self.round();
        }
    }

    /// Rounds until this number of bytes came, or the server closed the connection. Returns the bytes.
    fn receive(&mut self, client: &mut TcpStream, most: usize) -> Vec<u8> {
        client.set_nonblocking(true).unwrap();
        let (mut all, mut came, start) = (vec![0; most], 0, Instant::now());
        while came < most {
            assert!(start.elapsed() < PATIENCE, "{came} of {most} bytes came");
            self.round();
            match client.read(&mut all[came..]) {
                Ok(0) => break,
                Ok(bytes) => came += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Ten seconds may pass before the server gives up a client.
                    std::thread::sleep(Duration::from_micros(100));
                }
                Err(_) => break,
            }
        }
        all.truncate(came);
        all
    }

    /// Whether a whole answer of this length comes.
    fn gets(&mut self, client: &mut TcpStream, bytes: usize) -> bool {
        self.receive(client, bytes).len() == bytes
    }

    /// Whether the server closes the connection.
    fn ends(&mut self, client: &mut TcpStream) -> bool {
        self.receive(client, 1000).len() < 1000
    }
}

fn read_request(length: u32) -> Vec<u8> {
    request(0, 0, 0, length)
}

/// What the first read of 512 bytes is answered.
const FIRST: usize = HELLO + 16 + 512;

/// Whether the server has not closed the connection.
fn is_open(client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    client.read_to_end(&mut Vec::new()).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn more_clients_than_allowed_are_turned_away_until_one_leaves() {
    let mut scene = Scene::new(2);
    let mut clients: Vec<_> = (0..3).map(|_| scene.begin()).collect();
    scene.settle();
    assert_eq!(scene.server.connections(), 2);
    assert!(scene.ends(&mut clients[2]));
    assert!(is_open(&mut clients[0]));
    clients.remove(0);
    scene.settle();
    let mut late = scene.begin();
    scene.settle();
    assert!(is_open(&mut late));
    assert_eq!(scene.server.connections(), 2);
}

#[test]
fn a_crowd_that_is_turned_away_takes_nothing() {
    let mut scene = Scene::new(2);
    let mut first = scene.begin();
    scene.settle();
    let mut most = 0;
    for _ in 0..2000 {
        drop(TcpStream::connect(scene.at).unwrap());
        scene.round();
        most = most.max(scene.server.connections());
    }
    assert!(most <= 2, "{most} connections");
    scene.settle();
    assert_eq!(scene.server.connections(), 1);
    first.write_all(&read_request(512)).unwrap();
    assert!(scene.gets(&mut first, FIRST));
}

#[test]
fn clients_that_come_when_all_others_left_are_served() {
    let mut scene = Scene::new(4);
    for _ in 0..5 {
        let mut clients: Vec<_> = (0..4).map(|_| scene.begin()).collect();
        scene.settle();
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
    let mut scene = Scene::new(1);
    let client = scene.begin_with(&read_request(4096).repeat(5));
    scene.settle_unanswered();
    assert_eq!(scene.drive.due.len(), 5);
    drop(client);
    scene.settle_unanswered();
    assert_eq!(scene.server.connections(), 0);
    let mut early = scene.begin();
    scene.settle_unanswered();
    assert_eq!(scene.server.connections(), 0); // answers to its number are still due
    scene.settle();
    assert_eq!(scene.server.connections(), 1);
    assert!(is_open(&mut early));
}

#[test]
fn a_client_that_does_not_read_is_read_no_further_and_gets_everything_later() {
    const READS: usize = 400;
    let mut scene = Scene::new(2);
    scene.drive.bytes.fill(7);
    let mut lazy = scene.begin_with(&read_request(1 << 20).repeat(READS));
    scene.settle();
    let taken = scene.drive.seen.len();
    assert!(taken < 60, "{taken} reads of 1 MiB were taken");
    let mut other = scene.begin_with(&read_request(512));
    scene.settle();
    assert!(scene.gets(&mut other, FIRST));
    assert!(scene.gets(&mut lazy, HELLO + READS * (16 + (1 << 20))));
    assert_eq!(scene.drive.seen.len(), READS + 1);
}

#[test]
fn nonsense_and_slow_clients_disturb_nobody() {
    let mut scene = Scene::new(8);
    let (mut slow, mut mad) = (scene.begin(), scene.begin());
    for (turn, byte) in read_request(512).into_iter().enumerate() {
        slow.write_all(&[byte]).unwrap();
        if turn == 9 {
            mad.write_all(&[0xee; 100]).unwrap();
        }
        scene.round();
    }
    assert!(scene.ends(&mut mad));
    assert!(scene.gets(&mut slow, FIRST));
    assert_eq!(scene.drive.seen.len(), 1);
}

#[test]
fn a_disconnect_is_answered_to_the_end() {
    let mut scene = Scene::new(1);
    let mut client = scene.begin_with(&[read_request(4096), request(2, 0, 0, 0)].concat());
    scene.settle_unanswered();
    assert_eq!(scene.receive(&mut client, 10_000).len(), HELLO + 16 + 4096);
    drop(client);
    scene.settle();
    assert_eq!(scene.server.connections(), 0);
}

#[test]
fn a_host_that_breaks_the_rules_is_told_why() {
    let mut scene = Scene::over(transport::open(0, "nvme-tcp:127.0.0.1:0").unwrap(), 1 << 20);
    let mut client = TcpStream::connect(scene.at).unwrap();
    client.write_all(&[&host::initialize(0, 0)[..], &[0xee; 4096]].concat()).unwrap();
    let all = scene.receive(&mut client, 1000);
    assert_eq!(host::end_of(&host::units(&all)), (1, 0));
}

#[test]
fn nothing_follows_a_request_to_end_the_connection() {
    let mut scene = Scene::new(1);
    let mut client = scene.begin_with(&read_request(4096));
    scene.settle_unanswered();
    client.write_all(&[0xee; 28]).unwrap();
    scene.settle_unanswered();
    assert_eq!(scene.receive(&mut client, 10_000).len(), HELLO);
}

#[test]
fn a_drive_that_sleeps_is_woken_by_all_that_concerns_it() {
    const READS: usize = 64;
    let mut scene = Scene::new(1);
    let done = Arc::new(AtomicBool::new(false));
    let (is_done, mut client) = (done.clone(), scene.begin());
    let reader = std::thread::spawn(move || {
        client.write_all(&read_request(1 << 20).repeat(READS)).unwrap();
        client.read_exact(&mut vec![0; HELLO + READS * (16 + (1 << 20))]).unwrap();
        is_done.store(true, Ordering::SeqCst); // before the connection ends, which wakes the drive
    });
    let mut descriptors = Vec::new();
    scene.server.descriptors(&mut descriptors);
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&descriptors[0]);
    let (mut sleeps, mut in_vain) = (0, 0);
    while !done.load(Ordering::SeqCst) {
        while scene.round() {}
        sleeps += 1;
        assert!(sleeps < 100_000, "it is woken for nothing");
        // Nothing comes while the reader is held up, or when the end of its connection was handled already.
        in_vain += u32::from(!is_woken(descriptor) && scene.round());
    }
    reader.join().unwrap();
    assert_eq!(in_vain, 0); // it slept for as long as it could
}

/// Sleeps until a descriptor is readable, for at most two seconds. Returns false if it is not.
#[allow(unsafe_code)]
fn is_woken(descriptor: std::os::fd::RawFd) -> bool {
    let mut waits = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor is described, and it is open while its server lives.
    unsafe { libc::poll(&raw mut waits, 1, 2_000) != 0 }
}

#[test]
fn both_transports_measure_their_floor_and_leave() {
    for (name, slow) in [("nbd", false), ("nbd", true), ("nvme-tcp", true)] {
        let mut scene = Scene::over(transport::open(0, &format!("{name}:127.0.0.1:0")).unwrap(), 1 << 20);
        scene.drive.keeps = false;
        let mut probe = scene.server.probe().unwrap();
        let client = std::thread::spawn(move || probe(100, slow));
        scene.round_until(|_| client.is_finished());
        assert!(!client.join().unwrap().unwrap().is_empty(), "{name}");
        scene.round_until(|scene| scene.server.connections() == 0);
    }
}

#[test]
fn many_clients_at_once_read_what_they_wrote() {
    let served = Served::start("nbd:tcp:127.0.0.1:0", Memory::forgetful(16 << 20, 512));
    let to = served.endpoint();
    read_what_they_wrote(8, |number| Client::connect(&to, "", number % 2 == 0, Waiting::Sleeps).unwrap());
}

/// A client that sends all of this when it can, in a thread of its own; dropped when told to.
fn sends(mut client: TcpStream, bytes: Vec<u8>) -> JoinHandle<TcpStream> {
    std::thread::spawn(move || {
        client.write_all(&bytes).unwrap();
        client
    })
}

/// The length of a message that takes all memory for messages.
const LENGTH: usize = 4 << 20;

fn long_write(value: u8) -> Vec<u8> {
    [request(1, 0, 0, LENGTH as u32), vec![value; LENGTH]].concat()
}

/// Enough memory for one such message at a time.
fn scene_of_long_writes(connections: usize) -> Scene {
    let mut scene = Scene::of(connections, LENGTH as u64);
    scene.server.share_memory(&SharedMemory::new(LENGTH as u64));
    scene
}

#[test]
fn long_messages_share_a_bounded_memory_and_all_of_them_are_taken_in_the_end() {
    let mut scene = scene_of_long_writes(20);
    let clients: Vec<_> = (0..12).map(|number| sends(scene.begin(), long_write(number))).collect();
    scene.round_until(|_| clients.iter().all(JoinHandle::is_finished));
    for client in clients {
        assert!(scene.gets(&mut client.join().unwrap(), HELLO + 16));
    }
}

#[test]
fn who_keeps_memory_and_sends_nothing_makes_room_for_those_who_wait() {
    let mut scene = scene_of_long_writes(4);
    let mut keeper = scene.begin();
    // Half of a message, and no more.
    let sent = sends(keeper.try_clone().unwrap(), long_write(1)[..LENGTH / 2].to_vec());
    scene.round_until(|_| sent.is_finished());
    scene.settle();
    // A small request is answered meanwhile.
    let mut other = scene.begin_with(&read_request(512));
    assert!(scene.gets(&mut other, FIRST));
    assert!(is_open(&mut keeper));
    other.set_nonblocking(false).unwrap();
    let waits = sends(other, long_write(2));
    scene.round_until(|_| waits.is_finished());
    assert!(scene.gets(&mut waits.join().unwrap(), 16));
    assert!(scene.ends(&mut keeper));
}
