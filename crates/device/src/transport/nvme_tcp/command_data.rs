//! Where a command's data are: in its capsule, or still with the host; and whether they are as long as it says.

use super::entry::{FABRICS, Pointer, Submission};
use super::pdu::{self, Pdu};
use super::queue::Queue;
use super::status::{self, Status};
use super::{admin, opcode};
use crate::command::Drive;
use crate::transport::nvme::io_data_bytes;

/// Where a command's data are.
pub enum Data<'a> {
    Here(&'a [u8]),
    /// So many bytes are to be asked for.
    Away(usize),
}

/// The data in a command's capsule.
pub fn in_capsule<'a>(command: &Submission, unit: &Pdu<'a>) -> Result<&'a [u8], Status> {
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
pub fn locate<'a>(queue: &Queue, command: &Submission, unit: &Pdu<'a>, drive: &dyn Drive) -> Result<Data<'a>, Status> {
    if !command.takes_data() {
        return Ok(Data::Here(&[]));
    }
    let wanted = match (command.opcode(), queue.id) {
        (FABRICS, _) => 0,
        (_, 0) => admin::data_bytes(command),
        _ => io_data_bytes(command, drive)?,
    };
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
    let lists = matches!(command.opcode(), opcode::io::DATASET_MANAGEMENT | FABRICS);
    let moves_blocks = queue.id > 0 && !lists;
    let fits = length == wanted || (!moves_blocks && (wanted..=pdu::IN_CAPSULE_BYTES).contains(&length));
    if fits { Ok(data) } else { Err(status::SGL_LENGTH_INVALID) }
}
