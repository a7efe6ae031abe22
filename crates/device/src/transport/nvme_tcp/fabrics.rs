//! Commands of fabrics: Connect, and the properties (NVMe over Fabrics 1.1, section 3).

use super::{NvmeTcp, numbered};
use crate::command::Drive;
use crate::transport::nvme::controller::{Controller, Host, property};
use crate::transport::nvme::entry::Submission;
use crate::transport::nvme::status::{self, Status};
use crate::transport::nvme::{DISCOVERY_NAME, Queue, u16_at};

pub mod kind {
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
}

pub const CONNECT_BYTES: usize = 1024;

/// The controller number with which a host asks for any.
const ANY_CONTROLLER: u16 = 0xffff;

const DISABLE_FLOW_CONTROL: u32 = 1 << 2;

/// Longest name, its end included (section 4.4 of the Base Specification).
const NAME_BYTES: usize = 224;

/// The status of a Connect that is refused, and its result.
pub(super) struct Refusal(pub Status, pub u64);

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self(status, 0)
    }
}

/// Refuses a parameter of Connect; the result has its place in the command, or in the data.
fn refuse(at: u64) -> Refusal {
    Refusal(status::CONNECT_PARAMETER, at)
}

const IN_DATA: u64 = 1 << 16;

struct Request<'a> {
    host: Host,
    controller: u16,
    subsystem: &'a [u8],
}

impl<'a> Request<'a> {
    fn read(data: &'a [u8]) -> Result<Self, Refusal> {
        let mut id = [0; 16];
        id.copy_from_slice(&data[..16]);
        let subsystem = name(&data[256..512]).filter(|name| !name.is_empty());
        let subsystem = subsystem.ok_or_else(|| refuse(IN_DATA | 256))?;
        // May be empty: SPDK's tools send no name unless they are given one.
        let host = name(&data[512..768]).ok_or_else(|| refuse(IN_DATA | 512))?;
        Ok(Self { host: Host { name: host.to_vec(), id }, controller: u16_at(data, 16), subsystem })
    }
}

fn name(field: &[u8]) -> Option<&[u8]> {
    let end = field.iter().position(|byte| *byte == 0)?;
    (end < NAME_BYTES).then(|| &field[..end])
}

/// How a queue is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opening {
    /// 0 for the admin queue.
    pub id: u16,
    pub controller: u16,
    pub entries: u16,
    pub flow_control: bool,
}

impl NvmeTcp {
    /// Connects a queue on the connection of this number: of a new controller, or of one that there is.
    /// The outcome's result is the controller's number.
    pub(super) fn connect(&mut self, connection: u32, command: &Submission, data: &[u8]) -> Result<Opening, Refusal> {
        if command.word(10) & 0xffff != 0 {
            return Err(status::CONNECT_FORMAT.into());
        }
        if data.len() != CONNECT_BYTES {
            return Err(status::SGL_LENGTH_INVALID.into());
        }
        let request = Request::read(data)?;
        let id = (command.word(10) >> 16) as u16;
        let entries = (command.word(11) & 0xffff) + 1;
        if !(2..=u32::from(self.subsystem.queue_entries)).contains(&entries) {
            return Err(refuse(44));
        }
        let flow_control = (command.word(11) >> 16) & DISABLE_FLOW_CONTROL == 0;
        let controller = if id == 0 {
            self.connect_admin(request, command.word(12))?
        } else {
            self.connect_io(&request, id, connection)?
        };
        Ok(Opening { id, controller, entries: entries as u16, flow_control })
    }

    fn connect_admin(&mut self, request: Request<'_>, keep_alive_ms: u32) -> Result<u16, Refusal> {
        let discovers = request.subsystem == DISCOVERY_NAME.as_bytes();
        if !discovers && request.subsystem != self.subsystem.name.as_bytes() {
            return Err(refuse(IN_DATA | 256));
        }
        if !discovers && !self.subsystem.allows(&request.host.name) {
            return Err(status::CONNECT_HOST.into());
        }
        if request.controller != ANY_CONTROLLER {
            return Err(refuse(IN_DATA | 16));
        }
        let at = self.controllers.iter().position(Option::is_none).ok_or(status::CONNECT_BUSY)?;
        let id = at as u16 + 1;
        let queues = if discovers { 0 } else { self.subsystem.io_queues };
        let mut controller = Controller::new(id, discovers, request.host, queues, keep_alive_ms);
        controller.connections = 1;
        self.controllers[at] = Some(controller);
        Ok(id)
    }

    fn connect_io(&mut self, request: &Request<'_>, id: u16, connection: u32) -> Result<u16, Refusal> {
        let controller = numbered(&mut self.controllers, request.controller);
        let controller = controller.filter(|controller| !controller.discovers && !controller.is_over);
        let controller = controller.ok_or_else(|| refuse(IN_DATA | 16))?;
        if controller.host != request.host {
            return Err(refuse(IN_DATA | 512));
        }
        if !controller.is_ready() {
            return Err(status::SEQUENCE_ERROR.into());
        }
        if usize::from(id) >= controller.queues.len() || id > controller.features.io_queues.unwrap_or(u16::MAX) {
            return Err(refuse(42));
        }
        let queue = &mut controller.queues[usize::from(id)];
        if queue.is_some() {
            return Err(status::CONNECT_BUSY.into());
        }
        *queue = Some(connection);
        controller.connections += 1;
        Ok(controller.id)
    }
}

/// Reads or sets a property of the controller of an admin queue.
pub fn property<P>(queue: &mut Queue<'_, P>, command: &Submission, drive: &mut dyn Drive) -> Result<u64, Status> {
    let Queue { controller, table, .. } = queue;
    controller.heard = true;
    // The bit of CAP for several command sets.
    controller.command_sets = if drive.zones().is_some() { 1 << 43 } else { 0 };
    let (size, offset) = (command.word(10) & 7, command.word(11));
    let wide = offset == property::CAP;
    match (command.fabrics_type(), controller.property(offset, queue.subsystem.queue_entries)) {
        (kind::CONNECT, _) => Err(status::SEQUENCE_ERROR),
        (kind::PROPERTY_GET, Some(value)) if (size == 1) == wide => Ok(value),
        (kind::PROPERTY_SET, Some(_)) if size == 0 && offset == property::CC => {
            let shuts_down = controller.configure(command.word(12));
            table.forget(&mut controller.events.dropped);
            if shuts_down {
                table.begin_shutdown(drive);
            }
            Ok(0)
        }
        (kind::PROPERTY_SET | kind::PROPERTY_GET, _) => Err(status::INVALID_FIELD),
        _ => Err(status::INVALID_OPCODE),
    }
}
