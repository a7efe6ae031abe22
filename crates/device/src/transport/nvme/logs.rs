//! Log pages (NVM Express Base Specification 2.0, section 5.16). Those of zones are in `zones`.

use super::controller::{Controller, ERROR_BYTES, ERROR_ENTRIES};
use super::entry::{Submission, padded, page};
use super::features::KELVIN;
use super::opcode::{self, io};
use super::status::{self, Status};
use super::{MAX_TRANSFER_BYTES, Subsystem, zones};
use crate::command::Drive;
use crate::namespace::FIRST;

mod id {
    pub const SUPPORTED: u8 = 0x00;
    pub const ERRORS: u8 = 0x01;
    pub const HEALTH: u8 = 0x02;
    pub const FIRMWARE: u8 = 0x03;
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    pub const COMMANDS: u8 = 0x05;
    pub const DISCOVERY: u8 = 0x70;
}

/// Bytes of the header of the discovery log, and of each of its entries.
const DISCOVERY_BYTES: usize = 1024;

pub fn get(
    controller: &mut Controller,
    command: &Submission,
    subsystem: &Subsystem,
    drive: &dyn Drive,
) -> Result<Vec<u8>, Status> {
    let words = ((u64::from(command.word(11) & 0xffff) << 16) | u64::from(command.word(10) >> 16)) + 1;
    let (length, offset) = (words * 4, command.double_word(12));
    if (command.room()? as u64) < length {
        return Err(status::SGL_LENGTH_INVALID);
    }
    if length > MAX_TRANSFER_BYTES as u64 || offset % 4 != 0 {
        return Err(status::INVALID_FIELD);
    }
    let page = whole(controller, command, subsystem, drive).ok_or(status::INVALID_LOG_PAGE)?;
    let rest = usize::try_from(offset).ok().and_then(|offset| page.get(offset..)).ok_or(status::INVALID_FIELD)?;
    // What lies behind the end is not defined; zeroes tell nothing.
    let mut answer = rest[..rest.len().min(length as usize)].to_vec();
    answer.resize(length as usize, 0);
    // Read, unless the host keeps its event: bit 15.
    if command.word(10) & (1 << 15) == 0 {
        let zones = drive.zones().map_or(0, |zones| zones.changed().len());
        controller.events.read(command.word(10) as u8, zones);
    }
    Ok(answer)
}

fn whole(controller: &Controller, command: &Submission, subsystem: &Subsystem, drive: &dyn Drive) -> Option<Vec<u8>> {
    match (command.word(10) as u8, controller.discovers) {
        (id::DISCOVERY, true) => Some(discovery(subsystem, &controller.host.name)),
        (_, true) | (id::DISCOVERY, _) => None,
        (id::SUPPORTED, _) => Some(supported(drive)),
        (id::ERRORS, _) => Some(errors(controller)),
        (id::HEALTH, _) => Some(health(drive, controller)),
        (id::FIRMWARE, _) => Some(page::<512>(&[(0, &[1]), (8, &padded::<8>(&drive.facts().firmware))])), // the active slot
        (id::CHANGED_NAMESPACES, _) => Some(changed_namespaces(controller, drive)),
        (id::COMMANDS, _) => commands(command, subsystem, drive),
        (zones::CHANGED_ZONES, _) => zones::changed(controller, drive),
        _ => None,
    }
}

fn supported(drive: &dyn Drive) -> Vec<u8> {
    let mut page = vec![0; 1024];
    let all = [id::SUPPORTED, id::ERRORS, id::HEALTH, id::FIRMWARE, id::CHANGED_NAMESPACES, id::COMMANDS];
    for id in all.into_iter().chain(drive.zones().map(|_| zones::CHANGED_ZONES)) {
        page[usize::from(id) * 4] = 1;
    }
    page
}

fn errors(controller: &Controller) -> Vec<u8> {
    let mut page: Vec<u8> = controller.errors.iter().flatten().copied().collect();
    page.resize(ERROR_ENTRIES * ERROR_BYTES, 0);
    page
}

