//! What the transports over sockets share: listening, connections with bounded buffers, and the loop
//! over them. What the bytes mean is a [`Protocol`]'s, which knows no socket, so that it can be
//! tested and fuzzed with bytes alone.

mod buffer;
mod endpoint;
mod listen;
mod protocol;
mod server;
mod slot;

pub use buffer::{Filled, Input, Output};
pub use endpoint::{Endpoint, EndpointError};
pub use listen::{ListenError, Listener, Stream, connect};
pub use protocol::{End, Protocol, Received, Then};
pub use server::Server;
