//! DH-HMAC-CHAP over NVMe/TCP: who knows a secret is served, and who does not gets nothing.

use crate::host;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::host::{ENABLED, Entry, Said, said, status_of};
use crate::memory_drive::{EmulatedDrive, Memory};
use crate::served::{read_of, write_of};
use ioassay_device::client::nvme_tcp::{Admin, Credentials, Settings, Unauthenticated, connect};
use ioassay_device::client::{Initiator, Refused, Request};
use ioassay_device::transport::Transport;
use ioassay_device::transport::nvme_tcp::{
    self, DISCOVERY_NAME, Entropy, GROUPS, Group, HASHES, Hash, HostSecrets, NvmeTcp, Secret,
    Secrets, Session, Subsystem,
};
use ioassay_device::transport::socket::{End, Endpoint, Protocol, SharedMemory, Then};

const NAME: &str = "nqn.2016-06.io.example:drive";
const HOST: &str = "nqn.2016-06.io.example:host";
const OTHER: &str = "nqn.2016-06.io.example:other";

const REQUIRED: u16 = 0x4191;

/// Of 32 bytes (the specification's example), 48 and 64, with the transformation that fits; and one that
/// is not transformed.
const SECRETS: [&str; 4] = [
    "DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
    "DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:",
    "DHHC-1:03:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P4zODhA=:",
    "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
];

fn subsystem(hosts: &str) -> Subsystem {
    let mut subsystem = Subsystem::new(NAME).unwrap();
    let secrets = Secrets::of(hosts, Path::new("hosts")).unwrap();
    subsystem.authenticate(secrets).unwrap();
    subsystem
}

fn serve(hosts: &str) -> (EmulatedDrive, Endpoint) {
    let at = "127.0.0.1:0".parse().unwrap();
    let transport = nvme_tcp::serve(subsystem(hosts), 0, &at).unwrap();
    let at = transport.address().parse().unwrap();
    (
        EmulatedDrive::start(transport, Memory::new(1 << 20, 512)),
        at,
    )
}

fn secret(text: &str) -> Secret {
    text.parse().unwrap()
}

fn knows(text: &str, controller: Option<&str>) -> Settings {
    let mut settings = Settings {
        credentials: Some(Credentials::new(HostSecrets {
            host: HOST.to_owned(),
            secret: secret(text),
            controller: controller.map(secret),
        })),
        ..Settings::default()
    };
    HOST.clone_into(&mut settings.host);
    settings
}

fn reason(error: &io::Error) -> Option<Unauthenticated> {
    error.get_ref()?.downcast_ref().copied()
}

#[test]
fn secrets_of_all_lengths_and_transformations_authenticate_both_sides() {
    for (at, of_host) in SECRETS.iter().enumerate() {
        let of_controller = SECRETS[(at + 1) % SECRETS.len()];
        let (_served, at) = serve(&format!("{HOST} {of_host} {of_controller}"));
        for controller in [None, Some(of_controller)] {
            let (_admin, mut queue) = connect(&at, NAME, &knows(of_host, controller)).unwrap();
            let data = vec![7; 4096];
            let (offset_bytes, length_bytes, fua) = (0, 4096, false);
            let write = write_of(offset_bytes, &data, fua);
            queue.call(write).unwrap();
            let read = read_of(offset_bytes, length_bytes);
            assert_eq!(queue.call(read).unwrap(), data);
        }
    }
}

#[test]
fn each_hash_and_each_group_that_a_host_has_alone_is_taken() {
    let (_served, at) = serve(&format!("{HOST} {} {}", SECRETS[1], SECRETS[2]));
    let mut settings = knows(SECRETS[1], Some(SECRETS[2]));
    let mut connects = |hashes: &[Hash], groups: &[Group]| {
        let credentials = settings.credentials.as_mut().unwrap();
        (credentials.hashes, credentials.groups) = (hashes.to_vec(), groups.to_vec());
        Admin::connect(&at, NAME, &settings).map(|_| ())
    };
    for hash in HASHES {
        connects(&[hash], &[Group::Null]).unwrap();
    }
    for group in GROUPS {
        connects(&HASHES, &[group]).unwrap();
    }
    let failed = |error: io::Error| reason(&error);
    let without = |explanation| Some(Unauthenticated::Host { explanation });
    assert_eq!(connects(&[], &GROUPS).map_err(failed), Err(without(4)));
    assert_eq!(connects(&HASHES, &[]).map_err(failed), Err(without(5)));
}

