//! The simulated drive, served in real time to programs and kernels.
//!
//! One thread does all: it asks the transports for commands, gives them to the [`Drive`](command::Drive), and
//! answers each when the model says that it is done. Nothing sleeps on the way and nothing is handed
//! to another thread, because waking one takes longer than a whole request of a fast drive.
//!
//! - [`client`]: what measures and tests the transports from outside.
//! - [`command`]: what transports and drive exchange.
//! - [`transport`]: how commands come in and answers leave; one file or folder for each transport.
//! - [`emulated_drive`]: the drive that transports see, over its content ([`store`]), its [`model`],
//!   and its [`write_cache`], whose content a power loss takes.
//! - [`namespace`]: its parts, and the bounds between them.
//! - [`faults`]: injected faults, and what they make of commands.
//! - [`zones`]: the zones of a zoned drive, without content and time.
//! - [`server`]: from options to the end: the event loop, calibration, and the control socket.

pub mod client;
pub mod clock;
pub mod command;
pub mod emulated_drive;
mod error;
pub mod faults;
pub mod geometry;
pub mod model;
pub mod namespace;
pub mod report;
pub mod server;
pub mod store;
pub mod transport;
pub mod write_cache;
pub mod zones;

pub use command::{Answer, Command, Op, Status, Tag};
pub use error::Error;