/// Figure 207. Counts of data are in thousands of 512 bytes, rounded up.
fn health(drive: &dyn Drive, controller: &Controller) -> Vec<u8> {
    let (health, trouble) = (drive.health(), drive.trouble());
    let thousands = |bytes: u64| bytes.div_ceil(512_000);
    let counts = [
        thousands(health.read_bytes),
        thousands(health.written_bytes),
        health.reads,
        health.writes,
        health.busy_us / 60_000_000,
        health.unsafe_shutdowns + 1, // it was switched on once more than it lost its power
        health.power_on_s / 3600,
        health.unsafe_shutdowns,
        health.media_errors,
        controller.error_count,
    ];
    page::<512>(&[
        (0, &[controller.warnings(drive)]),
        (1, &KELVIN.to_le_bytes()),
        (3, &[if trouble.worn_out { 0 } else { 100 }]), // spare blocks, percent
        (4, &[10]),                                     // and the least
        (5, &[health.percentage_used]),
        (32, &counts.map(|count| u128::from(count).to_le_bytes()).concat()),
    ])
}

/// The drive changes as a whole, and with it all its namespaces.
fn changed_namespaces(controller: &Controller, drive: &dyn Drive) -> Vec<u8> {
    let count = if controller.events.namespace_changed { drive.namespace_count() } else { 0 };
    let ids: Vec<u8> = (FIRST..=count).flat_map(u32::to_le_bytes).collect();
    page::<4096>(&[(0, &ids)])
}

/// Which commands there are of the set that is asked for, and which of them change what is stored. There is no log of a
/// set that the drive does not have.
fn commands(command: &Submission, subsystem: &Subsystem, drive: &dyn Drive) -> Option<Vec<u8>> {
    const SUPPORTED: u8 = 1;
    const CHANGES_CONTENT: u8 = 2;
    let mut page = vec![0; 4096];
    let of_queues = if subsystem.pci_vendor.is_some() { &opcode::admin::OF_QUEUES[..] } else { &[] };
    for &code in opcode::admin::ALL.iter().chain(of_queues) {
        page[usize::from(code) * 4] = SUPPORTED;
    }
    let of_zones = match command.word(14) >> 24 {
        0 => &[],
        zones::COMMAND_SET => drive.zones().map(|_| &io::ZONED[..])?,
        _ => return None,
    };
    for &code in io::ALL.iter().chain(of_zones) {
        let changes = if io::CHANGE_CONTENT.contains(&code) { CHANGES_CONTENT } else { 0 };
        page[1024 + usize::from(code) * 4] = SUPPORTED | changes;
    }
    Some(page)
}

/// The log of the discovery service: it tells of the one subsystem those hosts that may use it (NVMe over Fabrics 1.1,
/// section 5). Addresses are filled with spaces, names with zeroes; a name's zeroes end it for those who do not mind, so
/// zeroes serve both.
fn discovery(subsystem: &Subsystem, host: &[u8]) -> Vec<u8> {
    let Some(address) = subsystem.address.filter(|_| subsystem.allows(host)) else {
        return vec![0; 2 * DISCOVERY_BYTES];
    };
    let entry = |at: usize| DISCOVERY_BYTES + at;
    // Over TCP, by which addresses, a subsystem that does I/O, and whose queues need no flow control.
    let kind = [3, if address.is_ipv4() { 1 } else { 2 }, 2, 1 << 2];
    page::<{ 2 * DISCOVERY_BYTES }>(&[
        (8, &[1]), // entries
        (entry(0), &kind),
        (entry(4), &1u16.to_le_bytes()), // the port
        (entry(6), &[0xff; 2]),          // any controller
        (entry(8), &subsystem.queue_entries.to_le_bytes()),
        (entry(32), address.port().to_string().as_bytes()),
        (entry(256), subsystem.name.as_bytes()),
        (entry(512), address.ip().to_string().as_bytes()),
    ])
}