#[test]
fn a_wrong_secret_is_refused_on_either_side_and_others_are_served() {
    let (_served, at) = serve(&format!("{HOST} {} {}", SECRETS[0], SECRETS[1]));
    let (_admin, mut known) = connect(&at, NAME, &knows(SECRETS[0], None)).unwrap();
    // The same key without its transformation is another secret.
    for wrong in [SECRETS[1], SECRETS[3]] {
        let error = Admin::connect(&at, NAME, &knows(wrong, None)).unwrap_err();
        assert_eq!(
            reason(&error),
            Some(Unauthenticated::Host { explanation: 1 })
        );
    }
    let error = Admin::connect(&at, NAME, &knows(SECRETS[0], Some(SECRETS[2]))).unwrap_err();
    assert_eq!(reason(&error), Some(Unauthenticated::Controller));
    known.call(Request::Flush).unwrap();
}

#[test]
fn a_host_that_wants_the_controllers_secret_is_refused_where_there_is_none() {
    let (_served, at) = serve(&format!("{HOST} {}", SECRETS[0]));
    let error = Admin::connect(&at, NAME, &knows(SECRETS[0], Some(SECRETS[1]))).unwrap_err();
    assert_eq!(
        reason(&error),
        Some(Unauthenticated::Host { explanation: 1 })
    );
}

#[test]
fn a_host_without_a_line_is_refused_and_the_discovery_service_is_open_to_those_with_one() {
    let (_served, at) = serve(&format!("{HOST} {}", SECRETS[0]));
    let refused = |settings: &Settings| {
        let error = Admin::connect(&at, NAME, settings).unwrap_err();
        let inner = error.get_ref().unwrap().downcast_ref::<Refused>();
        inner.map(|refused| refused.error)
    };
    assert_eq!(
        refused(&Settings::default()),
        Some(0x4184),
        "Connect Invalid Host"
    );
    for (host, entries) in [(HOST, 1), (OTHER, 0)] {
        let mut settings = Settings::default();
        host.clone_into(&mut settings.host);
        let mut admin = Admin::connect(&at, DISCOVERY_NAME, &settings).unwrap();
        admin.enable().unwrap();
        assert_eq!(admin.log(0x70, 0, 1024).unwrap()[8], entries);
    }
}

#[test]
fn names_that_are_allowed_need_a_secret() {
    let mut subsystem = Subsystem::new(NAME).unwrap();
    subsystem.allow(OTHER).unwrap();
    let text = format!("{HOST} {}", SECRETS[0]);
    let secrets = Secrets::of(&text, Path::new("hosts")).unwrap();
    let error = subsystem.authenticate(secrets).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("host {OTHER} has no secret in hosts")
    );
}

#[test]
fn the_servers_own_probe_knows_a_secret() {
    let at = "127.0.0.1:0".parse().unwrap();
    let hosts = format!("{HOST} {} {}", SECRETS[0], SECRETS[1]);
    let transport = nvme_tcp::serve(subsystem(&hosts), 0, &at).unwrap();
    let mut probe = transport.probe().unwrap();
    let _served = EmulatedDrive::start(transport, Memory::new(1 << 20, 512));
    assert!(!probe.run(10, true).unwrap().is_empty());
}

// Byte by byte

/// Numbers instead of randomness.
#[derive(Debug)]
struct Counted(u8);

impl Entropy for Counted {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        for byte in bytes {
            self.0 = self.0.wrapping_add(1);
            *byte = self.0;
        }
        Ok(())
    }
}

struct Talk {
    nvme: NvmeTcp,
    session: Session,
    drive: Memory,
    start: Instant,
}

