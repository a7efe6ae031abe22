//! DH-HMAC-CHAP over NVMe/TCP: who knows a secret is served, and who does not gets nothing.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::host::{ENABLED, Entry, authentication, completed, configure, connect as connection};
use crate::host::{connect_data, negotiate, status_of};
use crate::memory_drive::{EmulatedDrive, Memory};
use crate::nvme_tcp::serve as serve_memory;
use crate::scene::{HOST, NAME, Scene};
use crate::served::{read_of, write_of};
use ioassay_device::client::nvme_tcp::{Admin, Credentials, Settings, Unauthenticated, connect};
use ioassay_device::client::{Initiator, Refused, Request};
use ioassay_device::transport::Transport;
use ioassay_device::transport::nvme_tcp::{
    self, DISCOVERY_NAME, Entropy, GROUPS, Group, HASHES, Hash, HostSecrets, NvmeTcp, Secret, Secrets, Subsystem,
};
use ioassay_device::transport::socket::{End, Endpoint, Then};

const OTHER: &str = "nqn.2016-06.io.example:other";

const REQUIRED: u16 = 0x4191;
const UNKNOWN: Option<Unauthenticated> = Some(Unauthenticated::Host { explanation: 1 });

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
    serve_memory(subsystem(hosts), Memory::new(1 << 20, 512))
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
            queue.call(write_of(0, &[7; 4096], false)).unwrap();
            assert_eq!(queue.call(read_of(0, 4096)).unwrap(), [7; 4096]);
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
        assert_eq!(reason(&error), UNKNOWN);
    }
    let error = Admin::connect(&at, NAME, &knows(SECRETS[0], Some(SECRETS[2]))).unwrap_err();
    assert_eq!(reason(&error), Some(Unauthenticated::Controller));
    known.call(Request::Flush).unwrap();
}

#[test]
fn a_host_that_wants_the_controllers_secret_is_refused_where_there_is_none() {
    let (_served, at) = serve(&format!("{HOST} {}", SECRETS[0]));
    let error = Admin::connect(&at, NAME, &knows(SECRETS[0], Some(SECRETS[1]))).unwrap_err();
    assert_eq!(reason(&error), UNKNOWN);
}

#[test]
fn a_host_without_a_line_is_refused_and_the_discovery_service_is_open_to_those_with_one() {
    let (_served, at) = serve(&format!("{HOST} {}", SECRETS[0]));
    let refused = |settings: &Settings| {
        let error = Admin::connect(&at, NAME, settings).unwrap_err();
        let inner = error.get_ref().unwrap().downcast_ref::<Refused>();
        inner.map(|refused| refused.error)
    };
    assert_eq!(refused(&Settings::default()), Some(0x4184)); // Connect Invalid Host
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
    let wanted = format!("host {OTHER} has no secret in hosts");
    assert_eq!(error.to_string(), wanted);
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

/// A host with a connected admin queue, which has yet to authenticate itself.
struct Talk(Scene);

impl Talk {
    fn new() -> Self {
        let hosts = subsystem(&format!("{HOST} {}", SECRETS[0]));
        let nvme = NvmeTcp::with_entropy(hosts, Box::new(Counted(0)));
        let mut scene = Scene::of(nvme, Memory::new(1 << 20, 512));
        scene.open();
        let data = connect_data(0xffff, NAME, HOST);
        let connected = scene.ask_with(0, connection(0, 32, 0), &data);
        assert_eq!(connected, (0, 1 | (1 << 17))); // the controller, and ATR
        Self(scene)
    }

    fn send(&mut self, message: &[u8]) -> (u16, Then) {
        let length = message.len() as u32;
        let entry = authentication(5, length).pointer(0x01, 0, length);
        let (status, _) = self.0.ask_with(0, entry, message);
        (status, self.0.then)
    }

    fn receive(&mut self, room: u32) -> (Result<Vec<u8>, u16>, Then) {
        let entry = authentication(6, room).pointer(0x5a, 0, room);
        let message = self.0.fetch(0, &entry);
        (message, self.0.then)
    }

    /// The explanation of a failure, which ends the connection.
    fn failure(&mut self) -> u8 {
        let (failure, then) = self.receive(8);
        let failure = failure.unwrap();
        assert_eq!((&failure[..2], failure[6]), (&[1, 0xf1][..], 1));
        assert_eq!(then, Then::Ends(End::Now));
        failure[7]
    }

    fn is_late(&mut self, seconds: u64) -> Option<End> {
        self.0.tick(0, Duration::from_secs(seconds)).0
    }
}

#[test]
fn a_queue_takes_nothing_else_before() {
    let mut talk = Talk::new();
    let others = [(6, 3), (0x18, 4), (0x0c, 5)].map(|(opcode, id)| Entry::new(opcode, id));
    for entry in [configure(ENABLED)].into_iter().chain(others) {
        assert_eq!(status_of(&talk.0.send(0, &entry.alone())), REQUIRED);
        assert!(matches!(talk.0.then, Then::Wants(_)));
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
    let [concatenated, other_protocol, too_many] = [(6, 1), (8, 2), (10, 31)].map(|(at, value)| {
        let mut message = negotiate(&[1], &[0]);
        message[at] = value;
        message
    });
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
        assert_eq!(talk.failure(), explanation);
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
        assert_eq!(talk.failure(), explanation, "{message:?}");
    }
}

#[test]
fn commands_that_cannot_be_are_refused_and_a_host_that_gives_up_is_let_go() {
    let mut talk = Talk::new();
    for entry in [
        authentication(5, 0),
        authentication(5, 4097).pointer(0x5a, 0, 4097),
        authentication(5, 72).word(10, 0xe902_0100).pointer(0x01, 0, 72),
    ] {
        let (_, status, _) = completed(&talk.0.send(0, &entry.capsule(&[0; 72], (false, false))));
        assert!(status & 0xff != 0, "{status:#x}");
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
