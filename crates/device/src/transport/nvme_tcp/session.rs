//! One connection: from its first unit to the commands of its queue.

use std::time::Instant;

use super::command_data::{Data, in_capsule, locate};
use super::controller::{Controller, LoggedError};
use super::entry::{FABRICS, Outcome, Submission};
use super::fabrics::{self, kind as fabrics_kind};
use super::io::Part;
use super::link::Link;
use super::pdu::{self, Digests, Fatal, Pdu, kind};
use super::queue::Queue;
use super::status::{self, Status};
use super::{NvmeTcp, Subsystem, admin, io, numbered, zones};
use crate::command::Drive;
use crate::transport::nvme::begin_io;
use crate::transport::socket::{End, Received, SharedMemory, Then};

/// Bytes to be sent, without the drive's content, from which on no command is taken: a small one may ask
/// for a long log page.
const MAX_ANSWERS_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct Session {
    transport: u32,
    number: u32,
    memory: SharedMemory,
    pub(super) link: Option<Link>,
    /// Once a queue is connected.
    pub(super) queue: Option<Queue>,
    pub(super) opened: Instant,
}

impl Session {
    pub(super) fn new(transport: u32, number: u32, opened: Instant, memory: SharedMemory) -> Self {
        Self { transport, number, memory, link: None, queue: None, opened }
    }
}

/// Why a connection is read no further.
enum Stop {
    Fatal(Fatal),
    /// The host said that it cannot go on.
    HostLeaves,
}

impl From<Fatal> for Stop {
    fn from(fatal: Fatal) -> Self {
        Stop::Fatal(fatal)
    }
}

impl NvmeTcp {
    pub(super) fn take_all(
        &mut self,
        session: &mut Session,
        bytes: &[u8],
        out: &mut Vec<u8>,
        drive: &mut dyn Drive,
    ) -> Received {
        let mut consumed = 0;
        let then = loop {
            let rest = &bytes[consumed..];
            let digests = session.link.map_or_else(Digests::default, |link| link.digests);
            let taken = match pdu::frame(rest, digests) {
                Ok(Err(wants)) => break Then::Wants(wants),
                Ok(Ok(unit))
                    if unit.kind == kind::CAPSULE_CMD
                        && (out.len() > MAX_ANSWERS_BYTES || session.queue.as_ref().is_some_and(Queue::is_full)) =>
                {
                    break Then::Blocked;
                }
                Ok(Ok(unit)) => self.take(session, &unit, out, drive).map(|()| unit.bytes),
                Err(fatal) => Err(fatal.into()),
            };
            match taken {
                Ok(bytes) => consumed += bytes,
                Err(Stop::HostLeaves) => break Then::Ends(End::Now),
                Err(Stop::Fatal(fatal)) => {
                    let header = rest.get(2).map_or(0, |bytes| usize::from(*bytes)).max(pdu::COMMON_BYTES);
                    pdu::terminate(fatal, &rest[..header.min(rest.len())], out);
                    break Then::Ends(End::Now);
                }
            }
        };
        Received { consumed, then }
    }

    fn take(
        &mut self,
        session: &mut Session,
        unit: &Pdu<'_>,
        out: &mut Vec<u8>,
        drive: &mut dyn Drive,
    ) -> Result<(), Stop> {
        match (unit.kind, session.link) {
            (kind::H2C_TERM_REQ, _) => Err(Stop::HostLeaves),
            (kind::IC_REQ, None) => {
                session.link = Some(Link::open(unit, out)?);
                Ok(())
            }
            (kind::CAPSULE_CMD, Some(link)) if session.queue.is_some() => self.begin(session, &link, unit, out, drive),
            (kind::CAPSULE_CMD, Some(link)) => {
                self.open_queue(session, &link, unit, out);
                Ok(())
            }
            (kind::H2C_DATA, Some(link)) => self.take_data(session, &link, unit, out, drive),
            _ => Err(Fatal::SEQUENCE.into()),
        }
    }

    /// The first command has to be Connect, with its data in the capsule.
    fn open_queue(&mut self, session: &mut Session, link: &Link, unit: &Pdu<'_>, out: &mut Vec<u8>) {
        let command = Submission::read(unit.header);
        let connects = command.opcode() == FABRICS && command.fabrics_type() == fabrics_kind::CONNECT;
        let opening = match in_capsule(&command, unit) {
            _ if !connects => Err(status::SEQUENCE_ERROR.into()),
            Err(status) => Err(status.into()),
            Ok(data) => self.connect(session.number, &command, data),
        };
        let (status, result, head) = match opening {
            Ok(opening) => {
                session.queue = Some(Queue::new(session.transport, session.number, opening, session.memory.share()));
                let head = if opening.flow_control { 0 } else { u16::MAX };
                (status::SUCCESS, u64::from(opening.controller), head)
            }
            Err(Outcome::Refused(status, result)) => (status, result, 0),
            Err(_) => (status::INTERNAL_ERROR, 0, 0),
        };
        let queue = session.queue.as_ref().map_or(0, |queue| queue.id);
        link.complete(super::entry::Completion { result, head, queue, id: command.id(), status }, out);
    }

