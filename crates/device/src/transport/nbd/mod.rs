//! The Network Block Device protocol, as the NBD project's own document describes it: fixed
//! newstyle negotiation, structured and simple replies, and all commands but the one that resizes.
//!
//! With certificates everything is encrypted, and clients have to show theirs. It leaves out resizing and extended
//! headers: it refuses both as the document asks.

mod certificates;
mod handshake;
mod session;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use certificates::{CertificateError, Certificates};
use handshake::{Encryption, Handshake};
use rustls::ServerConfig;
use session::Transmission;

use super::Probe;
use super::socket::{End, Endpoint, ListenError, Output, Protocol, Received, Server, SharedMemory, Then};
use crate::client::nbd::Client;
use crate::client::{Waiting, overhead};
use crate::command::{Answer, Drive};
use crate::namespace::NamespaceDrive;

/// How long a client may negotiate.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Connections that are taken when nothing else is said.
pub const USUAL_CONNECTIONS: usize = 64;

/// How the drive is exported.
#[derive(Debug, Clone)]
pub struct Export {
    /// The name of the first namespace's export; the empty name always works too. The others have their
    /// numbers behind it: `drive-2`.
    pub name: String,
    pub connections: usize,
    /// With certificates it takes only clients that have one, and TLS. Without, it takes all, in the clear.
    pub certificates: Option<Certificates>,
}

impl Default for Export {
    fn default() -> Self {
        Self { name: "drive".to_owned(), connections: USUAL_CONNECTIONS, certificates: None }
    }
}

/// Serves a drive by NBD. `transport` is the number that its commands carry.
pub fn serve(export: Export, transport: u32, at: &Endpoint) -> Result<Server<Nbd>, ListenError> {
    let limit = export.connections;
    Server::bind(Nbd::new(export), transport, at, limit)
}

#[derive(Debug)]
pub struct Nbd {
    export: Export,
}

/// One connection.
#[derive(Debug)]
pub struct NbdSession {
    opened: Instant,
    /// Until the transmission begins.
    handshake: Option<Handshake>,
    transmission: Transmission,
}

impl Nbd {
    pub fn new(export: Export) -> Self {
        Self { export }
    }
}

impl Protocol for Nbd {
    type Session = NbdSession;

    fn name(&self) -> &'static str {
        "nbd"
    }

    fn address(&self, at: &Endpoint) -> String {
        let scheme = if self.export.certificates.is_some() { "nbds" } else { "nbd" };
        match at {
            Endpoint::Unix(path) => format!("{scheme}+unix:///?socket={}", escaped(&path.to_string_lossy())),
            Endpoint::Tcp(address) => format!("{scheme}://{address}"),
        }
    }

    fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.export.certificates.as_ref().map(|certificates| certificates.server.clone())
    }

    fn open(
        &mut self,
        transport: u32,
        queue: u32,
        now: Instant,
        _memory: &SharedMemory,
        out: &mut Vec<u8>,
    ) -> NbdSession {
        let encrypts = self.export.certificates.is_some();
        let encryption = if encrypts { Encryption::Required } else { Encryption::None };
        let handshake = Some(Handshake::new(encryption, out));
        NbdSession { opened: now, handshake, transmission: Transmission::new(transport, queue) }
    }

    fn received(
        &mut self,
        session: &mut NbdSession,
        bytes: &[u8],
        out: &mut Vec<u8>,
        drive: &mut dyn Drive,
    ) -> Received {
        let NbdSession { handshake, transmission, .. } = session;
        let mut negotiated = 0;
        if let Some(negotiates) = handshake {
            let (received, agreement) = negotiates.received(bytes, out, &self.export.name, drive);
            let Some(agreement) = agreement else { return received };
            (negotiated, transmission.agreement, *handshake) = (received.consumed, agreement, None);
        }
        let Some(mut namespace) = NamespaceDrive::new(drive, transmission.agreement.namespace) else {
            return Received { consumed: negotiated, then: Then::Ends(End::Now) }; // it was there when it was agreed on
        };
        let received = transmission.received(&bytes[negotiated..], out, &mut namespace);
        Received { consumed: negotiated + received.consumed, ..received }
    }

    fn answer(&mut self, session: &mut NbdSession, answer: Answer, out: &mut Output, drive: &dyn Drive) {
        session.transmission.answer(answer, out, drive);
    }

    fn dropped(&mut self, session: &mut NbdSession, answer: Answer) {
        session.transmission.dropped(answer);
    }

    fn in_flight(&self, session: &NbdSession) -> usize {
        session.transmission.in_flight
    }

    fn tick(&mut self, session: &mut NbdSession, now: Instant, _out: &mut Vec<u8>, _drive: &dyn Drive) -> Option<End> {
        let late = now.duration_since(session.opened) > HANDSHAKE_TIME;
        (late && session.handshake.is_some()).then_some(End::Now)
    }

    fn probe(&self, at: &Endpoint) -> Option<Probe> {
        let (at, tls) = (at.clone(), self.export.certificates.as_ref().map(|of| of.probe.clone()));
        Some(Box::new(move |for_ms: u64, slow: bool| {
            overhead(&mut Client::connect_with(&at, "", true, Waiting::of_most(slow), tls.clone())?, for_ms)
        }))
    }
}

/// A path as a URI's query holds it (RFC 3986, section 3.4).
fn escaped(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let escape = |byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(escape).collect()
}
