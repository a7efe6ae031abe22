//! The discovery service: it tells of the one subsystem those hosts that may use it (NVMe over Fabrics 1.1, section 5).

use super::Subsystem;

/// The name of every discovery subsystem.
pub const NAME: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Bytes of the log's header, and of each of its entries.
const RECORD_BYTES: usize = 1024;

/// The log page, for a host of this name.
pub fn log(subsystem: &Subsystem, host: &[u8]) -> Vec<u8> {
    let mut log = vec![0; 2 * RECORD_BYTES];
    let (header, entry) = log.split_at_mut(RECORD_BYTES);
    let Some(address) = subsystem.address.filter(|_| subsystem.allows(host)) else {
        return log;
    };
    header[8] = 1; // entries
    entry[0] = 3; // TCP
    entry[1] = if address.is_ipv4() { 1 } else { 2 };
    entry[2] = 2; // a subsystem that does I/O
    entry[3] = 1 << 2; // its queues need no flow control
    entry[4..6].copy_from_slice(&1u16.to_le_bytes()); // the port
    entry[6..8].copy_from_slice(&[0xff; 2]); // any controller
    entry[8..10].copy_from_slice(&subsystem.queue_entries.to_le_bytes());
    fill(&mut entry[32..64], &address.port().to_string());
    fill(&mut entry[256..512], &subsystem.name);
    fill(&mut entry[512..768], &address.ip().to_string());
    log
}

/// Addresses are filled with spaces, names with zeroes; a name's zeroes end it for those who do not
/// mind, so zeroes serve both.
fn fill(field: &mut [u8], text: &str) {
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from;
    }
}
