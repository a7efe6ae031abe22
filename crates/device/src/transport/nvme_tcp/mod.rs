//! NVMe over TCP: a subsystem with the drive's namespaces, and the discovery service beside it.
//!
//! Sources: NVM Express Base Specification 2.0, NVMe over Fabrics 1.1, NVMe/TCP Transport Specification
//! 1.0; [`nvme`](super::nvme) has the commands. Every host gets a controller of its own; a controller's
//! queues are connections. Deliberately absent: authentication, TLS, metadata, reservations, asymmetric access, and
//! everything about PRPs.

mod fabrics;
mod link;
pub(crate) mod pdu;
mod session;
mod transfer;

use std::io::{Error, ErrorKind};
use std::time::{Duration, Instant};

pub use session::Session;

use super::Probe;
use super::nvme::controller::Controller;
pub use super::nvme::{DISCOVERY_NAME, MAX_TRANSFER_BYTES, NameError, Subsystem, USUAL_CONNECTIONS};
use super::socket::{End, Endpoint, ListenError, Output, Protocol, Received, Server, SharedMemory, Then};
use crate::client::nvme_tcp::{Settings, connect};
use crate::client::{Waiting, overhead};
use crate::command::{Answer, Drive};
use pdu::Digests;
use session::{ConnectedQueue, MAX_ANSWERS_BYTES, Out};

/// How long a host may take from its connection to its Connect command.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Serves a drive by NVMe over TCP. `transport` is the number that its commands carry.
pub fn serve(subsystem: Subsystem, transport: u32, at: &Endpoint) -> Result<Server<NvmeTcp>, ListenError> {
    if let Endpoint::Unix(_) = at {
        let source = Error::new(ErrorKind::InvalidInput, "NVMe over TCP needs ADDRESS:PORT, such as 127.0.0.1:4420");
        return Err(ListenError::Failed { endpoint: at.clone(), source });
    }
    let limit = subsystem.connections;
    Server::bind(NvmeTcp::new(subsystem), transport, at, limit)
}

#[derive(Debug)]
pub struct NvmeTcp {
    subsystem: Subsystem,
    /// By their numbers, less one.
    controllers: Vec<Option<Controller>>,
    attention: bool,
}

impl NvmeTcp {
    pub fn new(subsystem: Subsystem) -> Self {
        let controllers = (0..subsystem.controllers).map(|_| None).collect();
        Self { subsystem, controllers, attention: false }
    }
}

/// The controller of that number, where it is there still.
fn numbered(controllers: &mut [Option<Controller>], id: u16) -> Option<&mut Controller> {
    controllers.get_mut(usize::from(id).checked_sub(1)?)?.as_mut()
}

impl Protocol for NvmeTcp {
    type Session = Session;

