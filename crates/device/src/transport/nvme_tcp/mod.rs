//! NVMe over TCP: a subsystem with the drive's namespaces, and the discovery service beside it.
//!
//! Sources: NVM Express Base Specification 2.0, NVMe over Fabrics 1.1, NVMe/TCP Transport Specification
//! 1.0; [`nvme`](super::nvme) has the commands. Every host gets a controller of its own; a controller's
//! queues are connections. Deliberately absent: authentication, TLS, metadata, reservations, asymmetric access, and
//! everything about PRPs.

mod admin;
mod command_data;
pub(crate) mod digest;
mod fabrics;
mod link;
pub(crate) mod pdu;
mod queue;
mod session;
mod transfer;

use std::io::{Error, ErrorKind};
use std::time::{Duration, Instant};

pub use session::Session;

use super::Probe;
pub use super::nvme::{DISCOVERY_NAME, MAX_TRANSFER_BYTES, NameError, Subsystem, USUAL_CONNECTIONS};
use super::nvme::{controller, discovery, entry, io, opcode, status, zones};
use super::socket::{End, Endpoint, ListenError, Output, Protocol, Received, Server, SharedMemory};
use crate::command::{Answer, Drive};
use crate::namespace;
use controller::{Controller, LoggedError};
use io::{Completed, IoQueue, Part};
use status::Status;

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

    pub fn subsystem(&self) -> &Subsystem {
        &self.subsystem
    }
}

/// The controller of that number, where it is there still.
fn numbered(controllers: &mut [Option<Controller>], id: u16) -> Option<&mut Controller> {
    controllers.get_mut(usize::from(id).checked_sub(1)?)?.as_mut()
}

/// A command that ended with an error, as the log has it: its block is that of its namespace.
fn logged(answer: &Answer, queue: u16, status: Status, drive: &dyn Drive) -> LoggedError {
    let offset_bytes = answer.command.offset_bytes;
    let namespace = namespace::at(drive, offset_bytes);
    let namespace = namespace.and_then(|id| drive.namespace(id));
    let start_bytes = namespace.map_or(0, |namespace| namespace.start_bytes);
    LoggedError {
        count: 0,
        queue,
        command: answer.command.tag.command as u16,
        status,
        block: (offset_bytes - start_bytes) / u64::from(drive.facts().block_bytes.max(1)),
        namespace: namespace.map_or(io::EVERY_NAMESPACE, |namespace| namespace.id),
    }
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
        self.take_all(session, bytes, out, drive)
    }

    fn answer(&mut self, session: &mut Session, answer: Answer, out: &mut Output, drive: &dyn Drive) {
        let (Some(queue), Some(link)) = (&mut session.queue, &session.link) else {
            return;
        };
        if Part::of(&answer) == Part::Shutdown {
            queue.answered(&answer);
            let id = queue.controller;
            numbered(&mut self.controllers, id).map(Controller::shut_down);
            return;
        }
        let refused = match io::answer(queue, &answer, drive) {
            None => None,
            Some((id, Completed::Content(offset_bytes, length_bytes))) => {
                queue.give_content(id, (offset_bytes, length_bytes), link, out, drive);
                None
            }
            Some((id, Completed::Appended(block))) => {
                queue.complete(id, status::SUCCESS, block, link, &mut out.bytes);
                None
            }
            Some((id, Completed::Status(status))) => {
                queue.complete(id, status, 0, link, &mut out.bytes);
                (status != status::SUCCESS).then_some(status)
            }
        };
        queue.ask(link, &mut out.bytes);
        if let (Some(status), id) = (refused, queue.id) {
            let controller = queue.controller;
            if let Some(controller) = numbered(&mut self.controllers, controller) {
                controller.log(logged(&answer, id, status, drive));
            }
        }
    }

    fn dropped(&mut self, session: &mut Session, answer: Answer) {
        if let Some(queue) = &mut session.queue {
            queue.answered(&answer);
        }
    }

    fn in_flight(&self, session: &Session) -> usize {
        session.queue.as_ref().map_or(0, queue::Queue::in_flight)
    }

    fn holds_memory(&self, session: &Session) -> bool {
        let queue = session.queue.as_ref();
        queue.is_some_and(|queue| queue.transfers.holds_memory())
    }

    fn memory_freed(&mut self, session: &mut Session, out: &mut Vec<u8>) {
        if let (Some(queue), Some(link)) = (&mut session.queue, &session.link) {
            queue.ask(link, out);
        }
    }

    fn tick(&mut self, session: &mut Session, now: Instant, out: &mut Vec<u8>, drive: &dyn Drive) -> Option<End> {
        let (Some(queue), Some(link)) = (&mut session.queue, &session.link) else {
            return (now.duration_since(session.opened) > CONNECT_TIME).then_some(End::Now);
        };
        let Some(controller) = numbered(&mut self.controllers, queue.controller) else {
            return Some(End::Now);
        };
        if queue.id == 0 {
            if controller.is_silent(now) && !controller.is_over {
                controller.is_over = true;
                self.attention = true;
            }
            controller.look(drive);
            admin::tell(controller, queue, link, out);
        }
        controller.is_over.then_some(End::Now)
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
        if queue.id == 0 {
            controller.is_over = true;
            self.attention = true;
        } else {
            controller.queues[usize::from(queue.id)] = None;
        }
        if controller.connections == 0 {
            self.controllers[usize::from(queue.controller) - 1] = None;
        }
    }

    fn probe(&self, at: &Endpoint) -> Option<Box<dyn Probe>> {
        Some(Box::new(crate::client::nvme_tcp::OverheadProbe::new(
            at.clone(),
            &self.subsystem.name,
            self.subsystem.hosts.first().map(String::as_str),
        )))
    }
}
