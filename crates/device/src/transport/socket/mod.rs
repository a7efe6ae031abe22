//! What the transports over sockets share: listening, connections with bounded buffers, and the loop over them. What
//! the bytes mean is a [`Protocol`]'s, which knows no socket, so that it can be tested and fuzzed with bytes alone.

mod endpoint;
mod input;
mod listen;
mod memory;
mod output;
mod protocol;
mod server;
mod slot;
mod stream;

pub use endpoint::{Endpoint, EndpointError};
pub use input::{Filled, Input};
pub use listen::{ListenError, Listener, connect};
pub use memory::{CONNECTION_BYTES, SHARED_BYTES, Share, SharedMemory};
pub use output::Output;
pub use protocol::{End, Protocol, Received, Then};
pub use server::Server;
pub use stream::{Stream, TLS_BYTES};
