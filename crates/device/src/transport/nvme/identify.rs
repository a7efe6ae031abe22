//! Identify: what the controller and its namespaces are (NVM Express Base Specification 2.0,
//! section 5.17; NVM Command Set Specification 1.0, section 4.1.5).

use super::controller::{Controller, ERROR_ENTRIES, VERSION};
use super::entry::{IDENTIFY_BYTES, Submission, padded, page};
use super::events::MAX_REQUESTS;
use super::features::WARNING_KELVIN;
use super::status::{self, Status};
use super::{DISCOVERY_NAME, EVERY_NAMESPACE, IN_CAPSULE_BYTES, MAX_SOURCES, MAX_TRANSFER_BYTES, Subsystem, zones};
use crate::command::Drive;
use crate::namespace::{FIRST, Namespace};

/// The critical temperature of the controller, in kelvin: 85 °C.
const CRITICAL_KELVIN: u16 = 358;

/// Values of CNS: the data structure that Identify returns.
mod what {
    pub const NAMESPACE: u8 = 0x00;
    pub const CONTROLLER: u8 = 0x01;
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    pub const DESCRIPTORS: u8 = 0x03;
    pub const NAMESPACE_OF_COMMAND_SET: u8 = 0x05;
    pub const CONTROLLER_OF_COMMAND_SET: u8 = 0x06;
    pub const ACTIVE_OF_COMMAND_SET: u8 = 0x07;
    pub const NAMESPACE_INDEPENDENTLY: u8 = 0x08;
    pub const COMMAND_SETS: u8 = 0x1c;
}

pub fn identify(
    controller: &Controller,
    command: &Submission,
    subsystem: &Subsystem,
    drive: &dyn Drive,
) -> Result<Vec<u8>, Status> {
    if command.room()? < IDENTIFY_BYTES {
        return Err(status::SGL_LENGTH_INVALID);
    }
    let (what, set, id) = (command.word(10) as u8, command.word(11) >> 24, command.namespace());
    if what == what::CONTROLLER {
        return Ok(describe_controller(controller, subsystem, drive));
    }
    // The command set of zones is there with them, and the NVM command set, 0, always.
    let zones = drive.zones().filter(|_| set == zones::COMMAND_SET);
    if controller.discovers || set != 0 && zones.is_none() {
        return Err(status::INVALID_FIELD);
    }
    if let Some(zones) = zones {
        return match what {
            what::NAMESPACE_OF_COMMAND_SET if id == FIRST => Ok(zones::describe_namespace(zones, drive.facts())),
            what::NAMESPACE_OF_COMMAND_SET => Err(status::INVALID_NAMESPACE),
            what::CONTROLLER_OF_COMMAND_SET => Ok(whole(&[(0, &[exponent(zones.geometry().append_bytes)])])),
            what::ACTIVE_OF_COMMAND_SET => active_namespaces(id, FIRST),
            _ => Err(status::INVALID_FIELD),
        };
    }
    let namespace = drive.namespace(id).ok_or(status::INVALID_NAMESPACE);
    let (count, is_zoned) = (drive.namespace_count(), drive.zones().is_some());
    match what {
        what::NAMESPACE => namespace.map(|of| describe_namespace(subsystem, of)),
        what::ACTIVE_NAMESPACES => active_namespaces(id, count),
        what::ACTIVE_OF_COMMAND_SET => active_namespaces(id, if is_zoned { 0 } else { count }),
        what::DESCRIPTORS => namespace.map(|of| descriptors(subsystem, of, is_zoned)),
        what::NAMESPACE_OF_COMMAND_SET => namespace.map(|_| whole(&[])),
        // What Verify reads has the limit of what is transferred; nothing else has one.
        what::CONTROLLER_OF_COMMAND_SET => Ok(whole(&[(0, &[exponent(MAX_TRANSFER_BYTES as u64)])])),
        // Shared; write protected or not; ready.
        what::NAMESPACE_INDEPENDENTLY => {
            namespace.map(|of| whole(&[(1, &[1]), (8, &[u8::from(of.facts.read_only)]), (14, &[1])]))
        }
        what::COMMAND_SETS => Ok(whole(&[(0, &[if is_zoned { 1 | (1 << zones::COMMAND_SET) } else { 1 }])])),
        _ => Err(status::INVALID_FIELD),
    }
}

fn whole(fields: &[(usize, &[u8])]) -> Vec<u8> {
    page::<IDENTIFY_BYTES>(fields)
}

/// The exponent of a longest transfer, in pages of 4 KiB.
fn exponent(most_bytes: u64) -> u8 {
    (most_bytes / 4096).ilog2() as u8
}

fn describe_controller(controller: &Controller, subsystem: &Subsystem, drive: &dyn Drive) -> Vec<u8> {
    let facts = drive.facts();
    let name = if controller.discovers { DISCOVERY_NAME } else { &subsystem.name };
    let kind = if controller.discovers { 2 } else { 1 };
    let mut described = whole(&[
        (4, &padded::<20>(&facts.serial)),
        (24, &padded::<40>(&facts.model)),
        (64, &padded::<8>(&facts.firmware)),
        (76, &[2]), // several controllers, each of a host
        (77, &[exponent(MAX_TRANSFER_BYTES as u64)]),
        (78, &controller.id.to_le_bytes()),
        (80, &VERSION.to_le_bytes()),
        (96, &1u32.to_le_bytes()), // host identifiers of 128 bits
        (111, &[kind]),
        (259, &[MAX_REQUESTS as u8 - 1]),
        (261, &[0b110]), // the log of commands; lengths and offsets of logs in full
        (262, &[ERROR_ENTRIES as u8 - 1]),
        (768, name.as_bytes()),
    ]);
    // They have bytes where the others have zeroes.
    let by_way = match subsystem.pci_vendor.map(u16::to_le_bytes) {
        Some(vendor) => whole(&[(0, &[vendor; 2].concat())]),
        None => of_fabrics(subsystem),
    };
    let by_kind = if controller.discovers { Vec::new() } else { of_io(drive) };
    for part in [by_way, by_kind] {
        described.iter_mut().zip(part).for_each(|(byte, of_part)| *byte |= of_part);
    }
    described
}