    fn name(&self) -> &'static str {
        "nvme-tcp"
    }

    fn address(&self, at: &Endpoint) -> String {
        at.to_string()
    }

    fn nqn(&self) -> Option<String> {
        Some(self.subsystem.name.clone())
    }

    fn bound(&mut self, at: &Endpoint) {
        if let Endpoint::Tcp(address) = at {
            self.subsystem.listens(*address);
        }
    }

    fn open(&mut self, transport: u32, queue: u32, now: Instant, memory: &SharedMemory, _out: &mut Vec<u8>) -> Session {
        Session::new(transport, queue, now, memory.clone())
    }

    fn received(&mut self, session: &mut Session, bytes: &[u8], out: &mut Vec<u8>, drive: &mut dyn Drive) -> Received {
        let mut consumed = 0;
        let then = loop {
            let rest = &bytes[consumed..];
            let digests = session.link.map_or_else(Digests::default, |link| link.digests);
            let is_busy = |queue: &ConnectedQueue| queue.table.is_full() || queue.transfers.copies_are_full();
            let is_full = || out.len() > MAX_ANSWERS_BYTES || session.queue.as_ref().is_some_and(is_busy);
            let taken = match pdu::frame(rest, digests) {
                Ok(Err(wants)) => break Then::Wants(wants),
                Ok(Ok(unit)) if unit.kind == pdu::kind::CAPSULE_CMD && is_full() => break Then::Blocked,
                Ok(Ok(unit)) => self.take(session, &unit, out, drive).map(|()| unit.bytes),
                Err(fatal) => Err(Some(fatal)),
            };
            match taken {
                Ok(bytes) => consumed += bytes,
                Err(None) => break Then::Ends(End::Now),
                Err(Some(fatal)) => {
                    let header = rest.get(2).map_or(0, |bytes| usize::from(*bytes)).max(pdu::COMMON_BYTES);
                    pdu::terminate(fatal, &rest[..header.min(rest.len())], out);
                    break Then::Ends(End::Now);
                }
            }
        };
        Received { consumed, then }
    }

    fn answer(&mut self, session: &mut Session, answer: Answer, out: &mut Output, drive: &dyn Drive) {
        if let Some(mut queue) = self.queue(session, Out::WithContent(out)) {
            queue.answer(&answer, drive);
            queue.port.ask();
        }
    }

    fn dropped(&mut self, session: &mut Session, answer: Answer) {
        if let Some(queue) = &mut session.queue {
            queue.table.answered(&answer);
        }
    }

    fn in_flight(&self, session: &Session) -> usize {
        session.queue.as_ref().map_or(0, |queue| queue.table.in_flight)
    }

    fn holds_memory(&self, session: &Session) -> bool {
        session.queue.as_ref().is_some_and(|queue| queue.transfers.memory.held_bytes() > 0)
    }

    fn memory_freed(&mut self, session: &mut Session, out: &mut Vec<u8>) {
        if let (Some(queue), Some(link)) = (&mut session.queue, &session.link) {
            queue.transfers.ask(link, out);
        }
    }

    fn tick(&mut self, session: &mut Session, now: Instant, out: &mut Vec<u8>, drive: &dyn Drive) -> Option<End> {
        if session.queue.is_none() || session.link.is_none() {
            return (now.duration_since(session.opened) > CONNECT_TIME).then_some(End::Now);
        }
        let Some(mut queue) = self.queue(session, Out::Bytes(out)) else {
            return Some(End::Now);
        };
        let mut attention = false;
        if queue.table.id == 0 {
            attention = queue.controller.is_silent(now) && !queue.controller.is_over;
            queue.controller.is_over |= attention;
            queue.controller.look(drive);
            queue.tell();
        }
        let is_over = queue.controller.is_over;
        self.attention |= attention;
        is_over.then_some(End::Now)
    }

    fn attention(&mut self) -> bool {
        std::mem::take(&mut self.attention)
    }

    fn closed(&mut self, session: &mut Session) {
        let Some(queue) = &mut session.queue else {
            return;
        };
        queue.transfers.clear();
        let Some(controller) = numbered(&mut self.controllers, queue.controller) else {
            return;
        };
        controller.connections -= 1;
        if queue.table.id == 0 {
            controller.is_over = true;
            self.attention = true;
        } else {
            controller.queues[usize::from(queue.table.id)] = None;
        }
        if controller.connections == 0 {
            self.controllers[usize::from(queue.controller) - 1] = None;
        }
    }

    fn probe(&self, at: &Endpoint) -> Option<Probe> {
        let (at, name, mut settings) = (at.clone(), self.subsystem.name.clone(), Settings::default());
        if let Some(host) = self.subsystem.hosts.first() {
            settings.host.clone_from(host);
        }
        Some(Box::new(move |for_ms: u64, slow: bool| {
            settings.waiting = Waiting::of_most(slow);
            let (_admin, mut queue) = connect(&at, &name, &settings)?;
            overhead(&mut queue, for_ms)
        }))
    }
}