impl Talk {
    /// With a connected admin queue.
    fn new() -> Self {
        let hosts = format!("{HOST} {}", SECRETS[0]);
        let mut nvme = NvmeTcp::with_entropy(subsystem(&hosts), Box::new(Counted(0)));
        let start = Instant::now();
        let session = nvme.open(0, 0, start, &SharedMemory::default(), &mut Vec::new());
        let mut talk = Self {
            nvme,
            session,
            drive: Memory::new(1 << 20, 512),
            start,
        };
        talk.ask(&host::initialize(0, 0));
        let data = host::connect_data(0xffff, NAME, HOST);
        let connect = host::connect(0, 32, 0).capsule(&data, (false, false));
        let (answers, _) = talk.ask(&connect);
        let [
            Said::Completed {
                status: 0, result, ..
            },
        ] = answers[..]
        else {
            panic!("{answers:?}")
        };
        assert_eq!(result, 1 | (1 << 17), "the controller, and ATR");
        talk
    }

    fn ask(&mut self, bytes: &[u8]) -> (Vec<Said>, Then) {
        let mut out = Vec::new();
        let received = self
            .nvme
            .received(&mut self.session, bytes, &mut out, &mut self.drive);
        let ends = matches!(received.then, Then::Ends(_));
        assert!(ends || received.consumed == bytes.len());
        (said(&out), received.then)
    }

    fn send(&mut self, message: &[u8]) -> (u16, Then) {
        let length = message.len() as u32;
        let entry = command(5, length).pointer(0x01, 0, length);
        let (answers, then) = self.ask(&entry.capsule(message, (false, false)));
        match answers[..] {
            [Said::Completed { status, .. }] => (status, then),
            _ => panic!("{answers:?}"),
        }
    }

    fn receive(&mut self, room: u32) -> (Result<Vec<u8>, u16>, Then) {
        let entry = command(6, room).pointer(0x5a, 0, room);
        let (answers, then) = self.ask(&entry.capsule(&[], (false, false)));
        match &answers[..] {
            [Said::Data { data, .. }, ..] => (Ok(data.clone()), then),
            [Said::Completed { status, .. }] => (Err(*status), then),
            _ => panic!("{answers:?}"),
        }
    }

    fn is_late(&mut self, seconds: u64) -> Option<End> {
        let now = self.start + Duration::from_secs(seconds);
        self.nvme
            .tick(&mut self.session, now, &mut Vec::new(), &self.drive)
    }
}

fn command(kind: u8, length: u32) -> Entry {
    let mut entry = Entry::new(0x7f, 9).word(10, 0xe901_0100).word(11, length);
    entry.0[4] = kind;
    entry
}

fn negotiate(hashes: &[u8], groups: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 72];
    (message[4], message[7], message[8]) = (0x34, 1, 1);
    (message[10], message[11]) = (hashes.len() as u8, groups.len() as u8);
    message[12..12 + hashes.len()].copy_from_slice(hashes);
    message[42..42 + groups.len()].copy_from_slice(groups);
    message
}

#[test]
fn a_queue_takes_nothing_else_before() {
    let mut talk = Talk::new();
    let property = host::configure(ENABLED);
    for entry in [
        property,
        Entry::new(6, 3),
        Entry::new(0x18, 4),
        Entry::new(0x0c, 5),
    ] {
        let (answers, then) = talk.ask(&entry.capsule(&[], (false, false)));
        assert_eq!(status_of(&answers), REQUIRED);
        assert!(matches!(then, Then::Wants(_)));
    }
}

#[test]
fn challenges_are_fresh_and_of_the_hash_that_was_agreed() {
    let mut talk = Talk::new();
    assert_eq!(talk.send(&negotiate(&[3, 2], &[0])).0, 0);
    let (challenge, _) = talk.receive(4096);
    let challenge = challenge.unwrap();
    assert_eq!(challenge.len(), 4096, "as much as the host asked for");
    assert_eq!(challenge[..12], [1, 1, 0, 0, 0x34, 0, 48, 0, 2, 0, 0, 0]);
    // Numbers of the injected randomness: the sequence number, and then the challenge.
    let drawn: Vec<u8> = (1..=52).collect();
    assert_eq!(challenge[12..64], drawn);
    assert!(challenge[64..].iter().all(|byte| *byte == 0));
}

