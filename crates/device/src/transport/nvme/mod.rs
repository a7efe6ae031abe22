//! NVM Express without a transport: what controllers answer, whichever way their commands come.
//!
//! Sources: NVM Express Base Specification 2.0, NVM Command Set Specification 1.0. Deliberately absent: where the data
//! of commands are, and how completions reach the host. These are of [NVMe over TCP](super::nvme_tcp).

pub mod admin;
mod bytes;
pub mod controller;
pub mod discovery;
pub mod entry;
pub mod events;
pub mod feature_values;
pub mod features;
pub mod identify;
pub mod io;
pub mod logs;
pub mod opcode;
pub mod qualified_name;
pub mod status;
pub mod subsystem;
pub mod zone_commands;
pub mod zones;

pub use bytes::{u16_at, u32_at, u64_at};
pub use discovery::NAME as DISCOVERY_NAME;
pub use qualified_name::NameError;
pub use subsystem::Subsystem;

use entry::{Outcome, Submission};
use status::Status;

use crate::command::Drive;

/// What the data of a command of an I/O queue have to be, before they are waited for.
pub fn io_data_bytes(command: &Submission, drive: &dyn Drive) -> Result<usize, Status> {
    match zone_commands::data_bytes(command, drive) {
        Some(bytes) => bytes,
        None => io::data_bytes(command, drive),
    }
}

/// Begins a command of an I/O queue. `durable` makes every write so: the host turned the write cache off.
pub fn begin_io(
    queue: &mut impl io::IoQueue,
    command: &Submission,
    data: &[u8],
    durable: bool,
    drive: &mut dyn Drive,
) -> Outcome {
    match zone_commands::begin(queue, command, data, durable, drive) {
        Some(outcome) => outcome,
        None => io::begin(queue, command, data, durable, drive),
    }
}

/// Bytes of the longest read or write: hosts are told so.
pub const MAX_TRANSFER_BYTES: usize = 1 << 20;

/// Data that a command of fabrics may carry with it.
pub const IN_CAPSULE_BYTES: usize = 8 << 10;

/// Connections of fabrics that are taken when nothing else is said.
pub const USUAL_CONNECTIONS: usize = 128;
