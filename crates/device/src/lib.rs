//! The simulated drive, served in real time to programs and kernels.
//!
//! One thread does all: it asks the transports for commands, gives them to the [`Drive`], and
//! answers each when the model says that it is done. Nothing sleeps on the way and nothing is handed
//! to another thread, because waking one takes longer than a whole request of a fast drive.
//!
//! - [`client`]: what measures and tests the transports from outside.
//! - [`command`]: what transports and drive exchange.
//! - [`transport`]: the only place with sockets; one file or folder each.

pub mod client;
pub mod command;
pub mod transport;

pub use command::{Answer, Command, Op, Status, Tag};