#[test]
fn what_is_wrong_is_told_when_the_host_asks_and_ends_the_connection() {
    let mut concatenated = negotiate(&[1], &[0]);
    concatenated[6] = 1;
    let mut other_protocol = negotiate(&[1], &[0]);
    other_protocol[8] = 2;
    let mut too_many = negotiate(&[1], &[0]);
    too_many[10] = 31;
    let mut success2 = vec![0; 16];
    (success2[0], success2[1]) = (1, 4);
    for (message, explanation) in [
        (concatenated, 3),
        (other_protocol, 2),
        (too_many, 6),
        (negotiate(&[9], &[0]), 4),
        (negotiate(&[1], &[77]), 5),
        (negotiate(&[1], &[0])[..71].to_vec(), 6),
        (vec![0; 3], 6),
        (success2, 7),
        (vec![0xff; 4096], 7),
    ] {
        let mut talk = Talk::new();
        assert_eq!(talk.send(&message).0, 0);
        let (failure, then) = talk.receive(8);
        let failure = failure.unwrap();
        assert_eq!(
            (&failure[..2], &failure[6..]),
            (&[1, 0xf1][..], &[1, explanation][..])
        );
        assert_eq!(then, Then::Ends(End::Now));
    }
}

#[test]
fn a_reply_that_does_not_fit_is_refused() {
    let reply = |response: usize, public: u16, transaction: u8, id: u8| {
        let mut message = vec![0; 16 + 2 * response + usize::from(public)];
        (message[0], message[1], message[4]) = (1, id, transaction);
        message[6] = response as u8;
        message[10..12].copy_from_slice(&public.to_le_bytes());
        message
    };
    for (message, explanation) in [
        (reply(32, 0, 0x34, 2), 1),
        (reply(32, 0, 0x35, 2), 6),
        (reply(48, 0, 0x34, 2), 6),
        (reply(0, 0, 0x34, 2), 6),
        (reply(32, 256, 0x34, 2), 6),
        (reply(32, 0, 0x34, 2)[..79].to_vec(), 6),
        (reply(32, 0, 0x34, 4), 7),
        (negotiate(&[1], &[0]), 7),
    ] {
        let mut talk = Talk::new();
        talk.send(&negotiate(&[1], &[0]));
        talk.receive(4096).0.unwrap();
        assert_eq!(talk.send(&message).0, 0);
        let (failure, then) = talk.receive(8);
        assert_eq!(failure.unwrap()[6..], [1, explanation], "{message:?}");
        assert_eq!(then, Then::Ends(End::Now));
    }
}

#[test]
fn commands_that_cannot_be_are_refused_and_a_host_that_gives_up_is_let_go() {
    let mut talk = Talk::new();
    for entry in [
        command(5, 0),
        command(5, 4097).pointer(0x5a, 0, 4097),
        command(5, 72).word(10, 0xe902_0100).pointer(0x01, 0, 72),
    ] {
        let (answers, _) = talk.ask(&entry.capsule(&[0; 72], (false, false)));
        assert!(
            matches!(answers[..], [Said::Completed { status, .. }] if status & 0xff != 0),
            "{answers:?}"
        );
    }
    talk.send(&negotiate(&[1], &[1]));
    let (refused, then) = talk.receive(64);
    assert_eq!(refused, Err(0x4002), "no room for a challenge");
    assert_eq!(then, Then::Ends(End::Now));
    let failure2 = [1, 0xf0, 0, 0, 0, 0, 1, 1];
    assert_eq!(Talk::new().send(&failure2), (0, Then::Ends(End::Now)));
}

#[test]
fn a_host_that_does_not_authenticate_itself_is_let_go() {
    let mut talk = Talk::new();
    assert_eq!(talk.is_late(9), None);
    assert_eq!(talk.is_late(11), Some(End::Now));
    let mut talk = Talk::new();
    talk.send(&negotiate(&[1], &[0]));
    assert_eq!(talk.is_late(9), None);
    talk.receive(4096).0.unwrap();
    assert_eq!(talk.is_late(11), Some(End::Now));
}
