//! NBD with TLS: which clients it accepts, which it refuses, and what becomes of those that break the protocol.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::certificates::{Authority, write_key};
use crate::host::nbd::FLAGS;
use crate::memory_drive::{Clients, Memory, Served};
use crate::served::{read_of, read_what_they_wrote, write_of};
use ioassay_device::client::nbd::Client;
use ioassay_device::client::{Initiator, Request, Waiting};
use ioassay_device::transport::memory_bytes;
use ioassay_device::transport::nbd::{Certificates, Export, Nbd};
use ioassay_device::transport::socket::{End, Then};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rustls::ClientConfig;

const TLS_REQUIRED: u32 = 0x8000_0005;

struct Scene {
    served: Served,
    authority: Authority,
}

fn scene() -> Scene {
    scene_with(|_, _| ())
}

/// With more in the server's folder.
fn scene_with(prepare: impl FnOnce(&Authority, &Path)) -> Scene {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.write(folder.path());
    prepare(&authority, folder.path());
    let served = Served::start_in(folder, "nbd:unix:FOLDER/drive.sock,tls=FOLDER", Memory::forgetful(64 << 20, 512));
    assert!(served.address.starts_with("nbds+unix:///?socket="));
    Scene { served, authority }
}

impl Scene {
    fn connect(&self, tls: Arc<ClientConfig>) -> std::io::Result<Client> {
        Client::connect_with(&self.served.endpoint(), "", true, Waiting::Sleeps, Some(tls))
    }

    fn known(&self) -> Client {
        self.connect(self.authority.client(Some(&self.authority.sign(ClientAuth, 1)))).unwrap()
    }