    fn begin(
        &mut self,
        session: &mut Session,
        link: &Link,
        unit: &Pdu<'_>,
        out: &mut Vec<u8>,
        drive: &mut dyn Drive,
    ) -> Result<(), Stop> {
        let Some(queue) = &mut session.queue else {
            return Ok(());
        };
        let command = Submission::read(unit.header);
        let Some(controller) = numbered(&mut self.controllers, queue.controller) else {
            return Err(Fatal::SEQUENCE.into());
        };
        match queue.begin(command.id()) {
            Ok(true) => {}
            Ok(false) => return Err(Fatal::SEQUENCE.into()),
            Err(_) if queue.id == 0 && controller.events.holds(command.id()) && fabrics::is_property(&command) => {
                controller.hear();
                let entries = self.subsystem.queue_entries;
                let done = change_property(controller, queue, &command, entries, drive);
                let (status, result) = done.map_or_else(|status| (status, 0), |result| (status::SUCCESS, result));
                queue.complete_unnumbered(command.id(), status, result, link, out);
                return Ok(());
            }
            Err(status) => {
                queue.complete_unnumbered(command.id(), status, 0, link, out);
                return Ok(());
            }
        }
        let located = match admit(controller, queue, &command) {
            Ok(()) => locate(queue, &command, unit, drive),
            Err(status) => Err(status),
        };
        let outcome = match located {
            Ok(Data::Here(data)) => execute(controller, &self.subsystem, queue, (&command, data), link, out, drive),
            Ok(Data::Away(bytes)) => {
                queue.transfers.want(command, bytes);
                queue.ask(link, out);
                Outcome::Later
            }
            Err(status) => status.into(),
        };
        finish(controller, queue, &command, outcome, link, out);
        Ok(())
    }

    fn take_data(
        &mut self,
        session: &mut Session,
        link: &Link,
        unit: &Pdu<'_>,
        out: &mut Vec<u8>,
        drive: &mut dyn Drive,
    ) -> Result<(), Stop> {
        let Some(queue) = &mut session.queue else {
            return Err(Fatal::SEQUENCE.into());
        };
        let Some(complete) = queue.transfers.received(unit)? else {
            return Ok(());
        };
        let Some(controller) = numbered(&mut self.controllers, queue.controller) else {
            return Err(Fatal::SEQUENCE.into());
        };
        let outcome = match admit(controller, queue, &complete.command) {
            Ok(()) if complete.intact => {
                let whole = (&complete.command, &complete.data[..]);
                execute(controller, &self.subsystem, queue, whole, link, out, drive)
            }
            Ok(()) => status::TRANSIENT_TRANSPORT_ERROR.into(),
            Err(status) => status.into(),
        };
        queue.transfers.release(complete.data, complete.shared);
        finish(controller, queue, &complete.command, outcome, link, out);
        queue.ask(link, out);
        Ok(())
    }
}

/// Whether a controller takes a command now.
fn admit(controller: &mut Controller, queue: &Queue, command: &Submission) -> Result<(), Status> {
    if queue.id == 0 {
        controller.hear();
    }
    if queue.id == 0 && command.opcode() == FABRICS {
        return Ok(());
    }
    if controller.is_ready() { Ok(()) } else { Err(status::SEQUENCE_ERROR) }
}

/// Carries out a command whose data are there.
fn execute(
    controller: &mut Controller,
    subsystem: &Subsystem,
    queue: &mut Queue,
    (command, data): (&Submission, &[u8]),
    link: &Link,
    out: &mut Vec<u8>,
    drive: &mut dyn Drive,
) -> Outcome {
    if queue.id > 0 {
        let durable = controller.features.cache_is_off;
        return begin_io(queue, command, data, durable, drive);
    }
    if command.opcode() == FABRICS {
        if command.fabrics_type() == fabrics_kind::CONNECT {
            return status::SEQUENCE_ERROR.into();
        }
        let entries = subsystem.queue_entries;
        let done = change_property(controller, queue, command, entries, drive);
        return done.map_or_else(Outcome::from, Outcome::Done);
    }
    if admin::aborts(command) {
        admin::abort(controller, queue, command, link, out, drive);
        return Outcome::Later;
    }
    controller.look(drive);
    let cached = !controller.features.cache_is_off;
    let outcome = admin::execute(controller, command, data, subsystem, drive);
    if cached && controller.features.cache_is_off {
        // Complete when what the cache has is durable, too: nobody flushes it from now on.
        io::flush(queue, command.id(), Part::Whole, drive);
        return Outcome::Later;
    }
    if admin::is_event_request(command) && outcome == Outcome::Later {
        queue.hold();
        admin::tell(controller, queue, link, out);
    }
    outcome
}

/// Reads or sets a property.
fn change_property(
    controller: &mut Controller,
    queue: &mut Queue,
    command: &Submission,
    entries: u16,
    drive: &mut dyn Drive,
) -> Result<u64, Status> {
    controller.command_sets = zones::capability(drive);
    let (outcome, shuts_down) = fabrics::property(controller, command, entries);
    queue.forget(&mut controller.events.dropped);
    if shuts_down {
        io::flush(queue, command.id(), Part::Shutdown, drive);
    }
    outcome
}

fn finish(
    controller: &mut Controller,
    queue: &mut Queue,
    command: &Submission,
    outcome: Outcome,
    link: &Link,
    out: &mut Vec<u8>,
) {
    if let Outcome::Refused(status, _) = outcome {
        let block = if queue.id > 0 { command.double_word(10) } else { 0 };
        controller.log(LoggedError {
            count: 0,
            queue: queue.id,
            command: command.id(),
            status,
            block,
            namespace: command.namespace(),
        });
    }
    queue.finish(command, outcome, link, out);
}
