//! What hosts are told of a zoned namespace: Identify, logs and features (NVM Express Zoned Namespace Command Set Specification 1.1; the command sets
//! themselves: NVM Express Base Specification 2.0, sections 3.1.3.1 and 5.17).

use super::controller::Controller;
use super::entry::{Outcome, Submission};
use super::io::EVERY_NAMESPACE;
use super::opcode::{admin, io as opcode};
use super::{Subsystem, identify, status};
use crate::command::{Drive, DriveInfo};
use crate::namespace::FIRST;
use crate::zones::Zones;

/// The log of zones that changed by themselves.
pub const CHANGED_ZONES: u8 = 0xbf;

/// The identifier of the command set.
const ZONED: u32 = 2;

/// The feature I/O Command Set Profile.
const COMMAND_SET_PROFILE: u8 = 0x19;

/// Zones that the log of changes has room for.
const MOST_CHANGED: usize = 511;

/// What CAP says of command sets.
pub fn capability(drive: &dyn Drive) -> u64 {
    if drive.zones().is_some() { 1 << 43 } else { 0 }
}

/// Identify: that of any namespace, and what is different in a zoned one.
pub fn identify(controller: &Controller, command: &Submission, subsystem: &Subsystem, drive: &dyn Drive) -> Outcome {
    let facts = drive.facts();
    let (what, set) = (command.word(10) as u8, command.word(11) >> 24);
    let plain = || identify::identify(controller, command, subsystem, drive);
    let Some(zones) = drive.zones().filter(|_| !controller.discovers) else {
        return plain();
    };
    let changed = |at: usize, bytes: &[u8]| match plain() {
        Outcome::Data(mut page) => {
            page[at..at + bytes.len()].copy_from_slice(bytes);
            Outcome::Data(page)
        }
        refused => refused,
    };
    match (what, set) {
        // It tells of changed namespaces, and of changed zones.
        (0x01, _) => changed(92, &((1u32 << 8) | (1 << 27)).to_le_bytes()),
        // The descriptor of the command set, behind those of the identifiers.
        (0x03, 0) => changed(44, &[ZONED as u8]),
        (0x05..=0x07, ZONED) => of_command_set(command, what, zones, facts),
        // No namespace has the NVM command set as its own.
        (0x07, 0) => match plain() {
            Outcome::Data(page) => Outcome::Data(vec![0; page.len()]),
            refused => refused,
        },
        // Both sets together.
        (0x1c, 0) => changed(0, &[1 | (1 << ZONED)]),
        _ => plain(),
    }
}

/// What the command set itself says of the namespace, of the controller, and which namespaces have it.
fn of_command_set(command: &Submission, what: u8, zones: &Zones, facts: &DriveInfo) -> Outcome {
    match command.room() {
        Ok(room) if room >= identify::IDENTIFY_BYTES => {}
        Ok(_) => return status::SGL_LENGTH_INVALID.into(),
        Err(status) => return status.into(),
    }
    let mut page = vec![0; identify::IDENTIFY_BYTES];
    match (what, command.namespace()) {
        (0x05, FIRST) => describe_namespace(&mut page, zones, facts),
        (0x05, _) => return status::INVALID_NAMESPACE.into(),
        (0x06, _) => page[0] = (zones.geometry().append_bytes / 4096).ilog2() as u8,
        (_, 0) => page[..4].copy_from_slice(&FIRST.to_le_bytes()),
        (_, EVERY_NAMESPACE | 0xffff_fffe) => return status::INVALID_NAMESPACE.into(),
        _ => {}
    }
    Outcome::Data(page)
}

/// The namespace (figure 48). No zone changes by itself for another reason than its wear, and reads may cross
/// boundaries.
fn describe_namespace(page: &mut [u8], zones: &Zones, facts: &DriveInfo) {
    let geometry = zones.geometry();
    let limit = |most: u32| {
        let less_one = if most == geometry.count { u32::MAX } else { most - 1 };
        less_one.to_le_bytes()
    };
    page[2] = 1; // reads across boundaries
    page[4..8].copy_from_slice(&limit(geometry.most_active));
    page[8..12].copy_from_slice(&limit(geometry.most_open));
    let blocks = geometry.zone_bytes / u64::from(facts.block_bytes.max(1));
    page[2816..2824].copy_from_slice(&blocks.to_le_bytes());
}

/// Get and Set Features of the command sets: there is one combination of them.
pub fn feature(command: &Submission, drive: &dyn Drive) -> Option<Outcome> {
    drive.zones()?;
    if command.word(10) as u8 != COMMAND_SET_PROFILE {
        return None;
    }
    match command.opcode() {
        admin::SET_FEATURES if command.word(10) >> 31 != 0 => Some(status::FEATURE_NOT_SAVEABLE.into()),
        admin::SET_FEATURES if command.word(11) & 0x1ff != 0 => Some(status::COMMAND_SETS_REJECTED.into()),
        admin::GET_FEATURES | admin::SET_FEATURES => Some(Outcome::Done(0)),
        _ => None,
    }
}

/// The log of supported pages, with that of changed zones.
pub fn with_supported(mut page: Vec<u8>, drive: &dyn Drive) -> Vec<u8> {
    if drive.zones().is_some() {
        page[usize::from(CHANGED_ZONES) * 4] = 1;
    }
    page
}

/// The log of commands, of the set that is asked for; `None` for one that there is not.
pub fn with_commands(mut page: Vec<u8>, command: &Submission, drive: &dyn Drive) -> Option<Vec<u8>> {
    const SUPPORTED: u8 = 1;
    const CHANGES_CONTENT: u8 = 2;
    match (command.word(14) >> 24, drive.zones().is_some()) {
        (0, _) => {}
        (ZONED, true) => {
            page[1024 + usize::from(opcode::ZONE_MANAGEMENT_RECEIVE) * 4] = SUPPORTED;
            for code in [opcode::ZONE_MANAGEMENT_SEND, opcode::ZONE_APPEND] {
                page[1024 + usize::from(code) * 4] = SUPPORTED | CHANGES_CONTENT;
            }
        }
        _ => return None,
    }
    Some(page)
}

/// The log of zones that changed by themselves since the host read it; more than it has room for are not listed.
pub fn changed(controller: &Controller, drive: &dyn Drive) -> Option<Vec<u8>> {
    let zones = drive.zones()?;
    let block = u64::from(drive.facts().block_bytes.max(1));
    let changed = zones.changed().get(controller.events.zones_read()..).unwrap_or(&[]);
    let mut page = vec![0; 4096];
    if changed.len() > MOST_CHANGED {
        page[..2].copy_from_slice(&[0xff; 2]);
        return Some(page);
    }
    page[..2].copy_from_slice(&(changed.len() as u16).to_le_bytes());
    for (field, &number) in page[8..].chunks_exact_mut(8).zip(changed) {
        field.copy_from_slice(&(zones.start_bytes(number) / block).to_le_bytes());
    }
    Some(page)
}

/// The host read the log of changed zones.
pub fn read_changed(controller: &mut Controller, drive: &dyn Drive) {
    let changes = drive.zones().map_or(0, |zones| zones.changed().len());
    controller.events.read_zones(changes);
}
