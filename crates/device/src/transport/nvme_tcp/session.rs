//! One connection: from its first unit to the commands of its queue, and their data and completions as units.

use std::time::Instant;

use super::fabrics::{self, Opening, Refusal, kind as fabrics_kind};
use super::link::Link;
use super::pdu::{self, Fatal, Pdu, kind};
use super::transfer::Transfers;
use super::{NvmeTcp, numbered};
use crate::command::Drive;
use crate::transport::nvme::entry::{Completion, FABRICS, Outcome, Pointer, Submission};
use crate::transport::nvme::opcode::io as opcode;
use crate::transport::nvme::status::{self, Status};
use crate::transport::nvme::{self, CommandTable};
use crate::transport::socket::{Output, SharedMemory};

/// Bytes to be sent, without the drive's content, from which on no command is taken: a small one may ask
/// for a long log page.
pub(super) const MAX_ANSWERS_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct Session {
    transport: u32,
    number: u32,
    memory: SharedMemory,
    pub(super) link: Option<Link>,
    /// Once a queue is connected.
    pub(super) queue: Option<ConnectedQueue>,
    pub(super) opened: Instant,
}

/// The queue of a connection.
#[derive(Debug)]
pub(super) struct ConnectedQueue {
    pub controller: u16,
    /// Whether the host is told how far its queue is.
    flow_control: bool,
    pub table: CommandTable,
    /// Data that are waited for.
    pub transfers: Transfers,
}

/// Where units go: with parts of the drive's content between them, or without.
pub(super) enum Out<'a> {
    Bytes(&'a mut Vec<u8>),
    WithContent(&'a mut Output),
}

impl Out<'_> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        match self {
            Out::Bytes(bytes) => bytes,
            Out::WithContent(out) => &mut out.bytes,
        }
    }
}

/// A connection as the way to the host.
pub(super) struct Port<'a> {
    link: Link,
    pub transfers: &'a mut Transfers,
    out: Out<'a>,
    flow_control: bool,
}

impl Port<'_> {
    /// Asks the host for data that there is memory for.
    pub fn ask(&mut self) {
        self.transfers.ask(&self.link, self.out.bytes());
    }
}

/// Data complete their command, too, where the host does not ask how far its queue is (section 3.3.2.1 of the transport
/// specification).
impl nvme::Port for Port<'_> {
    fn keep(&mut self, id: u16, data: &[u8]) {
        self.transfers.copy(id, data);
    }

    fn compare(&mut self, command: &Submission, content: &[u8]) -> bool {
        self.transfers.take_copy(command.id()).is_some_and(|data| data == content)
    }

    fn give(&mut self, command: &Submission, data: &[u8]) -> Result<bool, Status> {
        let completes = !self.flow_control && !data.is_empty();
        if !data.is_empty() {
            self.link.give(command.id(), data, completes, self.out.bytes());
        }
        Ok(completes)
    }

    fn give_content(&mut self, command: &Submission, range: (u64, u64), drive: &dyn Drive) -> Result<bool, Status> {
        let completes = !self.flow_control;
        match &mut self.out {
            Out::WithContent(out) => self.link.give_content(command.id(), range, completes, out, drive),
            Out::Bytes(out) => self.link.give(command.id(), drive.content(range.0, range.1), completes, out),
        }
        Ok(completes)
    }

    fn complete(&mut self, completion: Completion) -> bool {
        let head = if self.flow_control { completion.head } else { 0 };
        self.link.complete(Completion { head, ..completion }, self.out.bytes());
        true
    }
}

pub(super) type Queue<'a> = nvme::Queue<'a, Port<'a>>;

impl Session {
    pub(super) fn new(transport: u32, number: u32, opened: Instant, memory: SharedMemory) -> Self {
        Self { transport, number, memory, link: None, queue: None, opened }
    }
}

/// Where a command's data are.
enum Data<'a> {
    Here(&'a [u8]),
    /// The number of bytes to be asked for.
    Away(usize),
}

impl NvmeTcp {
    /// Takes a unit. Fails with nothing if the host said that it cannot go on.
    pub(super) fn take(
        &mut self,
        session: &mut Session,
        unit: &Pdu<'_>,
        out: &mut Vec<u8>,
        drive: &mut dyn Drive,
    ) -> Result<(), Option<Fatal>> {
        match (unit.kind, session.link) {
            (kind::H2C_TERM_REQ, _) => return Err(None),
            (kind::IC_REQ, None) => session.link = Some(Link::open(unit, out)?),
            (kind::CAPSULE_CMD, Some(link)) if session.queue.is_none() => self.open_queue(session, &link, unit, out),
            (kind::CAPSULE_CMD | kind::H2C_DATA, Some(_)) => {
                let queue = self.queue(session, Out::Bytes(out)).ok_or(Fatal::SEQUENCE)?;
                if unit.kind == kind::CAPSULE_CMD {
                    begin(queue, unit, drive)?;
                } else {
                    take_data(queue, unit, drive)?;
                }
            }
            _ => return Err(Some(Fatal::SEQUENCE)),
        }
        Ok(())
    }

