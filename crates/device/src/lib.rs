//! The simulated drive, served in real time to programs and kernels.
//!
//! One thread does all: it asks the transports for commands, gives them to the [`Drive`], and
//! answers each when the model says that it is done. Nothing sleeps on the way and nothing is handed
//! to another thread, because waking one takes longer than a whole request of a fast drive.
//!
//! - [`client`]: what measures and tests the transports from outside.
//! - [`command`]: what transports and drive exchange.
//! - [`transport`]: the only place with sockets; one file or folder each.
//! - [`served`]: the drive that transports see, over its content ([`store`]), its [`model`], and what
//!   of the content is [`volatile`].
//! - [`serve`]: from options to the end: the loop, and what measures, steers and ends it.

pub mod client;
pub mod clock;
pub mod command;
mod error;
pub mod figures;
pub mod geometry;
pub mod model;
mod numbered;
pub mod serve;
pub mod served;
pub mod statistics;
pub mod store;
pub mod transport;
pub mod volatile;

pub use command::{Answer, Command, Op, Status, Tag};
pub use error::Error;
