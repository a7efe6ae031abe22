//! NVM Express without a transport: what controllers answer, whichever way their commands come.
//!
//! Sources: NVM Express Base Specification 2.0, NVM Command Set Specification 1.0. Deliberately absent: where the data of
//! commands are and how completions reach the host, which is for [NVMe over TCP](super::nvme_tcp) and
//! [vfio-user](super::vfio_user).

pub mod command_table;
pub mod controller;
pub mod entry;
pub mod events;
pub mod features;
pub mod identify;
pub mod io;
pub mod logs;
pub mod opcode;
pub mod queue;
pub mod status;
pub mod subsystem;
pub mod zones;

pub use command_table::CommandTable;
pub use entry::{u16_at, u32_at, u64_at};
pub use queue::{Port, Queue};
pub use subsystem::{NameError, Subsystem};

/// The name of every discovery subsystem.
pub const DISCOVERY_NAME: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Bytes of the longest read or write: hosts are told so.
pub const MAX_TRANSFER_BYTES: usize = 1 << 20;

/// Source ranges of a Copy command at most.
pub const MAX_SOURCES: u32 = 128;

pub const EVERY_NAMESPACE: u32 = u32::MAX;

/// Data that a command of fabrics may carry with it.
pub const IN_CAPSULE_BYTES: usize = 8 << 10;

/// Entries of the longest queue that a host may ask for.
pub const MAX_QUEUE_ENTRIES: u16 = 1024;
