//! A zoned namespace: what hosts are told of it, and the commands that only it has (NVM Express Zoned Namespace Command Set
//! Specification 1.1; command sets: NVM Express Base Specification 2.0, sections 3.1.3.1 and 5.17).

use super::MAX_TRANSFER_BYTES;
use super::command_table::Request;
use super::controller::Controller;
use super::entry::{Outcome, Submission, page};
use super::opcode::admin;
use super::status::{self, Status, of_zone};
use crate::command::{Drive, DriveInfo, Op};
use crate::zones::{Zone, ZoneAction, ZoneState, Zones};

/// The type of all zones: Sequential Write Required.
const SEQUENTIAL_WRITE_REQUIRED: u8 = 2;

/// Bytes of the head of a report, and of each zone in it.
const DESCRIPTOR_BYTES: usize = 64;

const REMAP_PROTECTION: u32 = 1 << 25;
const SELECT_ALL: u32 = 1 << 8;
const PARTIAL: u32 = 1 << 16;

/// The log of zones that changed by themselves.
pub const CHANGED_ZONES: u8 = 0xbf;

/// The identifier of the command set.
pub const COMMAND_SET: u32 = 2;

/// The feature I/O Command Set Profile.
const COMMAND_SET_PROFILE: u8 = 0x19;

/// Zones that the log of changes has room for.
const MOST_CHANGED: usize = 511;

/// The bit of CAP for several command sets.
pub fn capability(drive: &dyn Drive) -> u64 {
    if drive.zones().is_some() { 1 << 43 } else { 0 }
}

/// The namespace, as Identify of the command set describes it (figure 48). No zone changes by itself for another reason
/// than its wear, and reads may cross boundaries.
pub fn describe_namespace(zones: &Zones, facts: &DriveInfo) -> Vec<u8> {
    let geometry = zones.geometry();
    let limit = |most: u32| {
        let less_one = if most == geometry.count { u32::MAX } else { most - 1 };
        less_one.to_le_bytes()
    };
    let blocks = geometry.zone_bytes / u64::from(facts.block_bytes.max(1));
    page(&[
        (2, &[1]), // reads across boundaries
        (4, &limit(geometry.most_active)),
        (8, &limit(geometry.most_open)),
        (2816, &blocks.to_le_bytes()),
    ])
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

/// The log of zones that changed by themselves since the host read it; more than it has room for are not listed.
pub fn changed(controller: &Controller, drive: &dyn Drive) -> Option<Vec<u8>> {
    let zones = drive.zones()?;
    let block = u64::from(drive.facts().block_bytes.max(1));
    let changed = zones.changed().get(controller.events.zones_read()..).unwrap_or(&[]);
    let mut page = page(&[]);
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

/// An append: its place is found now, and nothing comes between that and the write.
pub fn place(command: &Submission, request: Request, drive: &dyn Drive) -> Result<Request, Status> {
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    if command.word(12) & REMAP_PROTECTION != 0 || request.length_bytes > zones.geometry().append_bytes {
        return Err(status::INVALID_FIELD);
    }
    if drive.facts().read_only {
        return Err(status::WRITE_PROTECTED);
    }
    let offset_bytes = zones.append_at(request.offset_bytes, request.length_bytes).map_err(of_zone)?;
    Ok(Request { offset_bytes, ..request })
}

/// Zone Management Send (section 3.4.3).
pub fn action(command: &Submission, drive: &dyn Drive) -> Result<Request, Status> {
    let action = match command.word(13) & 0xff {
        0x01 => ZoneAction::Close,
        0x02 => ZoneAction::Finish,
        0x03 => ZoneAction::Open,
        0x04 => ZoneAction::Reset,
        0x05 => ZoneAction::Offline,
        // There are no descriptor extensions, and no random write areas.
        _ => return Err(status::INVALID_FIELD),
    };
    let is_of_all = command.word(13) & SELECT_ALL != 0;
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    let (offset_bytes, length_bytes) = if is_of_all {
        (0, drive.facts().size_bytes)
    } else {
        let start_bytes = address(command, drive.facts())?;
        if zones.start_bytes(zones.number(start_bytes)) != start_bytes {
            return Err(status::INVALID_FIELD);
        }
        (start_bytes, zones.geometry().zone_bytes)
    };
    Ok(Request { op: Op::Zone(action, is_of_all), offset_bytes, length_bytes, fua: false })
}

/// The first byte of the block that a command names.
fn address(command: &Submission, facts: &DriveInfo) -> Result<u64, Status> {
    let block = u64::from(facts.block_bytes.max(1));
    let first = command.double_word(10);
    if first >= facts.size_bytes / block {
        return Err(status::LBA_OUT_OF_RANGE);
    }
    Ok(first * block)
}

/// Zone Management Receive (section 3.4.2): a report, never an extended one.
pub fn report(command: &Submission, drive: &dyn Drive) -> Result<Outcome, Status> {
    let zones = drive.zones().ok_or(status::INVALID_OPCODE)?;
    let facts = drive.facts();
    let start_bytes = address(command, facts)?;
    let length = (u64::from(command.word(12)) + 1) * 4;
    let (action, filter) = (command.word(13) & 0xff, (command.word(13) >> 8) & 0xff);
    if action != 0 || length < DESCRIPTOR_BYTES as u64 || length > MAX_TRANSFER_BYTES as u64 {
        return Err(status::INVALID_FIELD);
    }
    if (command.room()? as u64) < length {
        return Err(status::SGL_LENGTH_INVALID);
    }
    let is_wanted = filtered(filter).ok_or(status::INVALID_FIELD)?;
    let mut page = vec![0; length as usize];
    let room = page.len() / DESCRIPTOR_BYTES - 1;
    let from = zones.number(start_bytes);
    let numbered = (from..).zip(&zones.all()[from as usize..]);
    let mut count = 0;
    for (number, zone) in numbered.filter(|(_, zone)| is_wanted(zone.state)) {
        if count < room {
            let at = (count + 1) * DESCRIPTOR_BYTES;
            describe_zone(&mut page[at..at + DESCRIPTOR_BYTES], zones, number, zone, facts);
        } else if command.word(13) & PARTIAL != 0 {
            break;
        }
        count += 1;
    }
    page[..8].copy_from_slice(&(count as u64).to_le_bytes());
    Ok(Outcome::Data(page))
}

/// Which states a report wants.
fn filtered(filter: u32) -> Option<fn(ZoneState) -> bool> {
    Some(match filter {
        0 => |_| true,
        1 => |state| state == ZoneState::Empty,
        2 => |state| state == ZoneState::ImplicitlyOpened,
        3 => |state| state == ZoneState::ExplicitlyOpened,
        4 => |state| state == ZoneState::Closed,
        5 => |state| state == ZoneState::Full,
        6 => |state| state == ZoneState::ReadOnly,
        7 => |state| state == ZoneState::Offline,
        _ => return None,
    })
}

/// The descriptor of a zone (figure 37). Without a valid write pointer its field has all bits set.
fn describe_zone(into: &mut [u8], zones: &Zones, number: u32, zone: &Zone, facts: &DriveInfo) {
    let block = u64::from(facts.block_bytes.max(1));
    let has_pointer = zone.state == ZoneState::Empty || zone.state.is_active();
    let pointer = if has_pointer { zone.write_pointer_bytes / block } else { u64::MAX };
    into[0] = SEQUENTIAL_WRITE_REQUIRED;
    into[1] = (zone.state as u8) << 4;
    let numbers = [zones.geometry().capacity_bytes / block, zones.start_bytes(number) / block, pointer];
    for (field, number) in into[8..32].chunks_exact_mut(8).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
}