/// The fields of a controller that is reached by fabrics.
fn of_fabrics(subsystem: &Subsystem) -> Vec<u8> {
    whole(&[
        (320, &10u16.to_le_bytes()), // keep alive in steps of a second
        (514, &subsystem.queue_entries.to_le_bytes()),
        // Data pointers need no alignment, may be offsets, and may be the transport's.
        (536, &(1u32 | (1 << 20) | (1 << 21)).to_le_bytes()),
        (1792, &((64 + IN_CAPSULE_BYTES as u32) / 16).to_le_bytes()),
        (1796, &1u32.to_le_bytes()), // completions of 16 bytes
        (1803, &[1]),                // one descriptor in a capsule
    ])
}

/// The fields of a controller that does I/O.
fn of_io(drive: &dyn Drive) -> Vec<u8> {
    let (facts, namespaces) = (drive.facts(), drive.namespace_count());
    let used_bytes: u64 = (FIRST..=namespaces).filter_map(|id| Some(drive.namespace(id)?.facts.size_bytes)).sum();
    let free_bytes = facts.size_bytes.saturating_sub(used_bytes);
    let of_zones = u32::from(drive.zones().is_some()) << 27;
    whole(&[
        (92, &((1u32 << 8) | of_zones).to_le_bytes()), // tells of changed namespaces, and of changed zones
        (258, &[3]),                                   // Aborts at a time, less one
        (260, &[0b11]),                                // one slot for firmware, read-only
        (266, &WARNING_KELVIN.to_le_bytes()),
        (268, &CRITICAL_KELVIN.to_le_bytes()),
        (280, &u128::from(facts.size_bytes).to_le_bytes()),
        (296, &u128::from(free_bytes).to_le_bytes()),
        (512, &[0x66, 0x44]),
        (516, &namespaces.to_le_bytes()),
        // Compare, Dataset Management, Write Zeroes, selected values of features, Timestamp, Verify, Copy.
        (520, &(1u16 | (1 << 2) | (1 << 3) | (1 << 4) | (1 << 6) | (1 << 7) | (1 << 8)).to_le_bytes()),
        // A flush of all namespaces is known; whether there is a cache.
        (525, &[0b110 | u8::from(facts.volatile_cache)]),
        (534, &[1]), // source ranges of Copy: format 0
        (540, &namespaces.to_le_bytes()),
        (2048, &2500u16.to_le_bytes()), // the one power state: 25 W
    ])
}

fn describe_namespace(subsystem: &Subsystem, namespace: Namespace<'_>) -> Vec<u8> {
    let facts = namespace.facts;
    let blocks = (facts.size_bytes / u64::from(facts.block_bytes.max(1))).to_le_bytes();
    let exponent = facts.block_bytes.max(1).ilog2();
    // Numbers of blocks, less one.
    let blocks_of = |bytes: u32| ((bytes >> exponent).saturating_sub(1) as u16).to_le_bytes();
    let (preferred, atomic) = (blocks_of(facts.preferred_bytes), blocks_of(facts.atomic_bytes()));
    whole(&[
        (0, &[blocks; 3].concat()),  // its size, its capacity, and what is used
        (24, &[0b1_0010]),           // has atomic units of its own, and preferred sizes
        (30, &[1]),                  // shared by several controllers
        (33, &[0b1001]),             // deallocated blocks read as zeroes; Write Zeroes may deallocate
        (34, &[atomic; 2].concat()), // as seen by other commands, and then when power is lost
        (40, &atomic),               // within these boundaries
        (44, &atomic),
        (48, &u128::from(facts.size_bytes).to_le_bytes()),
        (64, &[preferred; 5].concat()), // writes: unit, alignment; deallocation: unit, alignment; best size
        (74, &((MAX_TRANSFER_BYTES >> exponent) as u16).to_le_bytes()), // Copy: blocks of a range, of all, ranges less one
        (76, &((MAX_TRANSFER_BYTES >> exponent) as u32).to_le_bytes()),
        (80, &[MAX_SOURCES as u8 - 1]),
        (99, &[u8::from(facts.read_only)]),
        (104, &subsystem.uuid_of(namespace.id)),
        (128, &(exponent << 16).to_le_bytes()),
    ])
}

/// Numbers of the namespaces behind one, as many as a page holds.
fn active_namespaces(after: u32, count: u32) -> Result<Vec<u8>, Status> {
    if matches!(after, EVERY_NAMESPACE | 0xffff_fffe) {
        return Err(status::INVALID_NAMESPACE);
    }
    let ids = (after + 1..=count).take(IDENTIFY_BYTES / 4).flat_map(u32::to_le_bytes);
    Ok(whole(&[(0, &ids.collect::<Vec<u8>>())]))
}

fn descriptors(subsystem: &Subsystem, namespace: Namespace<'_>, is_zoned: bool) -> Vec<u8> {
    let set = if is_zoned { zones::COMMAND_SET as u8 } else { 0 };
    let uuid = subsystem.uuid_of(namespace.id);
    // Types 2, 3 and 4: NGUID, UUID, and the command set.
    whole(&[(0, &[2, 16]), (4, &uuid), (20, &[3, 16]), (24, &uuid), (40, &[4, 1, 0, 0, set])])
}
