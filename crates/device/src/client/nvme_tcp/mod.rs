//! An initiator of NVMe over TCP: an admin queue, and I/O queues that batch.

mod admin;
mod channel;
mod queue;

pub use admin::Admin;
use channel::Channel;
pub use queue::Queue;

use std::io;

use super::Waiting;
use crate::transport::socket::Endpoint;

/// Parameters of a host's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub host: String,
    pub host_id: [u8; 16],
    pub header_digests: bool,
    pub data_digests: bool,
    /// Data are wanted at multiples of four times this and one bytes.
    pub alignment: u8,
    pub entries: u16,
    /// Whether completions say how far the queue is.
    pub flow_control: bool,
    /// How long the host may be silent; 0 for ever.
    pub keep_alive_ms: u32,
    /// How answers are waited for.
    pub waiting: Waiting,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: "nqn.2014-08.org.nvmexpress:uuid:696f6173-7361-8179-8000-000000000001".to_owned(),
            host_id: [1; 16],
            header_digests: false,
            data_digests: false,
            alignment: 0,
            entries: 128,
            flow_control: false,
            keep_alive_ms: 0,
            waiting: Waiting::Sleeps,
        }
    }
}

/// Connects an admin queue and one I/O queue.
pub fn connect(to: &Endpoint, subsystem: &str, settings: &Settings) -> io::Result<(Admin, Queue)> {
    let mut admin = Admin::connect(to, subsystem, settings)?;
    admin.enable()?;
    admin.ask_for_queues(1)?;
    let queue = admin.queue_of(1, 1)?;
    Ok((admin, queue))
}