    /// The queue of a connection, with its controller.
    pub(super) fn queue<'a>(&'a mut self, session: &'a mut Session, out: Out<'a>) -> Option<Queue<'a>> {
        let (Some(queue), Some(link)) = (&mut session.queue, session.link) else {
            return None;
        };
        Some(Queue {
            subsystem: &self.subsystem,
            controller: numbered(&mut self.controllers, queue.controller)?,
            table: &mut queue.table,
            port: Port { link, transfers: &mut queue.transfers, out, flow_control: queue.flow_control },
        })
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
        let id = command.id();
        let completion = match opening {
            Ok(Opening { id: queue, controller, entries, flow_control }) => {
                session.queue = Some(ConnectedQueue {
                    controller,
                    flow_control,
                    table: CommandTable::new(session.transport, session.number, queue, entries),
                    transfers: Transfers::new(session.memory.share()),
                });
                let head = if flow_control { 0 } else { u16::MAX };
                Completion { result: controller.into(), head, queue, id, status: status::SUCCESS }
            }
            Err(Refusal(status, result)) => Completion { result, head: 0, queue: 0, id, status },
        };
        link.complete(completion, out);
    }
}

fn begin(mut queue: Queue<'_>, unit: &Pdu<'_>, drive: &mut dyn Drive) -> Result<(), Fatal> {
    let command = Submission::read(unit.header);
    if let Err(status) = queue.table.begin(command) {
        // SPDK's host reuses the number of a held event request for property commands when it shuts down, and expects
        // answers to them.
        let reuses = queue.table.id == 0
            && command.opcode() == FABRICS
            && matches!(command.fabrics_type(), fabrics_kind::PROPERTY_GET | fabrics_kind::PROPERTY_SET)
            && queue.controller.events.requests.contains(&command.id());
        let done = if reuses { fabrics::property(&mut queue, &command, drive) } else { Err(status) };
        let (status, result) = done.map_or_else(|status| (status, 0), |result| (status::SUCCESS, result));
        let completion = queue.table.completion(command.id(), status, result);
        nvme::Port::complete(&mut queue.port, completion);
        return Ok(());
    }
    if queue.table.outstanding > usize::from(queue.table.entries) {
        return Err(Fatal::SEQUENCE);
    }
    match admit(&mut queue, &command).and_then(|()| locate(&queue, &command, unit, drive)) {
        Ok(Data::Here(data)) => execute(&mut queue, &command, data, drive),
        Ok(Data::Away(bytes)) => {
            queue.port.transfers.want(command, bytes);
            queue.port.ask();
        }
        Err(status) => queue.finish(&command, Err(status)),
    }
    Ok(())
}

fn take_data(mut queue: Queue<'_>, unit: &Pdu<'_>, drive: &mut dyn Drive) -> Result<(), Fatal> {
    let Some(complete) = queue.port.transfers.received(unit)? else {
        return Ok(());
    };
    match admit(&mut queue, &complete.command) {
        Ok(()) if complete.intact => execute(&mut queue, &complete.command, &complete.data, drive),
        Ok(()) => queue.finish(&complete.command, Err(status::TRANSIENT_TRANSPORT_ERROR)),
        Err(status) => queue.finish(&complete.command, Err(status)),
    }
    queue.port.transfers.release(complete.data, complete.shared);
    queue.port.ask();
    Ok(())
}

/// The data in a command's capsule.
fn in_capsule<'a>(command: &Submission, unit: &Pdu<'a>) -> Result<&'a [u8], Status> {
    match command.pointer()? {
        Pointer::InCapsule { offset_bytes, length_bytes } => {
            let start = usize::try_from(offset_bytes).map_err(|_| status::SGL_OFFSET_INVALID)?;
            let end = start.checked_add(length_bytes as usize).ok_or(status::SGL_OFFSET_INVALID)?;
            let data = unit.data.get(start..end).ok_or(status::SGL_OFFSET_INVALID)?;
            if unit.intact { Ok(data) } else { Err(status::TRANSIENT_TRANSPORT_ERROR) }
        }
        Pointer::Transport { .. } => Err(status::SGL_TYPE_INVALID),
    }
}

/// Finds a command's data, and checks that they are as long as the command says.
fn locate<'a>(queue: &Queue<'_>, command: &Submission, unit: &Pdu<'a>, drive: &dyn Drive) -> Result<Data<'a>, Status> {
    let wanted = queue.data_bytes(command, drive)?;
    if wanted == 0 {
        return Ok(Data::Here(&[]));
    }
    let (length, data) = match command.pointer()? {
        Pointer::InCapsule { length_bytes, .. } => (length_bytes, Data::Here(in_capsule(command, unit)?)),
        Pointer::Transport { length_bytes } => (length_bytes, Data::Away(length_bytes as usize)),
    };
    let length = length as usize;
    // Blocks have to be as many as the command says. Lists may come with more room than entries: Linux
    // always sends a whole page of ranges.
    let moves_blocks = queue.table.id > 0 && !opcode::OF_RANGES.contains(&command.opcode());
    let fits = length == wanted || (!moves_blocks && (wanted..=pdu::IN_CAPSULE_BYTES).contains(&length));
    if fits { Ok(data) } else { Err(status::SGL_LENGTH_INVALID) }
}

/// Whether a controller takes a command now.
fn admit(queue: &mut Queue<'_>, command: &Submission) -> Result<(), Status> {
    if queue.table.id == 0 {
        queue.controller.heard = true;
        if command.opcode() == FABRICS {
            return Ok(());
        }
    }
    if queue.controller.is_ready() { Ok(()) } else { Err(status::SEQUENCE_ERROR) }
}

/// Carries out a command whose data are there.
fn execute(queue: &mut Queue<'_>, command: &Submission, data: &[u8], drive: &mut dyn Drive) {
    if queue.table.id > 0 || command.opcode() != FABRICS {
        return queue.execute(command, data, drive);
    }
    let done = fabrics::property(queue, command, drive);
    queue.finish(command, done.map(Outcome::Done));
}