    /// A client without TLS, after the greeting, with these options sent.
    fn plain(&self, options: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(self.served.folder.path().join("drive.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&[&FLAGS, options].concat()).unwrap();
        stream
    }

    /// A client that was told to begin with TLS.
    fn before_tls(&self) -> UnixStream {
        let mut stream = self.plain(&option(5));
        assert_eq!(answer(&mut stream), (5, 1));
        stream
    }
}

fn option(kind: u32) -> Vec<u8> {
    crate::host::nbd::option(kind, &[])
}

/// The option that is answered, and how.
fn answer(stream: &mut UnixStream) -> (u32, u32) {
    let mut head = [0; 20];
    stream.read_exact(&mut head).unwrap();
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
    let mut data = vec![0; number(16) as usize];
    stream.read_exact(&mut data).unwrap();
    (number(8), number(12))
}

/// Until the drive lets go of a client.
fn until_over(mut stream: UnixStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_client_with_a_certificate_of_the_authority_reads_what_it_wrote() {
    let scene = scene();
    let mut client = scene.known();
    let data: Vec<u8> = (0..24u32 << 20).map(|at| (at >> 7) as u8).collect();
    client.call(write_of(4096, &data, false)).unwrap();
    assert!(client.call(read_of(4096, data.len() as u32)).unwrap() == data);
    // Many answers at once, which neither side's buffers hold.
    for tag in 0..64 {
        client.submit(tag, read_of(u64::from(tag) << 18, 1 << 20));
    }
    client.push().unwrap();
    let mut left = 64;
    while left > 0 {
        left -= client.reap(&mut |done| assert_eq!((done.error, done.data.len()), (0, 1 << 20))).unwrap();
    }
}

#[test]
fn many_clients_at_once_read_what_they_wrote() {
    let scene = scene();
    read_what_they_wrote(8, |_| scene.known());
}

#[test]
fn a_client_without_a_certificate_of_the_authority_is_refused_and_others_are_served() {
    let scene = scene();
    let mut known = scene.known();
    let other = Authority::new().sign(ClientAuth, 1);
    let server = scene.authority.sign(ServerAuth, 1);
    for identity in [None, Some(&other), Some(&server)] {
        assert!(scene.connect(scene.authority.client(identity)).is_err());
    }
    known.call(Request::Flush).unwrap();
}

#[test]
fn a_client_whose_certificate_was_revoked_is_refused() {
    let mut scene = scene_with(|authority, folder| {
        fs::write(folder.join("ca-crl.pem"), authority.revoke(7)).unwrap();
    });
    let connects = |serial| scene.connect(scene.authority.client(Some(&scene.authority.sign(ClientAuth, serial))));
    connects(8).unwrap().call(Request::Flush).unwrap();
    assert!(connects(7).is_err());
    assert!(!scene.served.probe.take().unwrap()(10, true).unwrap().is_empty());
}

#[test]
fn without_tls_nothing_is_told_but_that_it_is_needed() {
    let scene = scene();
    for kind in [3, 6, 7, 8, 9, 10, 11, 77] {
        let mut stream = scene.plain(&option(kind));
        assert_eq!(answer(&mut stream), (kind, TLS_REQUIRED));
        stream.write_all(&option(2)).unwrap();
        assert_eq!(answer(&mut stream), (2, 1), "it may leave");
        until_over(stream);
    }
    until_over(scene.plain(&option(1)));
    let error = Client::connect(&scene.served.endpoint(), "", false, Waiting::Sleeps).unwrap_err();
    assert!(error.to_string().contains("0x80000005"), "{error}");
}

#[test]
fn what_is_no_handshake_ends_that_connection_and_no_other() {
    let scene = scene();
    let mut known = scene.known();
    let hello = [22, 3, 1, 0x40, 0];
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &vec![0xff; 70_000],
        &[0; 5],
        &[hello.as_slice(), &[1; 1 << 14]].concat(),
        &option(7),
    ] {
        let mut stream = scene.before_tls();
        let _ = stream.write_all(bytes);
        until_over(stream);
        known.call(Request::Flush).unwrap();
    }
    // Half of a handshake, and then nothing more.
    let mut stream = scene.before_tls();
    stream.write_all(&hello).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    until_over(stream);
    known.call(Request::Flush).unwrap();
}

#[test]
fn what_comes_in_the_clear_behind_the_request_for_tls_is_not_obeyed() {
    let scene = scene();
    let mut stream = scene.plain(&[option(5), option(3)].concat());
    assert_eq!(answer(&mut stream), (5, 1));
    until_over(stream);
}

#[test]
fn a_handshake_that_lasts_is_ended_as_any_negotiation() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new().write(folder.path());
    let certificates = Some(Certificates::read(folder.path()).unwrap());
    let mut talk = Clients::of(Nbd::new(Export { certificates, ..Export::default() }), Memory::new(1 << 20, 512));
    talk.accept();
    assert_eq!(talk.send(&[&FLAGS[..], &option(5)].concat()), Then::Encrypts);
    assert!(talk.all[0].unread.is_empty());
    assert_eq!([9, 11].map(|seconds| talk.pass(0, Duration::from_secs(seconds))), [None, Some(End::Now)]);
    // A second time, which only a client within the encryption could ask for.
    talk.output(0);
    assert_eq!(talk.ask(&option(5))[12..16], 0x8000_0003u32.to_be_bytes());
}

#[test]
fn a_folder_that_cannot_be_used_is_told_with_the_file() {
    let scene = scene();
    let folder = scene.served.folder.path();
    let refused = |said: &str| {
        let error = Certificates::read(folder).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    };
    let key = fs::read_to_string(folder.join("server-key.pem")).unwrap();
    let other = scene.authority.sign(ServerAuth, 1).key;
    for (key, mode, said) in [
        (&key[..], 0o640, "server-key.pem may be read by other users (mode 0640)"),
        (&key, 0o640, "expected a private file: chmod 600"),
        (&other, 0o600, "server-key.pem holds another key, expected the key of server-cert.pem"),
        ("no key", 0o600, "server-key.pem holds"),
    ] {
        write_key(folder, key, mode);
        refused(said);
    }
    write_key(folder, &key, 0o600);
    Certificates::read(folder).unwrap();
    fs::write(folder.join("ca-crl.pem"), "no list").unwrap();
    refused("ca-crl.pem holds no list of revoked certificates");
    fs::remove_file(folder.join("ca-crl.pem")).unwrap();
    fs::write(folder.join("ca-cert.pem"), "").unwrap();
    refused("ca-cert.pem holds no certificate, expected certificates in PEM");
    fs::remove_file(folder.join("server-cert.pem")).unwrap();
    fs::write(folder.join("ca-cert.pem"), &scene.authority.pem).unwrap();
    refused("server-cert.pem: No such file or directory (os error 2); expected a folder with");
}

#[test]
fn memory_for_tls_is_counted() {
    let of = |text: &str| memory_bytes(&[text.to_owned()]);
    let (plain, tls) = (of("nbd:unix:a.sock"), of("nbd:unix:a.sock,tls=folder"));
    assert_eq!(tls - plain, 64 * (256 << 10));
}
